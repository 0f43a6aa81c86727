// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads the directory of a zip archive, which lists the ranges of all members. No library is used,
// because a loader must check two conditions that libraries do not check. The local and the central
// headers must not contradict each other, and no two members may share a byte.

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

// Limit for the decoded size of all deflated members, because a malicious archive may try to
// exhaust memory. The limit is the larger of two numbers: zip_inflated_bytes_usual, and
// zip_inflated_ratio_max multiplied by the size of the archive.
inline constexpr std::uint64_t zip_inflated_bytes_usual = std::uint64_t{1} << 30;
inline constexpr std::uint64_t zip_inflated_ratio_max = 200;

struct zip_member {
  std::string_view name;            // UTF-8 text in zip_directory::text.
  std::uint64_t header_offset = 0;  // Position of the local header.
  std::uint64_t data_offset = 0;
  std::uint64_t stored_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;          // 0 if the archive has no checksum. PyTorch may omit checksums.
  codec stored_codec = codec::raw;  // Either raw or deflate.

  // Returns the stream of the whole member.
  stored_stream stream() const;
};

// Movable but not copyable, because the names refer to `text`.
struct zip_directory {
  zip_directory() = default;
  zip_directory(zip_directory&&) = default;
  zip_directory& operator=(zip_directory&&) = default;

  std::vector<std::byte> text;
  std::vector<zip_member> members;  // In file order. The ranges are inside the file.

  // Returns null if no member has this name.
  const zip_member* find(std::string_view name) const noexcept;

  std::vector<std::uint32_t> by_name;  // Indices in `members`, sorted by name.
};

// Supports stored and deflated members, and zip64. Refuses archives that readers may interpret
// differently: archives with a prefix, with contradicting headers, or with members that overlap or
// have the same name. Also refuses encryption, several volumes, other compression methods, and
// names that could lead out of the folder of an extracted archive.
result<zip_directory> read_zip_directory(input& from);

// Returns a text such as "member 'data.pkl'".
std::string member_place(std::string_view name);

// Reads the whole member, inflates the member if necessary, and verifies the checksum. Refuses a
// member with more than `bytes_max` bytes.
result<std::vector<std::byte>> read_zip_member(input& from, const zip_member& member,
                                               std::uint64_t bytes_max);

}  // namespace ringload::inline v0
