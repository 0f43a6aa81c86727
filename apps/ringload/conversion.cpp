// SPDX-License-Identifier: Apache-2.0
#include "conversion.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <ringload/error.hpp>
#include <unordered_set>

#include "layout.hpp"
#include "size.hpp"
#include "text.hpp"

namespace ringload::tool {

namespace {

// In measurements, a window of twice this size was not faster.
constexpr std::uint64_t convert_window_bytes = std::uint64_t{192} << 20;

// Memory for the program itself, for headers and for file buffers.
constexpr std::uint64_t own_bytes = std::uint64_t{24} << 20;

// In measurements, half of this size was slower, and twice this size was not faster.
constexpr std::uint64_t reused_bytes = std::uint64_t{96} << 20;

// Returns a selection of `tensors` by name, with the slices, shards and devices of `wanted`.
selection select_tensors(const selection_text& wanted, const catalog& all,
                         const std::vector<ringload::planned_tensor>& tensors) {
  std::vector<std::string> names;
  for (const auto& each : tensors) names.push_back(each.name);
  const std::unordered_set<std::string> pass_names(names.begin(), names.end());
  selection_text ranges = wanted;
  ranges.select.clear();
  ranges.except.clear();
  ranges.experts = false;
  std::erase_if(ranges.slices,
                [&](const slice_text& each) { return !pass_names.contains(each.name); });
  selection out = selection_of(ranges, all);
  return out.names(std::move(names)).allow_missing();
}

}  // namespace

std::uint64_t bytes_of(const ringload::planned_tensor& tensor) {
  std::uint64_t elements = 1;
  for (const std::uint64_t size : tensor.shape) elements *= size;
  return (elements * bits(tensor.dtype) + 7) / 8;
}

std::vector<conversion_pass> safetensors_passes(const catalog& all, const selection_text& wanted,
                                                const load_options& how) {
  const catalog selected = chosen(all, selection_of(wanted, all));
  std::map<unsigned, std::vector<ringload::planned_tensor>, std::greater<>> by_alignment;
  for (const tensor_info& each : selected.tensors) {
    ringload::planned_tensor result = planned(each, how);
    check_storable(each, result.dtype);
    by_alignment[alignment(result.dtype)].push_back(std::move(result));
  }
  std::vector<conversion_pass> passes;
  for (auto& [width, tensors] : by_alignment) {
    selection chosen_tensors = select_tensors(wanted, all, tensors);
    passes.push_back({std::move(chosen_tensors), std::move(tensors)});
  }
  return passes;
}

std::vector<std::vector<ringload::planned_tensor>> cut_into_shards(
    const std::vector<conversion_pass>& passes, std::uint64_t shard_bytes) {
  std::vector<std::vector<ringload::planned_tensor>> shards(1);
  std::uint64_t filled = 0;
  for (const conversion_pass& pass : passes) {
    for (const auto& each : pass.tensors) {
      const std::uint64_t bytes = bytes_of(each);
      if (shard_bytes > 0 && !shards.back().empty() && filled + bytes > shard_bytes) {
        shards.emplace_back();
        filled = 0;
      }
      filled += bytes;
      shards.back().push_back(each);
    }
  }
  return shards;
}

std::string index_text(const std::vector<std::vector<ringload::planned_tensor>>& shards) {
  std::vector<std::vector<planned_tensor>> all;
  for (const auto& shard : shards) {
    auto& to = all.emplace_back();
    for (const auto& each : shard)
      to.push_back({each.name, each.dtype, each.shape, bytes_of(each)});
  }
  return index_of(all);
}

std::map<std::string, std::string, std::less<>> second_names(const catalog& selected,
                                                             const selection_text& wanted,
                                                             const load_options& how) {
  std::map<std::string, std::string, std::less<>> out;
  if (!wanted.slices.empty() || !wanted.shards.empty()) return out;
  const std::unordered_set<std::string> parts = part_names(selected);
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<const tensor_info*>> by_place;
  for (const tensor_info& each : selected.tensors) {
    if (!each.encoding.empty() || each.bytes == 0 || parts.contains(each.name)) continue;
    auto& there = by_place[{each.file, each.offset}];
    const auto first = std::ranges::find_if(there, [&](const tensor_info* other) {
      return other->shape == each.shape && other->dtype == each.dtype && other->type == each.type &&
             other->original_shape == each.original_shape && other->attributes == each.attributes &&
             planned(*other, how).dtype == planned(each, how).dtype;
    });
    if (first != there.end()) {
      out[each.name] = (*first)->name;
    } else {
      there.push_back(&each);
    }
  }
  return out;
}

conversion_memory memory_for(std::optional<std::uint64_t> available) {
  conversion_memory memory = {available, convert_window_bytes, 0, reused_bytes};
  if (!available) {
    memory.window_bytes_max = std::numeric_limits<std::uint64_t>::max();
    return memory;
  }
  // The loader takes an eighth for its slots. The headers of the files and the program need memory
  // too.
  const std::uint64_t left = *available - *available / 8;
  const std::uint64_t own = std::min(left, own_bytes);
  memory.window_bytes = std::min(convert_window_bytes, (left - own) / 2);
  memory.kept_bytes = std::min(reused_bytes, memory.window_bytes / 2);
  memory.window_bytes_max = left - own - memory.kept_bytes;
  return memory;
}

loader_options reusing_memory(loader_options options, const conversion_memory& memory) {
  options.cached_bytes = memory.kept_bytes;
  return options;
}

std::uint64_t window_for(const catalog& selected, const load_options& how,
                         const conversion_memory& memory) {
  std::uint64_t largest = 0;
  const tensor_info* culprit = nullptr;
  for (const tensor_info& each : selected.tensors) {
    const std::uint64_t bytes = std::max(bytes_of(planned(each, how)), each.bytes);
    if (bytes > largest) culprit = &each;
    largest = std::max(largest, bytes);
  }
  // The allocation of a tensor in a window also has some padding.
  const std::uint64_t needed = largest + (std::uint64_t{4} << 20);
  if (culprit != nullptr && needed > memory.window_bytes_max) {
    throw error(errc::memory_exceeded, "tensor '" + printable(culprit->name) + "'",
                "the conversion needs a window of " + grouped(needed) +
                    " bytes for the tensor, but the " + grouped(memory.available.value_or(0)) +
                    " bytes of memory that are available leave " +
                    grouped(memory.window_bytes_max));
  }
  return std::max(memory.window_bytes, needed);
}

}  // namespace ringload::tool
