// SPDX-License-Identifier: Apache-2.0
#pragma once

// Plans the result of `ringload convert`: tensors, files and order. Pure functions.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/options.hpp>
#include <ringload/selection.hpp>
#include <ringload/writer.hpp>
#include <string>
#include <utility>
#include <vector>

#include "saved_contents.hpp"
#include "selection_text.hpp"

namespace ringload::tool {

/// One of the loads of a conversion. Its tensors are loaded and written in the order of the source.
struct conversion_pass {
  selection wanted;
  std::vector<ringload::planned_tensor> tensors;
};

/// Groups the selected tensors by the alignment of their types, and returns one pass for each
/// group. Passes with a larger alignment are first, so that each tensor is aligned for its type in
/// a file without gaps. Throws `errc::unsupported_dtype` for quantised blocks, which safetensors
/// would store as bytes without their type.
std::vector<conversion_pass> safetensors_passes(const catalog& all, const selection_text& wanted,
                                                const load_options& how);

std::uint64_t bytes_of(const ringload::planned_tensor& of);

/// Divides the tensors of all passes into files of at most `shard_bytes` bytes. A larger tensor has
/// a file of its own. If `shard_bytes` is 0, all tensors are in one file.
std::vector<std::vector<ringload::planned_tensor>> cut_into_shards(
    const std::vector<conversion_pass>& passes, std::uint64_t shard_bytes);

/// Returns the text of `model.safetensors.index.json`.
std::string index_text(const std::vector<std::vector<ringload::planned_tensor>>& shards);

/// Finds each tensor that has the same type, shape and place in its file as an earlier tensor.
/// Returns a map from the name of the tensor to the name of the earlier tensor. A .zt file stores
/// their bytes once. Returns an empty map if the selection has ranges.
std::map<std::string, std::string, std::less<>> second_names(const catalog& some,
                                                             const selection_text& wanted,
                                                             const load_options& how);

/// The memory of a conversion. For example, with 256 MiB available, the window has 100 MiB, and up
/// to 50 MiB of freed memory are kept.
struct conversion_memory {
  // Available memory before the conversion. Empty if unknown.
  std::optional<std::uint64_t> available;
  std::uint64_t window_bytes = 0;      // The size of the window if all tensors fit in this size.
  std::uint64_t window_bytes_max = 0;  // The maximum size of the window.
  std::uint64_t kept_bytes = 0;        // Maximum freed memory to keep for later tensors.
};

/// Divides the available memory. If it is unknown, the window has no maximum size.
conversion_memory memory_for(std::optional<std::uint64_t> available);

/// Returns options for a loader that keeps `memory.kept_bytes` of freed memory for later tensors.
/// The kernel need not zero this memory again.
loader_options reusing_memory(loader_options options, const conversion_memory& memory);

/// Returns the size of a window in which each tensor fits. Throws `errc::memory_exceeded` if a
/// tensor needs more than the available memory.
std::uint64_t window_for(const catalog& chosen, const load_options& how,
                         const conversion_memory& memory);

}  // namespace ringload::tool
