// SPDX-License-Identifier: Apache-2.0
#pragma once

// Describes a file with libhdf5: visits every group once.

#include "base/fault.hpp"
#include "formats/hdf5.hpp"

namespace ringload::inline v0::h5 {

// `file` must be open for reading. libhdf5 is shared by all threads of a process, so calls run one
// at a time. Its messages are silenced meanwhile.
//
// Hard links are names. Several hard links of one dataset share its bytes. A group with several
// hard links is visited through the first one and left out for the others, so that cycles end. Soft
// links to datasets in the same file are names too; soft links to groups, or without a target, are
// left out. A link to another file fails with errc::unsupported_feature and is never followed.
result<hdf5_contents> describe_file(int file);

}  // namespace ringload::inline v0::h5
