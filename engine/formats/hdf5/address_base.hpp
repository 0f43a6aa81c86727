// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds the origin of the chunk addresses that libhdf5 returns. A file may begin with a user block,
// which the HDF5 data follows. libhdf5 1.10.8 and 1.12.2 count chunk addresses from the end of the
// user block. libhdf5 2.0.0 counts from the beginning of the file. The addresses of contiguous
// datasets always count from the beginning of the file. The HDF5 documentation does not mention the
// difference, so this code finds the origin with a test file in memory.

#include <hdf5.h>

#include <cstdint>

#include "base/fault.hpp"

namespace ringload::inline v0::h5 {

// Returns the number that must be added to the chunk addresses of this file. The sums are file
// offsets.
result<std::uint64_t> chunk_address_base(hid_t file);

}  // namespace ringload::inline v0::h5
