// SPDX-License-Identifier: Apache-2.0
#pragma once

// The one place of the tool that knows whether this build can load into a GPU.

#include <ringload/device.hpp>
#include <string_view>

namespace ringload::tool {

/// Whether `name` is "host", "auto", "cuda" or "cuda:N", had here or not.
bool is_device_name(std::string_view name);

/// The device of that name. Throws `ringload::error` where this build cannot have it.
device device_named(std::string_view name);

}  // namespace ringload::tool
