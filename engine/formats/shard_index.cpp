// SPDX-License-Identifier: Apache-2.0

#include "formats/shard_index.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "formats/text/json_number.hpp"
#include "formats/text/json_reader.hpp"
#include "formats/text/json_text.hpp"

namespace ringload::inline v0 {

namespace {

// Maximum nesting depth, including the outermost object.
constexpr unsigned index_depth_max = 127;

constexpr std::string_view encoding_key = "delta_encoding";

struct listing {
  std::string_view tensor;
  std::string_view shard;
};

class index_reader {
 public:
  explicit index_reader(std::string_view text) : in_(text) {}

  bool read();
  // Reads the metadata if it is the first value of the index. Returns false otherwise.
  bool read_first_metadata();
  std::vector<listing>& listings() noexcept { return listings_; }
  std::optional<std::uint64_t> total_bytes() const noexcept { return total_bytes_; }
  bool is_delta() const noexcept { return texts_.contains(encoding_key); }
  // Returns the description of a delta. Fails if a key is missing.
  result<index_delta> delta() const;
  fault parse_fault() const {
    return {errc::malformed_index, "byte " + grouped(in_.position()), in_.cause()};
  }

 private:
  bool read_metadata();
  bool read_weight_map();

  json_reader in_;
  std::vector<listing> listings_;
  std::optional<std::uint64_t> total_bytes_;
  // The string values of the metadata, by key.
  std::map<std::string, std::string, std::less<>> texts_;
  std::optional<std::string> duplicate_key_;  // A key that the metadata has twice.
};

result<index_delta> index_reader::delta() const {
  index_delta read;
  const std::pair<std::string_view, std::string*> expected[] = {
      {encoding_key, &read.encoding},
      {"version", &read.version},
      {"base_version", &read.base_version},
      {"compression_format", &read.compression},
      {"checksum_format", &read.checksum}};
  for (const auto& [key, into] : expected) {
    const auto found = texts_.find(key);
    if (found == texts_.end()) {
      return fault{errc::malformed_index, "metadata",
                   "the index describes a delta, but lacks the text '" + std::string(key) + "'"};
    }
    *into = found->second;
  }
  return read;
}

bool index_reader::read() {
  bool map_seen = false;
  std::string_view key;
  if (!in_.enter_object()) return false;
  while (in_.next_key(key)) {
    bool accepted = false;
    if (key == "weight_map") {
      if (std::exchange(map_seen, true)) return in_.fail("duplicate key 'weight_map'");
      accepted = read_weight_map();
    } else if (key == "metadata" && in_.peek() == '{') {
      accepted = read_metadata();
    } else {
      accepted = in_.skip_value(index_depth_max - 1);
    }
    if (!accepted) return false;
  }
  if (!in_.end()) return false;
  if (!map_seen) return in_.fail("the key 'weight_map' is missing");
  if (is_delta() && duplicate_key_) {
    return in_.fail("duplicate key '" + printable(*duplicate_key_) + "' in the metadata");
  }
  return !listings_.empty() || is_delta() || in_.fail("the 'weight_map' is empty");
}

bool index_reader::read_first_metadata() {
  std::string_view key;
  return in_.enter_object() && in_.next_key(key) && key == "metadata" && in_.peek() == '{' &&
         read_metadata();
}

// If the index is no delta index, the metadata is only informative, so any well-formed JSON is
// accepted.
bool index_reader::read_metadata() {
  std::string_view key;
  std::string_view text;
  in_.enter_object();
  while (in_.next_key(key)) {
    const char first = in_.peek();
    if (key == "total_size" && first >= '0' && first <= '9') {
      std::string_view number;
      if (!in_.number(number)) return false;
      total_bytes_ = json_truncated(number);  // Some programs write 1.2e10.
    } else if (const std::string name(key); first == '"') {
      if (!in_.string(text)) return false;
      if (!texts_.emplace(name, text).second) duplicate_key_ = name;
    } else if (!in_.skip_value(index_depth_max - 2)) {
      return false;
    }
  }
  return !in_.failed();
}

bool index_reader::read_weight_map() {
  listing next;
  if (!in_.enter_object()) return false;
  while (in_.next_key(next.tensor)) {
    if (!in_.string(next.shard)) return false;
    listings_.push_back(next);
  }
  return !in_.failed();
}

bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Applies the rules of POSIX and of Windows, so that every system refuses the same models.
bool may_leave_folder(std::string_view path) noexcept {
  const auto is_separator = [](char c) { return c == '/' || c == '\\'; };
  if (path.empty() || is_separator(path.front())) return true;
  while (!path.empty()) {
    const auto part_end = std::ranges::find_if(path, is_separator);
    const std::string_view part(path.begin(), part_end);
    if (part == "..") return true;
    if (part.size() >= 2 && part[1] == ':' && is_letter(part[0])) return true;
    path.remove_prefix(std::min(part.size() + 1, path.size()));
  }
  return false;
}

std::optional<fault> check_shard(const listing& listed, std::string_view suffix) {
  const auto refused = [&](errc code, std::string cause) {
    return fault{code, tensor_place(listed.tensor),
                 "its shard '" + printable(listed.shard) + "' " + std::move(cause)};
  };
  if (may_leave_folder(listed.shard)) {
    return refused(errc::path_outside_source, "is not a path inside the model's folder");
  }
  if (!listed.shard.ends_with(suffix)) {
    return refused(errc::malformed_index, "is not a " + std::string(suffix) + " file");
  }
  if (has_control_character(listed.shard)) {
    return refused(errc::malformed_index, "has a control character in its name");
  }
  return std::nullopt;
}

}  // namespace

result<shard_index> parse_shard_index(std::span<const std::byte> bytes, std::string_view suffix) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const std::size_t valid = utf8_valid_bytes(text); valid != text.size()) {
    return fault{errc::malformed_index, "byte " + grouped(valid),
                 "the index is not UTF-8 from here on"};
  }
  index_reader reader(text);
  if (!reader.read()) return reader.parse_fault();

  auto& listings = reader.listings();
  std::ranges::sort(listings, {}, &listing::tensor);
  const auto duplicate = std::ranges::adjacent_find(listings, {}, &listing::tensor);
  if (duplicate != listings.end()) {
    return fault{errc::duplicate_tensor, tensor_place(duplicate->tensor),
                 "the index lists the tensor twice, in '" + printable(duplicate->shard) +
                     "' and in '" + printable(std::next(duplicate)->shard) + "'"};
  }

  shard_index index;
  index.total_bytes = reader.total_bytes();
  if (reader.is_delta()) {
    auto delta = reader.delta();
    if (!delta) return delta.error();
    index.delta = std::move(*delta);
  }
  std::string_view checked;
  std::vector<std::string_view> shards;
  for (const listing& listed : listings) {
    // Neighbouring tensors are usually in the same shard, which is checked once.
    if (!shards.empty() && listed.shard == checked) continue;
    if (auto refusal = check_shard(listed, suffix)) return *refusal;
    shards.push_back(checked = listed.shard);
  }
  std::ranges::sort(shards);
  const auto duplicates = std::ranges::unique(shards);
  shards.erase(duplicates.begin(), duplicates.end());
  index.shards.assign(shards.begin(), shards.end());

  index.tensors.reserve(listings.size());
  for (const listing& listed : listings) {
    const auto shard_number = std::ranges::lower_bound(shards, listed.shard) - shards.begin();
    index.tensors.emplace_back(std::string(listed.tensor),
                               static_cast<std::uint32_t>(shard_number));
  }
  return index;
}

