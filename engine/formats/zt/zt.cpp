// SPDX-License-Identifier: Apache-2.0

#include "formats/zt/zt.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/printable.hpp"
#include "formats/description_budget.hpp"
#include "formats/text/input_cursor.hpp"
#include "formats/zt/zt_index_reader.hpp"
#include "formats/zt/zt_names.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::uint64_t magic_bytes = 8;
constexpr std::uint64_t size_field_bytes = 8;
// A file has at least the magic number, the size of the manifest, and the magic number again.
// Version 0.1 has only one magic number.
constexpr std::uint64_t file_bytes_min = 24;
constexpr std::uint64_t file_bytes_min_0_1 = 16;

// Sorts the tensors by offset. Returns a fault for a duplicate name, which can occur only in
// version 0.1.
std::optional<fault> sort_by_offset(std::vector<entry>& tensors) {
  std::unordered_set<std::string_view> names;
  for (const entry& tensor : tensors) {
    if (names.insert(tensor.name).second) continue;
    return fault{errc::duplicate_tensor, tensor_place(tensor.name), "duplicate tensor name"};
  }
  std::ranges::stable_sort(tensors, {}, &entry::offset);
  return std::nullopt;
}

fault wrong_magic(std::string_view magic) {
  if (magic == zt_2_magic) {
    return {errc::unsupported_feature, "byte 0",
            "this is a .zt file of version 2, expected 0.1, 1.1 or 1.2"};
  }
  return {errc::malformed_header, "byte 0",
          "a .zt file begins with '" + std::string(zt_magic) + "'"};
}

result<std::string> text_at(input& from, std::uint64_t offset, std::size_t bytes) {
  auto read = from.read(offset, bytes);
  if (!read) return read.error();
  return std::string(reinterpret_cast<const char*>(read->data()), read->size());
}

// Returns the offset of the manifest. The manifest ends at `end`, and its size follows.
result<std::uint64_t> manifest_begin(input& from, std::uint64_t end) {
  std::uint64_t bytes = 0;
  input_cursor in(from, end, end + size_field_bytes);
  if (!in.number(bytes)) return in.error();
  if (bytes > zt_index_bytes_max) {
    return fault{errc::header_too_large, "byte " + grouped(end),
                 "the manifest would have " + grouped(bytes) + " bytes, expected at most " +
                     grouped(zt_index_bytes_max)};
  }
  if (bytes > end - magic_bytes) {
    return fault{errc::header_outside_file, "byte " + grouped(end),
                 "the manifest would have " + grouped(bytes) + " bytes, but only " +
                     grouped(end - magic_bytes) + " bytes are before its end"};
  }
  return end - bytes;
}

// Returns the encoded attribute map in the range `extent`.
result<std::string> read_encoded_attributes(input& from, const range& extent) {
  return extent.count() == 0 ? std::string() : text_at(from, extent.begin, extent.count());
}

result<file_entries> parse(input& from, strictness strictness, zt_index* index) {
  const std::uint64_t file_bytes = from.bytes();
  if (file_bytes < file_bytes_min_0_1) {
    return fault{errc::header_too_small, "byte 0",
                 "the file has " + grouped(file_bytes) + " bytes, expected at least " +
                     grouped(file_bytes_min)};
  }
  auto magic = text_at(from, 0, magic_bytes);
  if (!magic) return magic.error();
  const bool is_0_1 = *magic == zt_0_1_magic;
  if (!is_0_1 && *magic != zt_magic) return wrong_magic(*magic);
  std::uint64_t manifest_end = file_bytes - size_field_bytes;
  if (!is_0_1) {
    if (file_bytes < file_bytes_min) {
      return fault{errc::header_too_small, "byte 0",
                   "the file has " + grouped(file_bytes) + " bytes, expected at least " +
                       grouped(file_bytes_min)};
    }
    auto last = text_at(from, file_bytes - magic_bytes, magic_bytes);
    if (!last) return last.error();
    if (*last != zt_magic) {
      return fault{errc::malformed_header, "byte " + grouped(file_bytes - magic_bytes),
                   "the file does not end with '" + std::string(zt_magic) +
                       "': the file is truncated or was never finished"};
    }
    manifest_end -= magic_bytes;
  }
  auto begin = manifest_begin(from, manifest_end);
  if (!begin) return begin.error();

  file_entries entries;
  input_cursor in(from, *begin, manifest_end);
  zt_index_reader reader(in, file_bytes, strictness, entries, index);
  zt_blob_rules blob_rules = {magic_bytes, *begin, zt_alignment, is_0_1};
  if (!(is_0_1 ? reader.read_0_1(blob_rules) : reader.read(blob_rules))) return in.error();
  if (auto status = reader.read_unsized(from, blob_rules); !status) return status.error();
  separate_zt_names(entries, reader.first_parts());
  if (auto duplicate = sort_by_offset(entries.tensors)) return *duplicate;
  if (index != nullptr) {
    index->begin = *begin;
    index->is_0_1 = is_0_1;
  }
  return entries;
}

// The input for a new file. Only the magic number and the tail of the file can be read.
class new_zt_input final : public input {
 public:
  new_zt_input(std::string_view tail, std::uint64_t file_bytes) noexcept
      : tail_(tail), tail_begin_(file_bytes - tail.size()) {}

  std::uint64_t bytes() const noexcept override { return tail_begin_ + tail_.size(); }
  result<std::span<const std::byte>> read(std::uint64_t offset, std::size_t count) override {
    std::string_view bytes;
    if (offset >= tail_begin_) {
      bytes = tail_.substr(static_cast<std::size_t>(offset - tail_begin_), count);
    } else if (offset == 0) {
      bytes = zt_magic.substr(0, count);
    }
    if (bytes.size() < count) return fault{errc::truncated_file, "byte " + grouped(offset)};
    return std::as_bytes(std::span(bytes));
  }

 private:
  const std::string_view tail_;
  const std::uint64_t tail_begin_;
};

}  // namespace

result<void> check_zt_tail(std::string_view tail, std::uint64_t file_bytes) {
  new_zt_input file(tail, file_bytes);
  auto entries = parse_zt(file, strictness::strict);
  if (!entries) return entries.error();
  description_budget budget(strictness::strict, file_bytes);
  if (!budget.take(*entries)) return fault{errc::header_too_large, "", budget.cause()};
  return {};
}

result<file_entries> parse_zt(input& from, strictness strictness) {
  return parse(from, strictness, nullptr);
}

result<zt_index> read_zt_index(input& from) {
  zt_index out;
  if (auto status = parse(from, strictness::strict, &out); !status) return status.error();
  auto file_attributes = read_encoded_attributes(from, out.attribute_bytes);
  if (!file_attributes) return file_attributes.error();
  out.encoded_attributes = std::move(*file_attributes);
  for (zt_object& object : out.objects) {
    auto object_attributes = read_encoded_attributes(from, object.attribute_bytes);
    if (!object_attributes) return object_attributes.error();
    object.encoded_attributes = std::move(*object_attributes);
  }
  return out;
}

}  // namespace ringload::inline v0
