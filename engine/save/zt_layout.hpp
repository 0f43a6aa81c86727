// SPDX-License-Identifier: Apache-2.0
#pragma once

// A .zt file of raw dense tensors: their offsets and the manifest at the end.

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/fault.hpp"
#include "save/file_layout.hpp"

namespace ringload::inline v0 {

struct zt_settings {
  std::span<const std::pair<std::string, std::string>> metadata;  // Attributes of the file.
  std::uint64_t alignment = 64;  // Alignment of the tensors: 64 to 2 MiB.
  // By tensor: the index of the tensor with the same bytes, which is the tensor itself or an
  // earlier one.
  std::span<const std::uint32_t> bytes_of;
};

// Keeps the order of the tensors. A tensor with the bytes of another tensor gets the same offset.
// Faults name the tensor; the caller adds the path. Elements of less than a byte fail with
// errc::unsupported_dtype.
result<checkpoint_layout> lay_out_zt(std::span<const layout_tensor> tensors,
                                     const zt_settings& settings);

}  // namespace ringload::inline v0
