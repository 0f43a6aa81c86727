// SPDX-License-Identifier: Apache-2.0
#include "conversion.hpp"

#include <algorithm>
#include <map>
#include <ringload/error.hpp>
#include <unordered_set>

#include "layout.hpp"
#include "size.hpp"
#include "text.hpp"

namespace ringload::tool {

namespace {

// Twice as much was measured, and gained nothing.
constexpr std::uint64_t convert_window_bytes = std::uint64_t{192} << 20;

// Half as much gained less, twice as much no more.
constexpr std::uint64_t reused_bytes = std::uint64_t{96} << 20;

void check_has_meaning(const tensor_info& of, dtype loaded) {
  if (of.original_shape.empty() || of.type.empty() || loaded != of.dtype) return;
  throw error(errc::unsupported_dtype, "tensor '" + printable(of.name) + "'",
              "it is stored as blocks of " + printable(of.type) +
                  ", which safetensors does not have; --dtype f16, bf16 or f32 dequantises them");
}

// The wishes that are about ranges, with these tensors chosen by name.
selection pass_of(const selection_text& wanted, const catalog& all,
                  const std::vector<ringload::planned_tensor>& tensors) {
  std::vector<std::string> names;
  for (const auto& each : tensors) names.push_back(each.name);
  const std::unordered_set<std::string> mine(names.begin(), names.end());
  selection_text ranges = wanted;
  ranges.select.clear();
  ranges.except.clear();
  ranges.experts = false;
  std::erase_if(ranges.slices, [&](const slice_text& each) { return !mine.contains(each.name); });
  selection out = selection_of(ranges, all);
  return out.names(std::move(names)).allow_missing();
}

}  // namespace

std::uint64_t bytes_of(const ringload::planned_tensor& of) {
  std::uint64_t elements = 1;
  for (const std::uint64_t size : of.shape) elements *= size;
  return (elements * bits(of.dtype) + 7) / 8;
}

std::vector<conversion_pass> safetensors_passes(const catalog& all, const selection_text& wanted,
                                                const load_options& how) {
  const catalog some = chosen(all, selection_of(wanted, all));
  std::map<unsigned, std::vector<ringload::planned_tensor>, std::greater<>> by_alignment;
  for (const tensor_info& each : some.tensors) {
    ringload::planned_tensor made = planned(each, how);
    check_has_meaning(each, made.dtype);
    by_alignment[alignment(made.dtype)].push_back(std::move(made));
  }
  std::vector<conversion_pass> passes;
  for (auto& [width, tensors] : by_alignment) {
    selection mine = pass_of(wanted, all, tensors);
    passes.push_back({std::move(mine), std::move(tensors)});
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

std::map<std::string, std::string, std::less<>> second_names(const catalog& some,
                                                             const selection_text& wanted,
                                                             const load_options& how) {
  std::map<std::string, std::string, std::less<>> out;
  if (!wanted.slices.empty() || !wanted.shards.empty()) return out;
  std::unordered_set<std::string> parts;
  for (const composite_info& each : some.composites) {
    for (const std::string& part : each.parts) parts.insert(each.name + "/" + part);
  }
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<const tensor_info*>> by_place;
  for (const tensor_info& each : some.tensors) {
    if (!each.encoding.empty() || each.bytes == 0 || parts.contains(each.name)) continue;
    auto& there = by_place[{each.file, each.offset}];
    const auto first = std::ranges::find_if(there, [&](const tensor_info* other) {
      return other->shape == each.shape && other->dtype == each.dtype && other->type == each.type &&
             other->original_shape == each.original_shape &&
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

std::vector<std::pair<std::string, std::string>> metadata_of(const catalog& all) {
  std::vector<std::pair<std::string, std::string>> out;
  std::unordered_set<std::string> keys;
  for (const auto& each : all.metadata) {
    if (keys.insert(each.first).second) out.push_back(each);
  }
  return out;
}

std::uint64_t window_for(const catalog& some, const load_options& how) {
  std::uint64_t largest = 0;
  for (const tensor_info& each : some.tensors) {
    largest = std::max({largest, bytes_of(planned(each, how)), each.bytes});
  }
  // A group has some padding beside its tensor.
  return std::max(convert_window_bytes, largest + (std::uint64_t{4} << 20));
}

limits reusing_memory(limits within) {
  within.kept_bytes = reused_bytes;
  return within;
}

}  // namespace ringload::tool
