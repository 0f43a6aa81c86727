// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whether libhdf5 counts the addresses of chunks from the beginning of the file or from the end of
// the file's user block. It depends on the version (1.10.8 and 1.12.2: from the block's end; 2.0.0:
// from the beginning; contiguous datasets: always from the beginning), and no text says since when.
// So it is tried out, on a file in memory.

#include <hdf5.h>

#include <cstdint>

#include "core/fault.hpp"

namespace ringload::inline v0::h5 {

// What is to be added to the addresses of this file's chunks.
result<std::uint64_t> unseen_user_block(hid_t file);

}  // namespace ringload::inline v0::h5
