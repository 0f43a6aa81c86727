// SPDX-License-Identifier: Apache-2.0
#pragma once

// Devices by name. The only part of the programs that depends on whether this build has CUDA.

#include <cstddef>
#include <cstdint>
#include <ringload/device.hpp>
#include <ringload/tensor.hpp>
#include <string_view>
#include <vector>

namespace ringload::tool {

/// Whether `name` is "host", "auto", "cuda" or "cuda:N", available here or not.
bool is_device_name(std::string_view name);

/// The device of that name; "auto" is the first CUDA device, or the host where there is none.
/// Throws `ringload::error` where this build does not support it.
device device_named(std::string_view name);

/// The same of a list of names with commas between.
bool are_device_names(std::string_view names);
std::vector<device> devices_named(std::string_view names);

/// `bytes` bytes of a tensor from `from` on, readable by the host: in place, or copied into `room`
/// from another device.
const void* readable(const tensor& of, std::uint64_t from, std::uint64_t bytes,
                     std::vector<std::byte>& room);

/// Says that nothing but the host has used the memory of that tensor's load, so that the next load
/// may have it.
void release(const tensor& of) noexcept;

}  // namespace ringload::tool
