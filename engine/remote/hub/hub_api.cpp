// SPDX-License-Identifier: Apache-2.0

#include "remote/hub/hub_api.hpp"

#include <algorithm>
#include <utility>

#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "catalog/model_folder.hpp"
#include "formats/text/json_reader.hpp"
#include "remote/http/percent_encoding.hpp"

namespace ringload::inline v0::remote_http {

namespace {

constexpr std::size_t files_max = 100'000;
constexpr std::size_t name_bytes_max = 1024;
constexpr unsigned depth_max = 32;
constexpr std::size_t sha256_digits = 64;

bool is_hex(std::string_view text, std::size_t digits) noexcept {
  return text.size() == digits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool stays_inside(std::string_view name) noexcept {
  if (name.empty() || name.size() > name_bytes_max || has_control_character(name)) return false;
  while (true) {
    const std::size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == name.npos) return true;
    name.remove_prefix(slash + 1);
  }
}

class listing_reader {
 public:
  explicit listing_reader(std::string_view json) : in_(json) {}

  bool read();
  hub_listing take() { return std::move(out_); }
  fault at_fault() const {
    return {errc::malformed_answer, "byte " + grouped(in_.position()), in_.cause()};
  }

 private:
  bool read_files();
  bool read_file();
  bool read_lfs(hub_file& into);
  bool read_size(std::optional<std::uint64_t>& into);
  bool skip() { return in_.skip_value(depth_max); }

  json_reader in_;
  hub_listing out_;
};

bool listing_reader::read() {
  bool files_seen = false;
  std::string_view key;
  if (!in_.enter_object()) return false;
  while (in_.next_key(key)) {
    bool parsed = false;
    if (key == "sha") {
      std::string_view commit;
      if (!in_.string(commit)) return false;
      if (!is_commit(commit)) return in_.fail("'sha' is not a commit of 40 hexadecimal digits");
      out_.commit = commit;
      parsed = true;
    } else if (key == "siblings") {
      if (std::exchange(files_seen, true)) return in_.fail("duplicate key 'siblings'");
      parsed = read_files();
    } else {
      parsed = skip();
    }
    if (!parsed) return false;
  }
  if (!in_.end()) return false;
  if (out_.commit.empty()) return in_.fail("missing key 'sha'");
  return files_seen || in_.fail("missing key 'siblings'");
}

bool listing_reader::read_files() {
  if (!in_.enter_array()) return false;
  while (in_.next_item()) {
    if (out_.files.size() == files_max) {
      return in_.fail("the model has more than " + grouped(files_max) + " files");
    }
    if (!read_file()) return false;
  }
  return !in_.failed();
}

bool listing_reader::read_file() {
  hub_file next;
  std::string blob;
  std::string_view key;
  if (!in_.enter_object()) return false;
  while (in_.next_key(key)) {
    std::string_view text;
    bool parsed = false;
    if (key == "rfilename") {
      parsed = in_.string(text);
      next.name = text;
      if (parsed && !stays_inside(text)) {
        return in_.fail("the file name '" + printable(text) + "' leaves the model");
      }
    } else if (key == "blobId" && in_.peek() == '"') {
      parsed = in_.string(text);
      blob = text;
    } else if (key == "size") {
      parsed = read_size(next.bytes);
    } else if (key == "lfs" && in_.peek() == '{') {
      parsed = read_lfs(next);
    } else {
      parsed = skip();
    }
    if (!parsed) return false;
  }
  if (in_.failed()) return false;
  if (next.name.empty()) return in_.fail("a file has no 'rfilename'");
  if (next.digest.empty() && is_commit(blob)) next.digest = blob;
  out_.files.push_back(std::move(next));
  return true;
}

bool listing_reader::read_lfs(hub_file& into) {
  std::string_view key;
  in_.enter_object();
  while (in_.next_key(key)) {
    bool parsed = false;
    if (key == "sha256") {
      std::string_view digest;
      if (!in_.string(digest)) return false;
      if (!is_hex(digest, sha256_digits))
        return in_.fail("'sha256' does not have 64 hexadecimal digits");
      into.digest = digest;
      parsed = true;
    } else if (key == "size") {
      parsed = read_size(into.bytes);
    } else {
      parsed = skip();
    }
    if (!parsed) return false;
  }
  return !in_.failed();
}

bool listing_reader::read_size(std::optional<std::uint64_t>& into) {
  if (in_.peek() == 'n') return in_.null();
  std::uint64_t bytes = 0;
  if (!in_.unsigned_integer(bytes)) return false;
  into = bytes;
  return true;
}

std::string page_of(std::string_view endpoint, const model_name& model) {
  return printable_path(std::string(endpoint) + "/" + model.repository);
}

}  // namespace

const hub_file* hub_listing::find(std::string_view name) const noexcept {
  const auto found = std::ranges::lower_bound(files, name, {}, &hub_file::name);
  return found != files.end() && found->name == name ? &*found : nullptr;
}

void add_entry(std::string_view name, std::vector<std::string>& to) {
  const std::string_view entry = name.substr(0, name.find('/'));
  if (to.empty() || to.back() != entry) to.emplace_back(entry);
}

std::string hub_listing_address(std::string_view endpoint, const model_name& model) {
  return std::string(endpoint) + "/api/models/" + model.repository + "/revision/" +
         percent_encoded(model.revision) + "?blobs=true";
}

std::string hub_file_address(std::string_view endpoint, const std::string& repository,
                             std::string_view revision, std::string_view file) {
  return std::string(endpoint) + "/" + repository + "/resolve/" + percent_encoded(revision) + "/" +
         percent_encoded_path(file);
}

result<hub_listing> parse_hub_listing(std::string_view json) {
  if (const std::size_t valid = utf8_valid_bytes(json); valid != json.size()) {
    return fault{errc::malformed_answer, "byte " + grouped(valid), "invalid UTF-8"};
  }
  listing_reader reader(json);
  if (!reader.read()) return reader.at_fault();
  hub_listing out = reader.take();
  std::ranges::sort(out.files, {}, &hub_file::name);
  const auto duplicate = std::ranges::adjacent_find(out.files, {}, &hub_file::name);
  if (duplicate != out.files.end()) {
    return fault{errc::malformed_answer, "", "duplicate file '" + printable(duplicate->name) + "'"};
  }
  return out;
}

fault hub_fault(const hub_refusal& response, std::string_view endpoint, const model_name& model) {
  const std::string page = page_of(endpoint, model);
  const bool refuses = response.status == 401 || response.status == 403;
  if (response.error_code == "RevisionNotFound") {
    return {errc::source_not_found, page,
            "the model has no revision '" + printable(model.revision) + "'"};
  }
  if (response.error_code == "EntryNotFound") {
    return {errc::source_not_found, page, "the model has no such file in this revision"};
  }
  if (response.error_code == "GatedRepo" || (response.status == 403 && response.had_token)) {
    return {errc::access_denied, page,
            response.had_token
                ? "the model is gated, and this token's account has no access: request access on "
                  "the model's page"
                : "the model is gated: request access on its page, then set the token of the "
                  "account that has access"};
  }
  // The hub does not distinguish hidden models from models that do not exist.
  if (refuses || response.status == 404 || response.error_code == "RepoNotFound") {
    return {refuses ? errc::access_denied : errc::source_not_found, page,
            response.had_token ? "there is no such model, or it is private and the token is not "
                                 "valid or gives no access"
                               : "there is no such model, or it is private and needs a token"};
  }
  return {errc::remote_failed, page,
          "the hub answered with the status " + std::to_string(response.status)};
}

}  // namespace ringload::inline v0::remote_http
