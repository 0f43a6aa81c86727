// SPDX-License-Identifier: Apache-2.0
#include "request/chosen_catalog.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "catalog/name_index.hpp"
#include "request/block_tensors.hpp"
#include "request/unreadable.hpp"

namespace ringload::inline v0 {

namespace {

// Those of which every part is chosen, and whole. What is left of another is only tensors.
std::vector<composite_info> composites_of(const catalog& from,
                                          const std::vector<chosen_tensor>& which) {
  std::unordered_set<std::string_view> whole;
  if (from.composites.empty()) return {};
  for (const chosen_tensor& each : which) {
    const box& first = each.boxes.front();
    if (each.boxes.size() == 1 && first.ranges.empty()) whole.insert(each.name);
  }
  std::vector<composite_info> out;
  for (const composite_info& each : from.composites) {
    const auto is_whole = [&](const std::string& part) {
      return whole.contains(each.name_of(part));
    };
    if (std::ranges::all_of(each.parts, is_whole)) out.push_back(each);
  }
  return out;
}

}  // namespace

result<catalog> catalog_of(const catalog& from, const std::vector<chosen_tensor>& which) {
  catalog out;
  out.files = from.files;
  out.metadata = from.metadata;
  out.notes = from.notes;
  out.unreadable = from.unreadable;
  out.composites = composites_of(from, which);
  out.tensors.reserve(which.size());
  for (const chosen_tensor& each : which) {
    const tensor_info& stored = from.tensors[each.boxes.front().tensor];
    tensor_info info = stored;
    const bool whole = each.boxes.size() == 1 && each.boxes.front().ranges.empty();
    info.name = each.name;
    if (!whole) {
      const auto blocks = blocks_of(info);
      info.shape = blocks ? in_blocks(each.shape, *blocks) : each.shape;
      std::optional<std::uint64_t> all_bits =
          blocks ? size_of(*blocks).bytes * 8 : bits(info.dtype);
      for (const std::uint64_t size : info.shape) {
        all_bits = all_bits ? checked_multiply(*all_bits, size) : all_bits;
      }
      // The stored tensor's number of bits fits, and this is a part of it, or several of them.
      if (!all_bits) {
        return fault{errc::size_overflow, tensor_place(each.name)};
      }
      if (*all_bits % 8 != 0) {
        return fault{errc::fractional_bytes, tensor_place(from, stored),
                     "the wanted range does not end on a byte"};
      }
      info.bytes = *all_bits / 8;
      info.original_shape.clear();
      if (blocks) {
        info.original_shape = each.shape;
        info.shape = {info.bytes};
      }
      info.digest.clear();  // It is of the whole.
    }
    out.tensors.push_back(std::move(info));
  }
  return out;
}

catalog chosen(const catalog& from, const selection& wanted) {
  if (auto bad = unreadable_chosen(from, wanted.requests())) throw to_error(*bad);
  auto which = choose(from, name_index(from), wanted.requests());
  if (!which) throw to_error(which.error());
  auto made = catalog_of(from, *which);
  if (!made) throw to_error(made.error());
  return std::move(*made);
}

}  // namespace ringload::inline v0
