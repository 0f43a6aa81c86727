// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the programs' loaders are made with: all that this build has.

#include <optional>
#include <ringload/extension.hpp>
#include <string>
#include <vector>

#include "remote_settings.hpp"

namespace ringload::tool {

/// HDF5 files are parsed by ringload-hdf5-parse, which lies beside the program. Without `remote`
/// nothing is fetched from the network. What goes wrong with the cache is told on standard error.
std::vector<extension> extensions(const std::optional<remote_wish>& remote = std::nullopt);

/// What fetches from these hosts and from no other, without credentials. Throws `ringload::error`
/// where this build cannot.
extension network_of(const std::vector<std::string>& hosts);

}  // namespace ringload::tool
