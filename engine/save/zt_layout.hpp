// SPDX-License-Identifier: Apache-2.0
#pragma once

// Computes the layout of a .zt file of dense tensors without compression: the offset of each
// tensor, and the index at the end of the file.

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/fault.hpp"
#include "save/file_layout.hpp"

namespace ringload::inline v0 {

struct zt_settings {
  std::span<const std::pair<std::string, std::string>> metadata;  // Attributes of the file.
  // Alignment of the tensors, from 64 bytes to 2 MiB.
  std::uint64_t alignment = 64;
  // Indexed by tensor: the first tensor with the same bytes, which may be the tensor itself.
  std::span<const std::uint32_t> bytes_of;
};

// The tensors keep their order. Tensors with the same bytes have the same offset. Errors name the
// tensor. The caller must add the path. Fails with errc::unsupported_dtype if an element has fewer
// than 8 bits.
result<checkpoint_layout> lay_out_zt(std::span<const layout_tensor> tensors,
                                     const zt_settings& settings);

}  // namespace ringload::inline v0
