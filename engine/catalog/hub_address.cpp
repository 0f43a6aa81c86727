// SPDX-License-Identifier: Apache-2.0

#include "catalog/hub_address.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/printable.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::string_view default_revision = "main";
constexpr std::size_t repository_name_max = 96;
constexpr std::size_t revision_bytes_max = 255;

fault invalid(std::string cause) { return {errc::invalid_source_name, "", std::move(cause)}; }

std::optional<fault> check_part(std::string_view part) {
  const auto is_allowed = [](char c) { return is_word(c) || c == '-' || c == '.'; };
  const auto is_edge = [](char c) { return c == '-' || c == '.'; };
  if (part.empty()) return invalid("a part of the model's name is empty");
  if (!std::ranges::all_of(part, is_allowed)) {
    return invalid("a model's name has only letters, digits, '_', '-' and '.'");
  }
  if (is_edge(part.front()) || is_edge(part.back())) {
    return invalid("no part of a model's name begins or ends with '-' or '.'");
  }
  if (part.find("--") != part.npos || part.find("..") != part.npos) {
    return invalid("a model's name has no '--' and no '..'");
  }
  return std::nullopt;
}

std::optional<fault> check_repository(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::string_view name = slash == text.npos ? text : text.substr(slash + 1);
  if (slash != text.npos) {
    if (auto problem = check_part(text.substr(0, slash))) return problem;
  }
  if (auto problem = check_part(name)) return problem;
  if (name.size() > repository_name_max) return invalid("the model's name is too long");
  if (name.ends_with(".git")) return invalid("a model's name does not end with '.git'");
  return std::nullopt;
}

std::optional<fault> check_revision(std::string_view text) {
  if (text.empty()) return invalid("the revision after '@' is empty");
  if (text.size() > revision_bytes_max) return invalid("the revision is too long");
  if (has_control_character(text)) return invalid("the revision holds a control character");
  while (true) {
    const std::size_t slash = text.find('/');
    const std::string_view part = text.substr(0, slash);
    if (part.empty() || part == "." || part == "..") {
      return invalid("a revision is a branch, a tag or a commit, and no path");
    }
    if (slash == text.npos) return std::nullopt;
    text.remove_prefix(slash + 1);
  }
}

}  // namespace

result<model_name> parse_model_name(std::string_view text) {
  const std::size_t position = text.find('@');
  const std::string_view repository = text.substr(0, position);
  const std::string_view revision =
      position == text.npos ? default_revision : text.substr(position + 1);
  if (auto problem = check_repository(repository)) return *problem;
  if (auto problem = check_revision(revision)) return *problem;
  return model_name{std::string(repository), std::string(revision)};
}

namespace {

constexpr std::string_view name_scheme = "hf://";
constexpr std::string_view page_schemes[] = {"https://", "http://"};
constexpr std::string_view page_hosts[] = {"huggingface.co/", "www.huggingface.co/", "hf.co/"};

// Returns the path after the host if the text is the address of a hub page. Otherwise returns an
// empty optional.
std::optional<std::string_view> page_path(std::string_view text) noexcept {
  for (const std::string_view scheme : page_schemes) {
    if (!begins_with_scheme(text, scheme)) continue;
    const std::string_view after_scheme = text.substr(scheme.size());
    for (const std::string_view host : page_hosts) {
      if (begins_with_scheme(after_scheme, host)) return after_scheme.substr(host.size());
    }
  }
  return std::nullopt;
}

// Removes the first part of the path, with its '/', and returns the part without the '/'.
std::string_view take_part(std::string_view& path) noexcept {
  const std::size_t slash = path.find('/');
  const std::string_view part = path.substr(0, slash);
  path = slash == path.npos ? std::string_view() : path.substr(slash + 1);
  return part;
}

// Pages of the hub write the '/' of a revision as %2F. A revision has no other escapes.
std::string revision_of(std::string_view part) {
  std::string out;
  while (!part.empty()) {
    const bool slash = part.starts_with("%2F") || part.starts_with("%2f");
    out += slash ? '/' : part.front();
    part.remove_prefix(slash ? 3 : 1);
  }
  return out;
}

// Decodes the escapes in the path of a page: "%20" becomes a space.
result<std::string> decoded_path(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return invalid("a '%' in the name of the file is not followed by two hexadecimal digits");
    }
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  if (has_control_character(out)) return invalid("the name of the file holds a control character");
  return out;
}

