// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a kept model is, as bytes that go to another process: its catalog, and where in which of its
// memory regions each tensor lies. What comes from another process is believed in nothing.

#include <cstddef>
#include <cstdint>
#include <ringload/catalog.hpp>
#include <span>
#include <vector>

#include "core/element_kind.hpp"
#include "core/fault.hpp"
#include "device/exported_memory.hpp"

namespace ringload::inline v0::detail {

struct kept_tensor {
  std::uint32_t region = 0;
  std::uint64_t offset = 0;
  conversion as = {};  // From what its catalog says.
};

struct kept_description {
  catalog what;
  std::vector<kept_tensor> where;  // By tensor of the catalog.
  // Of a model on a device: its regions. Then no other memory comes with it.
  std::vector<exported_memory> on_device;
};

std::vector<std::byte> packed(const kept_description& of);

// What lies behind the description, as memory does up to the end of a page, is not looked at.
// `region_bytes` are the sizes of the memory that came with it. If it succeeds, each tensor's bytes
// are those of its type and shape, lie in its region, and are aligned for the type. How large
// regions of a device are is only said.
result<kept_description> unpacked_description(std::span<const std::byte> from,
                                              std::span<const std::uint64_t> region_bytes);

}  // namespace ringload::inline v0::detail
