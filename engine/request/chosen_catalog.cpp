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

// Returns the composite objects whose parts are all loaded as a whole. The parts of the other
// composite objects become ordinary tensors.
std::vector<composite_info> composites_of(const catalog& from,
                                          const std::vector<chosen_tensor>& tensors) {
  std::unordered_set<std::string_view> whole;
  if (from.composites.empty()) return {};
  for (const chosen_tensor& tensor : tensors) {
    const box& first = tensor.boxes.front();
    if (tensor.boxes.size() == 1 && first.ranges.empty()) whole.insert(tensor.name);
  }
  std::vector<composite_info> out;
  for (const composite_info& composite : from.composites) {
    const auto is_whole = [&](const std::string& part) {
      return whole.contains(composite.name_of(part));
    };
    if (std::ranges::all_of(composite.parts, is_whole)) out.push_back(composite);
  }
  return out;
}

// Attributes of a .zt object that describe the type and the shape of the whole tensor. See
// formats/zt/zt_index.hpp.
constexpr std::string_view original_shape_key = "original_shape";
constexpr std::string_view type_keys[] = {"gguf_type", "logical_type"};

bool has_equal_types(const catalog& from, const std::vector<box>& boxes) {
  const std::string& type = from.tensors[boxes.front().tensor].type;
  return std::ranges::all_of(boxes,
                             [&](const box& b) { return from.tensors[b.tensor].type == type; });
}

// Removes the logical type of packed elements, of unknown blocks, and of a fused tensor whose
// tensors have different types. A part of such a tensor is a range of stored elements, such as
// bytes. The range may begin inside of an element of the type.
void drop_type(tensor_info& info, std::vector<std::string>& notes) {
  std::erase_if(info.attributes, [](const auto& pair) {
    return std::ranges::find(type_keys, pair.first) != std::end(type_keys);
  });
  notes.push_back(tensor_place(info.name) + ": the part is stored elements of type " +
                  std::string(name(info.dtype)) + ", without the logical type " +
                  printable(info.type) + " of the whole tensor");
  info.type.clear();
}

}  // namespace

result<catalog> catalog_of(const catalog& from, const std::vector<chosen_tensor>& tensors) {
  catalog out;
  out.files = from.files;
  out.metadata = from.metadata;
  out.notes = from.notes;
  out.unreadable = from.unreadable;
  out.composites = composites_of(from, tensors);
  out.tensors.reserve(tensors.size());
  for (const chosen_tensor& tensor : tensors) {
    const tensor_info& stored = from.tensors[tensor.boxes.front().tensor];
    tensor_info info = stored;
    const bool whole = tensor.boxes.size() == 1 && tensor.boxes.front().ranges.empty();
    info.name = tensor.name;
    if (!whole) {
      const auto blocks = blocks_of(info);
      info.shape = blocks ? in_blocks(tensor.shape, *blocks) : tensor.shape;
      std::optional<std::uint64_t> all_bits =
          blocks ? size_of(*blocks).bytes * 8 : bits(info.dtype);
      for (const std::uint64_t size : info.shape) {
        all_bits = all_bits ? checked_multiply(*all_bits, size) : all_bits;
      }
      // The number of bits of one stored tensor fits into 64 bits, but the number of bits of
      // several fused parts may not.
      if (!all_bits) {
        return fault{errc::size_overflow, tensor_place(tensor.name)};
      }
      info.bytes = *all_bits / 8;
      const bool is_packed = !blocks && !info.type.empty() && !info.original_shape.empty();
      if (!info.original_shape.empty()) {
        std::erase_if(info.attributes,
                      [](const auto& pair) { return pair.first == original_shape_key; });
      }
      info.original_shape.clear();
      if (is_packed || !has_equal_types(from, tensor.boxes)) drop_type(info, out.notes);
      if (blocks) {
        info.original_shape = tensor.shape;
        info.shape = {info.bytes};
      }
      info.digest.clear();  // A digest covers the whole tensor.
    }
    out.tensors.push_back(std::move(info));
  }
  return out;
}

catalog chosen(const catalog& contents, const selection& select) {
  if (auto problem = unreadable_chosen(contents, select.requests())) throw to_error(*problem);
  auto tensors = choose(contents, name_index(contents), select.requests());
  if (!tensors) throw to_error(tensors.error());
  auto selected = catalog_of(contents, *tensors);
  if (!selected) throw to_error(selected.error());
  return std::move(*selected);
}

}  // namespace ringload::inline v0
