// SPDX-License-Identifier: Apache-2.0
#pragma once

// Returns devices by their names. Only this part of the programs depends on whether the build
// supports CUDA.

#include <cstddef>
#include <cstdint>
#include <ringload/device.hpp>
#include <ringload/tensor.hpp>
#include <string_view>
#include <vector>

namespace ringload::tool {

/// Returns true if `name` is "host", "auto", "cuda" or "cuda:N". The device need not exist.
bool is_device_name(std::string_view name);

/// Returns the device with this name. "auto" is the first CUDA device, or the host if there is no
/// CUDA device. Throws `ringload::error` if this build does not support the device.
device device_named(std::string_view name);

/// Returns the same device as device_named(), with memory that a keeper can publish.
device shareable_device_named(std::string_view name);

/// The same functions for a list of names, separated by commas.
bool are_device_names(std::string_view names);
std::vector<device> devices_named(std::string_view names);

/// Returns the address of `bytes` bytes of a tensor, starting at the offset `from`. The host can
/// read this address. If the tensor is on another device, the bytes are copied to `room`.
const void* readable(const tensor& of, std::uint64_t from, std::uint64_t bytes,
                     std::vector<std::byte>& room);

/// Declares that no work on the device uses the memory of the tensor's load. The next load may then
/// reuse the memory.
void release(const tensor& of) noexcept;

}  // namespace ringload::tool
