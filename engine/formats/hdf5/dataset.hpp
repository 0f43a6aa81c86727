// SPDX-License-Identifier: Apache-2.0
#pragma once

// Describes one dataset with libhdf5. Used by describe_file().

#include <hdf5.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "base/fault.hpp"
#include "formats/hdf5.hpp"

namespace ringload::inline v0::h5 {

// The open file, as describe_dataset() uses it.
struct file_context {
  // The number that must be added to chunk addresses. See address_base.hpp.
  std::uint64_t address_base = 0;
  // Limit for the chunks of the datasets that are not described yet.
  std::size_t chunks_left = hdf5_chunks_max;
  // The descriptor for reading chunk trees, or -1 if no trees are read. See chunk_tree.hpp.
  int fd = -1;
};

struct open_dataset {
  hid_t id;
  // The address of the dataset's object header, if the address is known.
  std::optional<std::uint64_t> header_address;
  std::string fault_place;  // The dataset's name in faults.
};

// Returns the description of the dataset. The caller must set the dataset's names. If the dataset
// is left out, returns the reason.
result<std::variant<hdf5_dataset, hdf5_left_out>> describe_dataset(const open_dataset& source,
                                                                   const file_context& file);

}  // namespace ringload::inline v0::h5
