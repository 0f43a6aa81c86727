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

/// The same functions for several names, which are separated by commas.
bool are_device_names(std::string_view names);
std::vector<device> devices_named(std::string_view names);

/// Returns the host address of `bytes` bytes of a tensor, starting at `offset`. If the tensor is in
/// GPU memory, copies the bytes to `buffer` and returns the address of the copy.
const void* host_address_of(const tensor& source, std::uint64_t offset, std::uint64_t bytes,
                            std::vector<std::byte>& buffer);

/// Declares that no work on the device uses the memory of the load of this tensor. The next load
/// may then reuse the memory.
void release(const tensor& source) noexcept;

}  // namespace ringload::tool
