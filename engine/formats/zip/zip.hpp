// SPDX-License-Identifier: Apache-2.0
#pragma once

// The directory of a zip archive: where the bytes of each member lie. Our own, because extents are
// all that is wanted, and the libraries that give them do not check what a loader must: that local
// and central headers agree, and that no two members share a byte.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/text/input.hpp"

namespace ringload::inline v0 {

inline constexpr std::uint64_t zip_members_max = 500'000;
inline constexpr std::uint64_t zip_directory_bytes_max = std::uint64_t{64} << 20;

// All deflated members together have at most so many bytes, or this many times the archive's: what
// grows more than that was made to exhaust a machine.
inline constexpr std::uint64_t zip_inflated_bytes_usual = std::uint64_t{1} << 30;
inline constexpr std::uint64_t zip_inflated_ratio_max = 200;

struct zip_member {
  std::string_view name;            // UTF-8, in zip_directory::text.
  std::uint64_t header_offset = 0;  // Of the local header.
  std::uint64_t data_offset = 0;
  std::uint64_t stored_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;          // 0: none; PyTorch can be told to compute none.
  codec stored_codec = codec::raw;  // Or deflate.

  // The whole member.
  stored_stream stream() const;
};

// Moves, and does not copy: the names point into the text.
struct zip_directory {
  zip_directory() = default;
  zip_directory(zip_directory&&) = default;
  zip_directory& operator=(zip_directory&&) = default;

  std::vector<std::byte> text;
  std::vector<zip_member> members;  // In the order of their bytes, which lie inside the file.

  // Null where there is none of that name.
  const zip_member* find(std::string_view name) const noexcept;

  std::vector<std::uint32_t> by_name;  // Into members.
};

// Stored and deflated members, zip64. Refuses what scanners and readers see differently: a prefix,
// headers that contradict each other, members that overlap or have the same name; and encryption,
// several volumes, other methods, names that lead out of a folder.
result<zip_directory> read_zip_directory(input& from);

// "member 'data.pkl'"
std::string member_place(std::string_view name);

// The whole member, inflated if need be, its checksum checked; it has at most `bytes_max` bytes.
result<std::vector<std::byte>> read_zip_member(input& from, const zip_member& member,
                                               std::uint64_t bytes_max);

}  // namespace ringload::inline v0