std::string delta_index_text(const index_delta& delta,
                             std::span<const std::pair<std::string, std::string>> tensors) {
  const std::pair<std::string_view, std::string_view> texts[] = {
      {"version", delta.version},
      {"base_version", delta.base_version},
      {encoding_key, delta.encoding},
      {"compression_format", delta.compression},
      {"checksum_format", delta.checksum}};
  std::string out;
  const auto append_pair = [&out](std::string_view key, std::string_view value) {
    if (out.back() != '{') out += ',';
    out += "\n    ";
    append_json_string(out, key);
    out += ": ";
    append_json_string(out, value);
  };
  out = "{\n  \"metadata\": {";
  for (const auto& [key, value] : texts) append_pair(key, value);
  out += "\n  },\n  \"weight_map\": {";
  for (const auto& [tensor, shard] : tensors) append_pair(tensor, shard);
  out += "\n  }\n}\n";
  return out;
}

std::optional<bool> describes_delta(std::string_view beginning) {
  index_reader reader(beginning);
  if (reader.read_first_metadata()) return reader.is_delta();
  // If `beginning` is the complete index, the metadata may be at any position.
  index_reader whole(beginning);
  return whole.read() ? std::optional(whole.is_delta()) : std::nullopt;
}

}  // namespace ringload::inline v0
