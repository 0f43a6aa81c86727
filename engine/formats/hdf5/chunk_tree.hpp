// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads the chunks of a dataset from its B-tree of version 1. Files in the oldest format, which
// every version of libhdf5 can read, have these trees.
//
// libhdf5 before 1.14 reads the tree from its beginning for each requested chunk: 16,384 chunks
// take 2.6 s, and four times as many chunks take sixteen times as long. This code reads the tree
// once. The result is used only if libhdf5 reports the same number of chunks and the same first
// chunk.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ringload::inline v0::h5 {

struct tree_place {
  int file = -1;
  std::uint64_t base = 0;    // The origin of all addresses: the end of the user block.
  std::uint64_t header = 0;  // Address of the dataset's object header, relative to `base`.
  std::size_t rank = 0;
};

struct tree_chunk {
  std::uint64_t address = 0;  // Relative to tree_place::base.
  std::uint32_t bytes = 0;
  std::uint32_t filter_mask = 0;
};

struct tree_chunks {
  std::vector<tree_chunk> chunks;
  std::vector<std::uint64_t> origins;  // One number for each dimension of each chunk.
};

// Returns an empty optional if the dataset has no B-tree of version 1, or if the tree does not have
// `count` chunks. Addresses and lengths in the file must have 8 bytes.
std::optional<tree_chunks> read_chunk_tree(const tree_place& place, std::uint64_t count);

}  // namespace ringload::inline v0::h5
