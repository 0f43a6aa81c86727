// SPDX-License-Identifier: Apache-2.0
#pragma once

// The one place of our programs that knows whether this build can load into a GPU.

#include <cstddef>
#include <cstdint>
#include <ringload/device.hpp>
#include <ringload/tensor.hpp>
#include <string_view>
#include <vector>

namespace ringload::tool {

/// Whether `name` is "host", "auto", "cuda" or "cuda:N", had here or not.
bool is_device_name(std::string_view name);

/// The device of that name; "auto" is the first CUDA device, or the host where there is none.
/// Throws `ringload::error` where this build cannot have it.
device device_named(std::string_view name);

/// The bytes of a tensor from `from` on, `bytes` of them: where they lie, if that is the host, else
/// copied into `room`.
const void* readable(const tensor& of, std::uint64_t from, std::uint64_t bytes,
                     std::vector<std::byte>& room);

}  // namespace ringload::tool
