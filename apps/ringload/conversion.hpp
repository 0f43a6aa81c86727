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
#include <unordered_set>
#include <utility>
#include <vector>

#include "selection_text.hpp"

namespace ringload::tool {

/// Tensors that are loaded and written in the order of the source.
struct conversion_pass {
  selection wanted;
  std::vector<ringload::planned_tensor> tensors;
};

/// Returns passes for all chosen tensors. Wide types are before narrow types, so that each tensor
/// is aligned for its type in a file without gaps. Tensors of equal width have the order of the
/// source. Throws `errc::unsupported_dtype` for GGUF blocks that would become bytes without their
/// type.
std::vector<conversion_pass> safetensors_passes(const catalog& all, const selection_text& wanted,
                                                const load_options& how);

std::uint64_t bytes_of(const ringload::planned_tensor& of);

/// Returns the tensors of all passes, divided at `shard_bytes`. If `shard_bytes` is 0, all tensors
/// are in one file.
std::vector<std::vector<ringload::planned_tensor>> cut_into_shards(
    const std::vector<conversion_pass>& passes, std::uint64_t shard_bytes);

/// Returns the text of `model.safetensors.index.json`.
std::string index_text(const std::vector<std::vector<ringload::planned_tensor>>& shards);

/// Returns the names under which the catalog lists the parts of its objects.
std::unordered_set<std::string> part_names(const catalog& some);

/// Finds tensors with the type, shape and stored bytes of an earlier tensor. Returns a map from the
/// name of each such tensor to the name of the earlier tensor. A .zt file stores these bytes once.
/// Returns an empty map if the selection has ranges.
std::map<std::string, std::string, std::less<>> second_names(const catalog& some,
                                                             const selection_text& wanted,
                                                             const load_options& how);

/// Returns the metadata of a safetensors file, as texts. The metadata of the checkpoint is kept.
/// The key "ringload" has JSON with the information that the format has no field for: layouts,
/// shapes and parts of objects, and types and attributes of tensors.
std::vector<std::pair<std::string, std::string>> safetensors_metadata(const catalog& chosen,
                                                                      const load_options& how);

/// Returns the metadata of all files, with each key once.
attributes metadata_of(const catalog& all);

/// The memory of a conversion. With 256 MiB available, the window has 100 MiB, and 50 MiB of freed
/// memory are kept.
struct conversion_memory {
  // Available memory before the conversion. Empty if unknown.
  std::optional<std::uint64_t> available;
  std::uint64_t window_bytes = 0;  // The size of the window, which is enough for most conversions.
  std::uint64_t window_bytes_max = 0;  // The maximum size, for a larger tensor.
  std::uint64_t kept_bytes = 0;        // How much freed tensor memory is kept for later tensors.
};

/// Divides the available memory.
conversion_memory memory_for(std::optional<std::uint64_t> available);

/// Returns options of a loader that keeps this amount of freed memory, which the kernel then need
/// not zero.
loader_options reusing_memory(loader_options options, const conversion_memory& memory);

/// Returns the size of a window in which each tensor fits. Throws `errc::memory_exceeded` if a
/// tensor needs more than the available memory.
std::uint64_t window_for(const catalog& chosen, const load_options& how,
                         const conversion_memory& memory);

}  // namespace ringload::tool
