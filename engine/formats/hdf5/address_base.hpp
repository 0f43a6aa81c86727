// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds out whether libhdf5 counts chunk addresses from the beginning of the file or from the end
// of its user block. This depends on the version (1.10.8 and 1.12.2: from the end of the block;
// 2.0.0: from the beginning; contiguous datasets: always from the beginning), and no documentation
// says since when. So a file in memory is used to test it.

#include <hdf5.h>

#include <cstdint>

#include "base/fault.hpp"

namespace ringload::inline v0::h5 {

// Returns the number that must be added to the chunk addresses of this file.
result<std::uint64_t> unseen_user_block(hid_t file);

}  // namespace ringload::inline v0::h5
