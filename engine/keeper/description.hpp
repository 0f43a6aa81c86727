// SPDX-License-Identifier: Apache-2.0
#pragma once

// A kept model as bytes for another process: its catalog, and the memory region and offset of each
// tensor. Data from another process is never trusted.

#include <cstddef>
#include <cstdint>
#include <ringload/catalog.hpp>
#include <span>
#include <vector>

#include "base/fault.hpp"
#include "base/numeric/element_kind.hpp"
#include "device/exported_memory.hpp"

namespace ringload::inline v0::detail {

struct kept_tensor {
  std::uint32_t region = 0;
  std::uint64_t offset = 0;
  conversion cast = {};  // From the type in the catalog.
};

struct kept_description {
  catalog contents;
  std::vector<kept_tensor> where;  // By tensor of the catalog.
  // The regions of a model on a device. Such a model has no other memory.
  std::vector<exported_memory> on_device;
};

std::vector<std::byte> packed(const kept_description& description);

// Bytes after the description, such as the rest of a page, are ignored. `region_bytes` are the
// sizes of the received memory. On success, the bytes of each tensor match its type and shape, lie
// in its region, and are aligned for the type. The sizes of regions on a device are not verified.
result<kept_description> unpacked_description(std::span<const std::byte> from,
                                              std::span<const std::uint64_t> region_bytes);

}  // namespace ringload::inline v0::detail
