// SPDX-License-Identifier: Apache-2.0
#pragma once

// Plans the output of `ringload make`: tensors, files and headers. Pure functions.

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

/// Returns `count` tensors of many types and sizes with exactly `bytes` bytes in total. If there
/// are fewer bytes than tensors, some tensors are empty.
std::vector<planned_tensor> mixed_tensors(std::uint64_t bytes, std::uint32_t count,
                                          std::uint64_t seed);

/// Returns the tensors of a Llama model in BF16 with `bytes` bytes in total, rounded down to an
/// even number. `bytes` must be at least `llama_bytes_min`.
std::vector<planned_tensor> llama_tensors(std::uint64_t bytes);
constexpr std::uint64_t llama_bytes_min = 1024;

/// Divides the tensors, in their order, into `count` runs of about equal size, each with at least
/// one tensor. `count` must be 1, or at most the number of tensors.
std::vector<std::vector<planned_tensor>> into_shards(std::vector<planned_tensor> tensors,
                                                     std::uint32_t count);

/// Sorts the tensors in the order of the reference writer: wide types first, then by name.
void sort_by_dtype(std::vector<planned_tensor>& tensors);
void sort_by_name(std::vector<planned_tensor>& tensors);

/// Returns the bytes before the first tensor: the length, the JSON, and blanks up to a multiple of
/// 8.
std::string header_of(const std::vector<planned_tensor>& tensors);

std::uint64_t bytes_of(const std::vector<planned_tensor>& tensors) noexcept;

/// Returns "model.safetensors" for a single file, and otherwise a name such as
/// "model-00002-of-00003.safetensors".
std::string shard_name(std::uint32_t position, std::uint32_t count);

/// Returns the text of model.safetensors.index.json.
std::string index_of(const std::vector<std::vector<planned_tensor>>& shards);

}  // namespace ringload::tool
