// SPDX-License-Identifier: Apache-2.0
#pragma once

// What libhdf5 finds in a file: all groups are walked, each once.

#include "core/fault.hpp"
#include "formats/hdf5.hpp"

namespace ringload::inline v0::h5 {

// `file` is open for reading. libhdf5 is one for all threads of a process: calls wait for each
// other. Its messages are silenced meanwhile.
//
// Hard links are names; several of one dataset share its bytes. A group that has several is walked
// by the first, and left out by the others, so that cycles end. Soft links to datasets of the same
// file are names as well; those to groups, or to nothing, are left out. A link to another file is
// errc::unsupported_feature, and never followed.
result<hdf5_contents> describe_file(int file);

}  // namespace ringload::inline v0::h5
