// SPDX-License-Identifier: Apache-2.0
#pragma once

// Describes one dataset with libhdf5.

#include <hdf5.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "base/fault.hpp"
#include "formats/hdf5.hpp"

namespace ringload::inline v0::h5 {

struct dataset_limits {
  // The part of the file that chunk addresses do not include; see address_base.hpp.
  std::uint64_t user_block = 0;
  std::size_t chunks_left = hdf5_chunks_max;
  int file = -1;  // The file for reading chunk trees, see chunk_tree.hpp; or -1.
};

// An open dataset, the address of its object header if known, and its name in faults.
struct open_dataset {
  hid_t id;
  std::optional<std::uint64_t> header;
  std::string place;
};

// Returns the description without names, or the reason why the dataset is left out.
result<std::variant<hdf5_dataset, hdf5_left_out>> describe_dataset(const open_dataset& source,
                                                                   const dataset_limits& within);

}  // namespace ringload::inline v0::h5
