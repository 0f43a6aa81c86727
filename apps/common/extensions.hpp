// SPDX-License-Identifier: Apache-2.0
#pragma once

// Returns the extensions that the programs pass to their loaders: all extensions of this build.

#include <optional>
#include <ringload/extension.hpp>
#include <string>
#include <vector>

#include "remote_settings.hpp"

namespace ringload::tool {

/// Returns all extensions. HDF5 files are parsed by the program ringload-hdf5-parse in the folder
/// of this program. If `remote` is empty, nothing is read from the network. If a file cannot be
/// written to the hub's cache, prints the error to standard error.
std::vector<extension> extensions(const std::optional<remote_wish>& remote = std::nullopt);

/// Returns an extension that reads only from these hosts, without credentials. Throws
/// `ringload::error` if this build does not support remote sources.
extension network_of(const std::vector<std::string>& hosts);

}  // namespace ringload::tool
