// SPDX-License-Identifier: Apache-2.0
#pragma once

// Plans what `ringload make` writes: tensors, files and headers. Pure: no I/O.

#include <cstdint>
#include <ringload/dtype.hpp>
#include <string>
#include <vector>

namespace ringload::tool {

struct planned_tensor {
  std::string name;
  ringload::dtype dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes;
};

/// `count` tensors of many types and sizes, together exactly `bytes`. Some are empty if there are
/// fewer bytes than tensors, all if there are none.
std::vector<planned_tensor> mixed_tensors(std::uint64_t bytes, std::uint32_t count,
                                          std::uint64_t seed);

/// The tensors of a Llama in BF16, together exactly `bytes` rounded down to a multiple of two.
/// At least `llama_bytes_min`.
std::vector<planned_tensor> llama_tensors(std::uint64_t bytes);
constexpr std::uint64_t llama_bytes_min = 1024;

/// Cuts the tensors, in the order that they have, into `count` runs of about equal bytes, none of
/// them without a tensor. `count` is at least 1, and at most the number of tensors unless it is 1.
std::vector<std::vector<planned_tensor>> into_shards(std::vector<planned_tensor> tensors,
                                                     std::uint32_t count);

/// The order in which the reference writer stores them: wide types first, then by name.
void sort_by_dtype(std::vector<planned_tensor>& tensors);
void sort_by_name(std::vector<planned_tensor>& tensors);

/// All that stands before the first tensor's bytes: the length, the JSON, and blanks up to a
/// multiple of 8.
std::string header_of(const std::vector<planned_tensor>& tensors);

std::uint64_t bytes_of(const std::vector<planned_tensor>& tensors) noexcept;

/// "model.safetensors" if it is the only one, else "model-00002-of-00003.safetensors".
std::string shard_name(std::uint32_t position, std::uint32_t count);

/// The text of model.safetensors.index.json.
std::string index_of(const std::vector<std::vector<planned_tensor>>& shards);

}  // namespace ringload::tool
