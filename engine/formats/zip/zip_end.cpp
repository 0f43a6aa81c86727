// SPDX-License-Identifier: Apache-2.0

#include "formats/zip/zip_end.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "formats/text/little_endian.hpp"
#include "formats/text/malformed.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::uint32_t end_magic = 0x06054b50;
constexpr std::uint32_t end64_locator_magic = 0x07064b50;
constexpr std::uint32_t end64_magic = 0x06064b50;
constexpr std::size_t end_bytes = 22;
constexpr std::size_t end64_locator_bytes = 20;
constexpr std::size_t end64_bytes = 56;
constexpr std::size_t comment_bytes_max = 65'535;
// If a number of the 32-bit record has this value, the 64-bit record contains the number.
constexpr std::uint32_t end64_marker = 0xFFFFFFFF;

// Reads the 64-bit record into `place` and returns true. Returns false if the archive has no 64-bit
// record. Each number of the 32-bit record must be equal to the same number of the 64-bit record,
// or must have all bits set.
result<bool> read_end64(input& archive, std::uint64_t end_at, zip_directory_place& place) {
  if (end_at < end64_locator_bytes + end64_bytes) return false;
  const std::uint64_t locator_at = end_at - end64_locator_bytes;
  auto locator = archive.read(locator_at, end64_locator_bytes);
  if (!locator) return locator.error();
  if (little_endian<std::uint32_t>(*locator) != end64_locator_magic) return false;
  const auto record_offset = little_endian<std::uint64_t>(*locator, 8);
  if (little_endian<std::uint32_t>(*locator, 4) != 0 ||
      little_endian<std::uint32_t>(*locator, 16) > 1) {
    return malformed_at(locator_at, "the archive has several volumes");
  }
  if (record_offset > locator_at - end64_bytes) {
    return malformed_at(locator_at, "the zip64 end record would end after this byte");
  }
  auto record = archive.read(record_offset, end64_bytes);
  if (!record) return record.error();
  const auto size = little_endian<std::uint64_t>(*record, 4);
  if (little_endian<std::uint32_t>(*record) != end64_magic ||
      size != locator_at - record_offset - 12) {
    return malformed_at(record_offset, "there is no zip64 end record directly before its locator");
  }
  if (little_endian<std::uint32_t>(*record, 16) != 0 ||
      little_endian<std::uint32_t>(*record, 20) != 0 ||
      little_endian<std::uint64_t>(*record, 24) != little_endian<std::uint64_t>(*record, 32)) {
    return malformed_at(record_offset, "the archive has several volumes");
  }
  const zip_directory_place end64_place = {
      little_endian<std::uint64_t>(*record, 32), little_endian<std::uint64_t>(*record, 40),
      little_endian<std::uint64_t>(*record, 48), record_offset};
  const auto differs = [](std::uint64_t narrow, std::uint64_t all_ones, std::uint64_t in_64) {
    return narrow != all_ones && narrow != in_64;
  };
  if (differs(place.members, 0xFFFF, end64_place.members) ||
      differs(place.bytes, end64_marker, end64_place.bytes) ||
      differs(place.offset, end64_marker, end64_place.offset)) {
    return malformed_at(record_offset, "the two end records contradict each other");
  }
  place = end64_place;
  return true;
}

result<bool> ends_without_comment(input& archive) {
  if (archive.bytes() < end_bytes) return false;
  // Reads 1 KiB, so that `archive` also buffers the directory of a small archive.
  const auto near_bytes = static_cast<std::size_t>(std::min<std::uint64_t>(archive.bytes(), 1024));
  auto tail = archive.read(archive.bytes() - near_bytes, near_bytes);
  if (!tail) return tail.error();
  return little_endian<std::uint32_t>(*tail, near_bytes - end_bytes) == end_magic &&
         little_endian<std::uint16_t>(*tail, near_bytes - 2) == 0;
}

}  // namespace

result<zip_directory_place> find_zip_directory(input& archive) {
  const std::uint64_t file_bytes = archive.bytes();
  const auto has_no_comment = ends_without_comment(archive);
  if (!has_no_comment) return has_no_comment.error();
  const std::uint64_t comment_bytes = *has_no_comment ? 0 : comment_bytes_max;
  const auto tail_bytes =
      static_cast<std::size_t>(std::min<std::uint64_t>(file_bytes, end_bytes + comment_bytes));
  auto tail = archive.read(file_bytes - tail_bytes, tail_bytes);
  if (!tail) return tail.error();
  // Position of the last end record whose comment ends at the end of the file.
  std::optional<std::size_t> record_at;
  for (std::size_t record_offset = tail_bytes + 1 - std::min(tail_bytes + 1, end_bytes);
       record_offset-- > 0;) {
    if (little_endian<std::uint32_t>(*tail, record_offset) != end_magic) continue;
    if (little_endian<std::uint16_t>(*tail, record_offset + 20) !=
        tail_bytes - record_offset - end_bytes)
      continue;
    record_at = record_offset;
    break;
  }
  if (!record_at) {
    return malformed_at(file_bytes, "the zip archive has no end record: the file may be truncated");
  }
  const auto record = tail->subspan(*record_at, end_bytes);
  const std::uint64_t end_at = file_bytes - tail_bytes + *record_at;
  const bool has_several_volumes =
      little_endian<std::uint16_t>(record, 4) != 0 ||
      little_endian<std::uint16_t>(record, 6) != 0 ||
      little_endian<std::uint16_t>(record, 8) != little_endian<std::uint16_t>(record, 10);
  zip_directory_place place = {little_endian<std::uint16_t>(record, 10),
                               little_endian<std::uint32_t>(record, 12),
                               little_endian<std::uint32_t>(record, 16), end_at};
  if (has_several_volumes) return malformed_at(end_at, "the archive has several volumes");
  if (auto status = read_end64(archive, end_at, place); !status) return status.error();

  if (place.offset > place.end || place.bytes != place.end - place.offset) {
    return malformed_at(end_at, "the directory would have " + grouped(place.bytes) +
                                    " bytes from byte " + grouped(place.offset) +
                                    " on, but the end record begins at " + grouped(place.end));
  }
  return place;
}

}  // namespace ringload::inline v0
