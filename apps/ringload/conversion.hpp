// SPDX-License-Identifier: Apache-2.0
#pragma once

// What `ringload convert` writes: which tensors, in which files, in which order. Pure: no I/O.

#include <cstdint>
#include <functional>
#include <map>
#include <ringload/catalog.hpp>
#include <ringload/options.hpp>
#include <ringload/selection.hpp>
#include <ringload/writer.hpp>
#include <string>
#include <utility>
#include <vector>

#include "selection_text.hpp"

namespace ringload::tool {

/// A run of tensors that are loaded in the order of the source, and written so.
struct conversion_pass {
  selection wanted;
  std::vector<ringload::planned_tensor> tensors;
};

/// All chosen tensors: wide types before narrow ones, so that each is aligned for its type in a
/// file without gaps, and else in the order of the source. Throws `errc::unsupported_dtype` for
/// blocks of GGUF that would come as bytes without what they mean.
std::vector<conversion_pass> safetensors_passes(const catalog& all, const selection_text& wanted,
                                                const load_options& how);

std::uint64_t bytes_of(const ringload::planned_tensor& of);

/// The tensors of all passes, cut where a file would have more than `shard_bytes`; 0: one file.
std::vector<std::vector<ringload::planned_tensor>> cut_into_shards(
    const std::vector<conversion_pass>& passes, std::uint64_t shard_bytes);

/// As `model.safetensors.index.json` has them.
std::string index_text(const std::vector<std::vector<ringload::planned_tensor>>& shards);

/// The tensors of which another one before them has type, shape, and the bytes in the file; by name
/// that one's. A .zt file has those bytes once. Empty where something is cut.
std::map<std::string, std::string, std::less<>> second_names(const catalog& some,
                                                             const selection_text& wanted,
                                                             const load_options& how);

/// The metadata of a safetensors file, all of it text: that of the checkpoint, and under the key
/// "ringload" as JSON what the format has no field for: layouts, shapes and parts of objects, and
/// types and attributes of tensors.
std::vector<std::pair<std::string, std::string>> safetensors_metadata(const catalog& chosen,
                                                                      const load_options& how);

/// The metadata of the files, each key once.
attributes metadata_of(const catalog& all);

/// What a window must have, so that the largest of the tensors fits.
std::uint64_t window_for(const catalog& chosen, const load_options& how);

/// The limits of a loader that loads through such a window: of the memory that tensors leave some
/// is kept for the next, which the kernel then need not zero.
loader_options reusing_memory(loader_options within);

}  // namespace ringload::tool
