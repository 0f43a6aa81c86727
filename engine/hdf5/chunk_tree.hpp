// SPDX-License-Identifier: Apache-2.0
#pragma once

// The chunks of a dataset from its B-tree (version 1, which files have that any version can read).
//
// libhdf5 before 1.14 walks the tree from its beginning for each chunk that it is asked for: 16,384
// chunks take 2.6 s, four times as many sixteen times as long. Here the tree is read once, and the
// answer is used only if it agrees with what libhdf5 says of the number of chunks and of the first.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ringload::inline v0::h5 {

struct tree_place {
  int file = -1;
  std::uint64_t base = 0;    // What addresses count from: the user block's end.
  std::uint64_t header = 0;  // The dataset's object header, from there on.
  std::size_t rank = 0;
};

struct tree_chunk {
  std::uint64_t address = 0;  // From the base on.
  std::uint32_t bytes = 0;
  std::uint32_t filter_mask = 0;
};

struct tree_chunks {
  std::vector<tree_chunk> chunks;
  std::vector<std::uint64_t> origins;  // By chunk, as many as there are dimensions.
};

// Empty where there is no such tree, or it does not have `count` chunks. Addresses and lengths in
// the file are of 8 bytes.
std::optional<tree_chunks> read_chunk_tree(const tree_place& at, std::uint64_t count);

}  // namespace ringload::inline v0::h5
