// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads the directory of a zip archive: the extents of all members. No library is used, because
// libraries do not check what a loader must check: that local and central headers agree, and that
// no two members share a byte.

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

// Limits for the decoded size of all deflated members: this number of bytes or, if larger, this
// multiple of the archive's size. A larger archive is an attack on memory.
inline constexpr std::uint64_t zip_inflated_bytes_usual = std::uint64_t{1} << 30;
inline constexpr std::uint64_t zip_inflated_ratio_max = 200;

struct zip_member {
  std::string_view name;            // UTF-8, in zip_directory::text.
  std::uint64_t header_offset = 0;  // Position of the local header.
  std::uint64_t data_offset = 0;
  std::uint64_t stored_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;          // 0: no checksum; PyTorch can omit checksums.
  codec stored_codec = codec::raw;  // raw or deflate.

  // The stream of the whole member.
  stored_stream stream() const;
};

// Movable but not copyable, because the names point into the text.
struct zip_directory {
  zip_directory() = default;
  zip_directory(zip_directory&&) = default;
  zip_directory& operator=(zip_directory&&) = default;

  std::vector<std::byte> text;
  std::vector<zip_member> members;  // In file order. The extents are inside the file.

  // Null if no member has this name.
  const zip_member* find(std::string_view name) const noexcept;

  std::vector<std::uint32_t> by_name;  // Indices into `members`.
};

// Supports stored and deflated members, and zip64. Refuses archives that readers interpret
// differently: a prefix, contradicting headers, members that overlap or have the same name. Also
// refuses encryption, several volumes, other methods, and names that leave the folder.
result<zip_directory> read_zip_directory(input& from);

// "member 'data.pkl'"
std::string member_place(std::string_view name);

// Reads the whole member, inflates it if necessary, and checks the checksum. Refuses more than
// `bytes_max` bytes.
result<std::vector<std::byte>> read_zip_member(input& from, const zip_member& member,
                                               std::uint64_t bytes_max);

}  // namespace ringload::inline v0
