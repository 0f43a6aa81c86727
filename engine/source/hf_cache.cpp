// SPDX-License-Identifier: Apache-2.0
#include "source/hf_cache.hpp"

#include <algorithm>
#include <cstdlib>

#include "formats/printable.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::string_view default_revision = "main";
constexpr std::size_t repository_name_max = 96;
constexpr std::size_t revision_bytes_max = 255;
constexpr std::size_t ref_bytes_max = 1024;

bool is_word(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// As a shell does: $NAME and ${NAME}; what is not set stays as it is written.
std::string expand_variables(std::string_view text, const environment& variables) {
  std::string out;
  while (!text.empty()) {
    const bool braced = text.starts_with("${");
    const std::string_view rest = text.substr(std::min<std::size_t>(braced ? 2 : 1, text.size()));
    const auto name_end = std::ranges::find_if_not(rest, is_word);
    const std::string_view name(rest.begin(), name_end);
    const bool closed = !braced || (name_end != rest.end() && *name_end == '}');
    if (text.front() == '$' && !name.empty() && closed) {
      const std::size_t bytes = name.size() + (braced ? 3 : 1);
      out += variables(std::string(name)).value_or(std::string(text.substr(0, bytes)));
      text.remove_prefix(bytes);
    } else {
      out += text.front();
      text.remove_prefix(1);
    }
  }
  return out;
}

std::string expand(std::string text, const environment& variables) {
  const bool at_home = text == "~" || text.starts_with("~/");
  if (const auto home = at_home ? variables("HOME") : std::nullopt) text.replace(0, 1, *home);
  return expand_variables(text, variables);
}

std::optional<std::string> value_of(const char* name, const environment& variables) {
  auto value = variables(name);
  if (!value || value->empty()) return std::nullopt;
  return expand(*std::move(value), variables);
}

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
    if (auto bad = check_part(text.substr(0, slash))) return bad;
  }
  if (auto bad = check_part(name)) return bad;
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

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view blank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(blank);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(blank) + 1 - begin);
}

result<std::string> commit_of(const model_folder& repository, const model_name& model) {
  if (is_commit(model.revision)) return model.revision;
  const std::string ref = "refs/" + model.revision;
  const std::string place = printable_path(repository.path_of(ref));
  auto text = repository.read_text(ref, ref_bytes_max);
  if (!text) {
    fault bad = text.error();
    if (bad.code == errc::source_not_found) {
      bad.cause = "the cache has no revision '" + printable(model.revision) + "' of this model";
    }
    return bad.in(place);
  }
  const std::string_view commit = trimmed(*text);
  if (is_commit(commit)) return std::string(commit);
  return fault{errc::source_not_found, place,
               "expected a commit of 40 hexadecimal digits but found '" + printable(commit) + "'"};
}

}  // namespace

environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

result<std::string> cache_folder(const environment& variables) {
  if (auto folder = value_of("HF_HUB_CACHE", variables)) return *folder;
  if (auto folder = value_of("HUGGINGFACE_HUB_CACHE", variables)) return *folder;
  if (auto home = value_of("HF_HOME", variables)) return *home + "/hub";
  if (auto home = value_of("XDG_CACHE_HOME", variables)) return *home + "/huggingface/hub";
  if (auto home = value_of("HOME", variables)) return *home + "/.cache/huggingface/hub";
  return fault{
      errc::source_not_found, "",
      "there is no Hugging Face cache, since neither HF_HUB_CACHE, HF_HOME nor HOME is set"};
}

result<model_name> parse_model_name(std::string_view text) {
  const std::size_t at = text.find('@');
  const std::string_view repository = text.substr(0, at);
  const std::string_view revision = at == text.npos ? default_revision : text.substr(at + 1);
  if (auto bad = check_repository(repository)) return *bad;
  if (auto bad = check_revision(revision)) return *bad;
  return model_name{std::string(repository), std::string(revision)};
}

namespace {

constexpr std::string_view hub = "https://huggingface.co/";

// Takes the part of the path up to the next '/', and that with it.
std::string_view take_part(std::string_view& path) noexcept {
  const std::size_t slash = path.find('/');
  const std::string_view part = path.substr(0, slash);
  path = slash == path.npos ? std::string_view() : path.substr(slash + 1);
  return part;
}

// In a revision the hub's pages write a '/' as %2F; no other escape can stand in one.
std::string revision_of(std::string_view part) {
  std::string out;
  while (!part.empty()) {
    const bool slash = part.starts_with("%2F") || part.starts_with("%2f");
    out += slash ? '/' : part.front();
    part.remove_prefix(slash ? 3 : 1);
  }
  return out;
}

}  // namespace

bool is_hub_address(std::string_view text) noexcept { return text.starts_with(hub); }

result<hub_address> parse_hub_address(std::string_view text) {
  if (!is_hub_address(text)) return invalid("this is no address of huggingface.co");
  std::string_view path = text.substr(hub.size());
  path = path.substr(0, path.find_first_of("?#"));
  const std::string_view owner = take_part(path);
  const std::string_view name = take_part(path);
  std::string model = std::string(owner);
  if (!name.empty()) model += "/" + std::string(name);
  const std::string_view what = take_part(path);
  hub_address out;
  if (what == "tree" || what == "resolve" || what == "blob" || what == "raw") {
    model += "@" + revision_of(take_part(path));
    if (what != "tree") out.file = path;
    if (what != "tree" && out.file.empty()) return invalid("the address names no file");
    if (what == "tree" && !path.empty()) {
      return invalid(
          "the address is of a folder inside the model; a model is taken whole, or one "
          "file of it by /resolve/REVISION/FILE");
    }
  } else if (!what.empty()) {
    return invalid("the address is neither a model's nor a file's of one");
  }
  auto parsed = parse_model_name(model);
  if (!parsed) return parsed.error();
  out.model = std::move(*parsed);
  return out;
}

std::string repository_folder(const model_name& model) {
  std::string out = "models--" + model.repository;
  if (const std::size_t slash = out.find('/'); slash != out.npos) out.replace(slash, 1, "--");
  return out;
}

result<model_folder> open_cached_model(const std::string& cache, const model_name& model) {
  const std::string root = cache + "/" + repository_folder(model);
  auto repository = model_folder::open_rooted(root, "", root);
  if (!repository) {
    fault bad = repository.error();
    const bool absent = bad.code == boost::system::errc::no_such_file_or_directory ||
                        bad.code == boost::system::errc::not_a_directory;
    if (absent) {
      bad = {errc::source_not_found, "", "the Hugging Face cache does not hold this model"};
    }
    return bad.in(printable_path(root));
  }
  auto commit = commit_of(*repository, model);
  if (!commit) return commit.error();

  const std::string inside = "snapshots/" + *commit;
  auto snapshot = model_folder::open_rooted(root, inside + "/", repository->path_of(inside));
  if (!snapshot) return snapshot.error().in(printable_path(root));
  if (auto names = snapshot->names(); !names) {
    fault bad = names.error();
    if (bad.code == errc::source_not_found) {
      bad.cause = "the cache does not hold this commit of the model: an incomplete download?";
    }
    return bad.in(printable_path(snapshot->shown()));
  }
  return snapshot;
}

}  // namespace ringload::inline v0
