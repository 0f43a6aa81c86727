// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the programs' loaders are made with: all that this build has.

#include <ringload/extension.hpp>
#include <vector>

namespace ringload::tool {

/// HDF5 files are parsed by ringload-hdf5-parse, which lies beside the program.
std::vector<extension> extensions();

}  // namespace ringload::tool
