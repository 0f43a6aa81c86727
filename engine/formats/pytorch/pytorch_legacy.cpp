// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "formats/pytorch/pickle.hpp"
#include "formats/pytorch/pytorch.hpp"
#include "formats/pytorch/torch_state.hpp"
#include "formats/text/little_endian.hpp"
#include "formats/text/malformed.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::string_view magic_number = "\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19";
constexpr std::int64_t protocol_version = 1001;
constexpr std::size_t window_bytes_min = std::size_t{256} << 10;
constexpr std::size_t window_growth = 64;
constexpr std::size_t count_bytes = 8;  // Size of the element count before each storage.

// The five pickles at the beginning of the file, and their positions.
struct pickles {
  std::vector<std::byte> bytes;
  std::array<pickle, 5> values;
  std::array<std::uint64_t, 5> begin = {};
  std::uint64_t end = 0;
};

result<void> read_all(pickles& out) {
  std::size_t offset = 0;
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    out.begin[i] = offset;
    auto parsed = read_pickle(std::span<const std::byte>(out.bytes).subspan(offset), offset);
    if (!parsed) return parsed.error();
    out.values[i] = std::move(*parsed);
    offset += out.values[i].end;
    const pickle& p = out.values[i];
    const bool is_magic = p.root.has_kind(pickle_kind::number) && p.text(p.root) == magic_number;
    if (i == 0 && !is_magic) {
      return fault{errc::not_a_checkpoint, "byte 0",
                   "this is a Python pickle, but it does not begin with PyTorch's magic number"};
    }
    if (i == 1 &&
        !(p.root.has_kind(pickle_kind::integer) && p.root.integer() == protocol_version)) {
      return fault{errc::unsupported_feature, "byte " + grouped(out.begin[i]),
                   "this is not a checkpoint of protocol " + grouped(protocol_version)};
    }
  }
  out.end = offset;
  return {};
}

// Parses windows of growing size, because the end of the pickles is known only after parsing. Each
// window begins at byte 0 and is much larger than the previous window.
result<pickles> read_pickles(input& from) {
  pickles out;
  for (std::size_t window_bytes = window_bytes_min;; window_bytes *= window_growth) {
    const auto bytes = static_cast<std::size_t>(
        std::min<std::uint64_t>({window_bytes, from.bytes(), pickle_bytes_max + window_bytes_min}));
    out = {};
    out.bytes.resize(bytes);
    if (auto read = from.read_into(0, out.bytes); !read) return read.error();
    auto status = read_all(out);
    if (status) return out;
    const bool is_complete = bytes < window_bytes || bytes == from.bytes();
    if (status.error().code != errc::truncated_file) return status.error();
    if (is_complete) return malformed_at(bytes, "the pickles do not end before this byte");
  }
}

// The element size of each storage that the pickled object names, in bytes. Sorted by key.
using widths = std::vector<std::pair<std::string_view, std::uint8_t>>;

result<widths> widths_of(const pickle& object) {
  widths out;
  for (const pickle_value persistent : object.persistents) {
    auto identity = identity_of(object, persistent);
    if (!identity) return identity.error();
    out.emplace_back(identity->key, identity->element_bytes);
  }
  std::ranges::sort(out);
  const auto duplicates = std::ranges::unique(out);
  out.erase(duplicates.begin(), duplicates.end());
  return out;
}

// The storages, sorted by key.
struct found_storages {
  torch_storages storages;
  std::uint64_t end = 0;  // End of the last storage.
};

result<found_storages> find_storages(input& from, const pickles& read) {
  const pickle& keys = read.values[4];
  if (!keys.root.has_kind(pickle_kind::list)) {
    return malformed_at(read.begin[4], "the keys of the storages are not a list");
  }
  auto known = widths_of(read.values[3]);
  if (!known) return known.error().in("byte " + grouped(read.begin[3]));
  torch_storages out;
  std::uint64_t offset = read.end;
  for (const pickle_value item : keys.container(keys.root)) {
    if (!item.has_kind(pickle_kind::text)) {
      return malformed_at(read.begin[4], "the key of a storage is not text");
    }
    const std::string_view key = keys.text(item);
    const std::string place = "storage '" + printable(key) + "'";
    const auto width = std::ranges::lower_bound(*known, key, {}, &widths::value_type::first);
    if (width == known->end() || width->first != key) {
      return malformed_at(
          offset, "the element type of " + place + " is unknown, because no tensor uses it");
    }
    if (std::next(width) != known->end() && std::next(width)->first == key) {
      return malformed_at(offset, "two tensors use " + place + " with different element types");
    }
    if (count_bytes > from.bytes() - offset) {
      return fault{errc::extent_outside_file, place, "the file ends before this storage"};
    }
    auto count = from.read(offset, count_bytes);
    if (!count) return count.error();
    const auto bytes = checked_multiply(little_endian<std::uint64_t>(*count), width->second);
    offset += count_bytes;
    if (!bytes || *bytes > from.bytes() - offset) {
      return fault{
          errc::extent_outside_file, place,
          "the storage begins at byte " + grouped(offset) + " and ends past the end of the file"};
    }
    stored_stream stream;
    stream.offset = offset;
    stream.bytes = stream.decoded_bytes = *bytes;
    out.storages.push_back({key, std::move(stream)});
    offset += *bytes;
  }
  std::ranges::sort(out.storages, {}, &torch_storage::key);
  const auto duplicate = std::ranges::adjacent_find(out.storages, {}, &torch_storage::key);
  if (duplicate != out.storages.end()) {
    return malformed_at(read.begin[4], "duplicate storage '" + printable(duplicate->key) + "'");
  }
  // big_endian stays false, because PyTorch writes this format in little-endian order on every
  // machine.
  return found_storages{std::move(out), offset};
}

}  // namespace

result<file_entries> parse_pytorch_legacy(input& from, const torch_options& options) {
  auto read = read_pickles(from);
  if (!read) return read.error();
  auto storages = find_storages(from, *read);
  if (!storages) return storages.error();
  auto entries =
      tensors_of_state(read->values[3], storages->storages,
                       {options.lone_name, from.bytes(), read->begin[3], options.strictness});
  if (entries && storages->end != from.bytes()) {
    entries->notes.push_back(grouped(from.bytes() - storages->end) +
                             " bytes follow the last storage");
  }
  return entries;
}

}  // namespace ringload::inline v0
