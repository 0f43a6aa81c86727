// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads the chunks of a dataset from its B-tree of version 1, which occurs in files that every
// libhdf5 version can read.
//
// libhdf5 before 1.14 walks the tree from its beginning for each requested chunk: 16,384 chunks
// take 2.6 s, and four times as many take sixteen times as long. This code reads the tree once. The
// result is used only if it agrees with libhdf5 on the number of chunks and on the first chunk.

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
  std::uint64_t address = 0;  // Relative to the base.
  std::uint32_t bytes = 0;
  std::uint32_t filter_mask = 0;
};

struct tree_chunks {
  std::vector<tree_chunk> chunks;
  std::vector<std::uint64_t> origins;  // One value for each dimension of each chunk.
};

// Returns nothing if there is no such tree or it does not have `count` chunks. Addresses and
// lengths in the file must have 8 bytes.
std::optional<tree_chunks> read_chunk_tree(const tree_place& place, std::uint64_t count);

}  // namespace ringload::inline v0::h5
