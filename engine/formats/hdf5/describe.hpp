// SPDX-License-Identifier: Apache-2.0
#pragma once

// Describes the datasets and attributes of an HDF5 file with libhdf5.

#include "base/fault.hpp"
#include "formats/hdf5.hpp"

namespace ringload::inline v0::h5 {

// `file` must be open for reading. All threads of a process share libhdf5, so only one call runs at
// a time. During a call, libhdf5 writes no messages to standard error.
//
// Each hard link of a dataset is a name, and all names share the bytes of the dataset. A group with
// several hard links is visited only through its first hard link, because links may form cycles. A
// soft link to a dataset of the same file is also a name. A soft link to a group, or without a
// target, is omitted. For an external link (to another file) or a user-defined link, returns
// errc::unsupported_feature.
result<hdf5_contents> describe_file(int file);

}  // namespace ringload::inline v0::h5