result<hub_address> make_hub_address(std::string_view repository, std::string_view revision,
                                     std::string_view file) {
  std::string text(repository);
  if (!revision.empty()) text += "@" + revision_of(revision);
  auto model = parse_model_name(text);
  if (!model) return model.error();
  return hub_address{std::move(*model), std::string(file)};
}

// Removes the revision from the front of the path and returns the revision. A '/' in refs/pr/N and
// refs/convert/NAME is not escaped.
std::string_view take_revision(std::string_view& path) noexcept {
  const bool special = path.starts_with("refs/pr/") || path.starts_with("refs/convert/");
  std::string_view remaining_path = path;
  if (special) {
    take_part(remaining_path);
    take_part(remaining_path);
  }
  take_part(remaining_path);
  std::string_view out = path.substr(0, path.size() - remaining_path.size());
  if (out.ends_with('/')) out.remove_suffix(1);
  path = remaining_path;
  return out;
}

// Parses owner/model[@REVISION][/FILE].
result<hub_address> parse_name(std::string_view path) {
  const std::size_t owner_end = path.find('/');
  const std::string_view owner = path.substr(0, owner_end);
  if (owner == "datasets" || owner == "spaces") {
    return invalid("only models are loaded from the hub, no datasets and no spaces");
  }
  // The revision is after the first '@', also in an address with one part: hf://gpt2@main.
  const std::size_t position = path.find('@');
  const std::size_t model_end = owner_end == path.npos ? path.npos : path.find('/', owner_end + 1);
  if (position == path.npos || position > model_end) {
    const std::string_view file = model_end == path.npos ? "" : path.substr(model_end + 1);
    return make_hub_address(path.substr(0, model_end), "", file);
  }
  std::string_view remaining_path = path.substr(position + 1);
  const std::string_view revision = take_revision(remaining_path);
  if (revision.empty()) return invalid("the revision after '@' is empty");
  return make_hub_address(path.substr(0, position), revision, remaining_path);
}

// Parses owner/model, owner/model/tree/REVISION, and owner/model/(resolve|blob|raw)/REVISION/FILE.
result<hub_address> parse_page(std::string_view path) {
  path = path.substr(0, path.find_first_of("?#"));
  const std::string_view owner = take_part(path);
  const std::string_view name = take_part(path);
  std::string model = std::string(owner);
  if (!name.empty()) model += "/" + std::string(name);
  const std::string_view page_kind = take_part(path);
  if (page_kind.empty()) return make_hub_address(model, "", "");
  const bool is_folder = page_kind == "tree";
  if (!is_folder && page_kind != "resolve" && page_kind != "blob" && page_kind != "raw") {
    return invalid("expected the address of a model or of a file in a model");
  }
  const std::string_view revision = take_part(path);
  if (revision.empty()) return invalid("the address names no revision");
  if (!is_folder && path.empty()) return invalid("the address names no file");
  if (is_folder && !path.empty()) {
    return invalid(
        "the address names a folder inside the model, expected a model, or one file of it by "
        "/resolve/REVISION/FILE");
  }
  auto file = decoded_path(path);
  if (!file) return file.error();
  return make_hub_address(model, revision, *file);
}

}  // namespace

bool begins_with_scheme(std::string_view text, std::string_view scheme) noexcept {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return text.size() >= scheme.size() &&
         std::ranges::equal(text.substr(0, scheme.size()), scheme, {}, lower);
}

bool is_hub_address(std::string_view text) noexcept {
  return begins_with_scheme(text, name_scheme) || page_path(text).has_value();
}

result<hub_address> parse_hub_address(std::string_view text) {
  if (begins_with_scheme(text, name_scheme)) return parse_name(text.substr(name_scheme.size()));
  if (const auto path = page_path(text)) return parse_page(*path);
  return invalid("expected the address of a model on the hub");
}

}  // namespace ringload::inline v0
