// SPDX-License-Identifier: Apache-2.0
#pragma once

// A .zt file of dense tensors that are stored raw: where each stands, and the manifest after them.

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "core/fault.hpp"
#include "layout/file_layout.hpp"

namespace ringload::inline v0 {

struct zt_settings {
  std::span<const std::pair<std::string, std::string>> metadata;  // Attributes of the file.
  std::uint64_t alignment = 64;                                   // Of tensors: 64 to 2 MiB.
  // By tensor: the one whose bytes it has too, which is itself or comes before it.
  std::span<const std::uint32_t> bytes_of;
};

// Tensors stand in the order given; those with the bytes of another have its place. Faults name the
// tensor; the caller adds the path. errc::unsupported_dtype for elements of less than a byte.
result<checkpoint_layout> lay_out_zt(std::span<const layout_tensor> tensors,
                                     const zt_settings& how);

}  // namespace ringload::inline v0
