// SPDX-License-Identifier: Apache-2.0
#pragma once

// Computes the files of a safetensors checkpoint: headers, positions of tensors, shards and their
// index.

#include <cstdint>
#include <ringload/save.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fault.hpp"
#include "save/file_layout.hpp"
#include "save/shards.hpp"

namespace ringload::inline v0 {

struct safetensors_settings {
  std::span<const std::pair<std::string, std::string>> metadata;
  tensor_order order = tensor_order::reference;
  std::uint32_t alignment = 8;  // See save_options::alignment.
  // True if the checkpoint is a folder of files, whose names the layout chooses.
  bool folder = false;
  shard_limits shards;  // Used only for a folder.
};

// Errors name the tensor, the file in the folder, or "saving" for an invalid setting. The caller
// must add the path. Duplicate names fail with errc::duplicate_tensor. Names that strict readers
// refuse fail with errc::invalid_tensor.
result<checkpoint_layout> lay_out_safetensors(std::span<const layout_tensor> tensors,
                                              const safetensors_settings& settings);

}  // namespace ringload::inline v0
