// SPDX-License-Identifier: Apache-2.0
#pragma once

// What libhdf5 says of one dataset.

#include <hdf5.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "core/fault.hpp"
#include "formats/hdf5.hpp"

namespace ringload::inline v0::h5 {

struct dataset_limits {
  std::uint64_t user_block = 0;  // What chunk addresses do not count: see user_block.hpp.
  std::size_t chunks_left = hdf5_chunks_max;
  int file = -1;  // Where trees of chunks may be read: see chunk_tree.hpp; or -1.
};

// A dataset that is open, its object header's address, where that is known, and what faults call
// it.
struct open_dataset {
  hid_t id;
  std::optional<std::uint64_t> header;
  std::string place;
};

// Without its names. Of one that is left out, why.
result<std::variant<hdf5_dataset, hdf5_left_out>> describe_dataset(const open_dataset& which,
                                                                   const dataset_limits& within);

}  // namespace ringload::inline v0::h5
