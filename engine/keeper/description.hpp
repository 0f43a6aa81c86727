// SPDX-License-Identifier: Apache-2.0
#pragma once

// Describes a model of a keeper (a process that shares loaded models) as bytes, which are sent to
// another process. The description contains the catalog, and the memory region and offset of each
// tensor. The receiving process checks all values, because the receiver does not trust the sender.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ringload/catalog.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "base/numeric/element_kind.hpp"
#include "device/exported_memory.hpp"

namespace ringload::inline v0::detail {

struct kept_tensor {
  std::uint32_t region = 0;
  std::uint64_t offset = 0;
  conversion cast = {};  // From the type in the catalog to the type in memory.
};

struct kept_description {
  catalog contents;
  std::vector<kept_tensor> tensors;  // In the order of contents.tensors.
  // The memory regions of a model on a device. Empty if the model is in host memory.
  std::vector<exported_memory> device_regions;
};

// Returns a name that several tensors have, or an empty optional. A model with a duplicate name
// cannot be described, because clients find a tensor by its name. The result refers to `contents`.
std::optional<std::string_view> duplicate_name(const catalog& contents);

std::vector<std::byte> pack(const kept_description& description);

// Reads and checks a description. Ignores bytes after the end of the description, because the
// received memory is a whole number of pages. `region_bytes` contains the sizes of the received
// host memory regions. If the function succeeds, each tensor has the size that its type and shape
// require, is inside its region, and is aligned. Does not check whether the device regions have the
// described sizes.
result<kept_description> unpack_description(std::span<const std::byte> bytes,
                                            std::span<const std::uint64_t> region_bytes);

}  // namespace ringload::inline v0::detail
