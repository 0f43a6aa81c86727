// SPDX-License-Identifier: Apache-2.0
#pragma once

// Compares the files that the ranks (processes or threads of a group) have opened. If a file is
// replaced while the ranks open it, some ranks may open the old file and other ranks the new file.

#include <cstdint>
#include <optional>
#include <span>

#include "base/xxh3_128.hpp"
#include "catalog/opened_checkpoint.hpp"

namespace ringload::inline v0::detail {

// Describes the files of one rank. The object is sent to other ranks as bytes.
struct rank_files {
  // Ranks with equal places have opened the same paths in the same mount namespace, so they must
  // have opened the same files. `has_place` is 0 if no other rank can be compared with this rank.
  xxh3_128_value place;
  std::uint64_t has_place = 0;
  xxh3_128_value version;        // Differs if a file was replaced or modified.
  std::uint64_t from_store = 0;  // 1 if an object of a store is among the files.
};

// Returns the description of the files of this rank. Ranks are not compared if their files are
// objects of a store or in memory, or if /proc is not mounted.
rank_files describe_files(const opened_checkpoint& checkpoint);

// Two ranks with the same paths, but different files.
struct different_files {
  std::uint32_t rank = 0;
  std::uint32_t other_rank = 0;  // Less than `rank`.

  friend bool operator==(const different_files&, const different_files&) noexcept = default;
};

// Returns the first rank whose files differ from the files of an earlier rank with the same place.
// `ranks` is indexed by rank.
std::optional<different_files> find_different_files(std::span<const rank_files> ranks) noexcept;

}  // namespace ringload::inline v0::detail
