// SPDX-License-Identifier: Apache-2.0

#include "request/choose.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "formats/shape.hpp"
#include "request/block_tensors.hpp"
#include "request/choose_devices.hpp"
#include "request/take_tensors.hpp"

namespace ringload::inline v0 {

namespace {

std::string at_tensor(const catalog& from, std::uint32_t t) {
  return tensor_place(from, from.tensors[t]);
}

fault wrong_range(std::string place, std::string cause) {
  return {errc::invalid_selection, std::move(place), std::move(cause)};
}

class chooser {
 public:
  chooser(const selection_context& context, taken_tensors taken)
      : context_(context), from_(context.from), taken_(std::move(taken)) {}

  // If `devices` is 0, no devices are chosen.
  result<std::vector<chosen_tensor>> run(std::uint32_t devices) {
    if (auto status = cut(); !status) return status.error();
    if (devices == 0 || context_.requests.places.empty()) return put_together();
    return put_on_devices(devices);
  }

 private:
  // Returns the shape to which slices refer. Slices of a quantised tensor count elements, not
  // bytes.
  const std::vector<std::uint64_t>& counted_shape(std::uint32_t t) const {
    const tensor_info& info = from_.tensors[t];
    return blocks_of(info) ? info.original_shape : info.shape;
  }

  result<void> cut();
  result<void> cut(std::uint32_t t, std::uint32_t dim, range to);
  result<std::vector<chosen_tensor>> put_together();
  result<std::vector<chosen_tensor>> put_on_devices(std::uint32_t devices);
  result<void> cut_for(std::uint32_t device, std::uint32_t devices,
                       const std::vector<device_choice>& places);
  range shard_of(std::uint32_t t, std::uint32_t dim, std::uint64_t rank, std::uint64_t ranks) const;
  result<chosen_tensor> fuse(const detail::fuse_request& request);
  box box_of(std::uint32_t t) const;
  result<void> check_whole_bytes(const box& source_box) const;
  std::vector<std::uint64_t> shape_of(const box& source_box) const;

  const selection_context& context_;
  const catalog& from_;
  taken_tensors taken_;
  // The selected ranges of the tensors that are selected in part. The key is the catalog index. The
  // value has one element for each dimension. An empty element means the whole dimension.
  std::unordered_map<std::uint32_t, std::vector<std::optional<range>>> cuts_;
};

result<void> chooser::cut(std::uint32_t t, std::uint32_t dim, range to) {
  const std::vector<std::uint64_t>& shape = counted_shape(t);
  if (dim >= shape.size()) {
    return wrong_range(at_tensor(from_, t), "there is no dimension " + grouped(dim) +
                                                " in its shape " + shape_text(shape));
  }
  if (to.begin > to.end || to.end > shape[dim]) {
    return wrong_range(at_tensor(from_, t), "the range from " + grouped(to.begin) + " to " +
                                                grouped(to.end) + " ends outside dimension " +
                                                grouped(dim) + ", which has " +
                                                grouped(shape[dim]) + " elements");
  }
  const auto blocks = blocks_of(from_.tensors[t]);
  const std::uint64_t unit = blocks && dim + 1 == shape.size() ? size_of(*blocks).elements : 1;
  if (to.begin % unit != 0 || to.end % unit != 0) {
    return wrong_range(at_tensor(from_, t), "the range from " + grouped(to.begin) + " to " +
                                                grouped(to.end) + " of dimension " + grouped(dim) +
                                                " cuts a quantised block, expected multiples of " +
                                                grouped(unit));
  }
  auto& cuts = cuts_[t];
  cuts.resize(shape.size());
  if (cuts[dim]) {
    return wrong_range(at_tensor(from_, t),
                       "two ranges are selected in dimension " + grouped(dim) + ", expected one");
  }
  cuts[dim] = to;
  return {};
}

result<void> chooser::cut() {
  for (const detail::slice_request& request : context_.requests.slices) {
    auto t = context_.find(request.name);
    if (!t) return t.error();
    if (!*t) continue;
    taken_.separate[**t] = true;
    const auto end = checked_add(request.begin, request.count);
    if (!end)
      return wrong_range(at_tensor(from_, **t), "the end of the range does not fit in 64 bits");
    if (auto status = cut(**t, request.dim, {request.begin, *end}); !status) return status.error();
  }
  for (const detail::shard_request& request : context_.requests.shards) {
    if (request.rank >= request.ranks) return context_.invalid_rank(request.rank, request.ranks);
    bool is_matched = false;
    for (std::uint32_t t = 0; t < context_.tensors(); ++t) {
      if (!taken_.is_taken(t) || !matches(request.glob, context_.name(t))) continue;
      is_matched = true;
      auto status = cut(t, request.dim, shard_of(t, request.dim, request.rank, request.ranks));
      if (!status) return status.error();
    }
    if (auto status = context_.check_any_found(is_matched, request.glob); !status)
      return status.error();
  }
  return {};
}

// Returns the shard of a rank. A shard has ceil(size / ranks) indices, but the last shards may be
// shorter or empty.
range chooser::shard_of(std::uint32_t t, std::uint32_t dim, std::uint64_t rank,
                        std::uint64_t ranks) const {
  const std::vector<std::uint64_t>& shape = counted_shape(t);
  const std::uint64_t size = dim < shape.size() ? shape[dim] : 0;
  const std::uint64_t shard_size = size / ranks + (size % ranks != 0 ? 1 : 0);
  // If the product exceeds 64 bits, the shard begins past the end and is empty.
  const std::uint64_t begin = std::min(size, checked_multiply(shard_size, rank).value_or(size));
  return {begin, begin + std::min(shard_size, size - begin)};
}

result<void> chooser::cut_for(std::uint32_t device, std::uint32_t devices,
                              const std::vector<device_choice>& places) {
  for (std::uint32_t t = 0; t < context_.tensors(); ++t) {
    if (!taken_.is_taken(t) || !places[t].dim) continue;
    auto status = cut(t, *places[t].dim, shard_of(t, *places[t].dim, device, devices));
    if (!status) return status.error();
  }
  return {};
}

result<std::vector<chosen_tensor>> chooser::put_on_devices(std::uint32_t devices) {
  const auto is_taken = [this](std::uint32_t t) { return taken_.is_taken(t); };
  auto places = choose_devices(from_, context_.requests, is_taken, devices, context_.place());
  if (!places) return places.error();
  const auto is_cut = [&](const box& b) { return (*places)[b.tensor].dim.has_value(); };
  // `tensors_on[d]` lists all chosen tensors. In this list, sharded tensors have the ranges of
  // device d. If no tensor is sharded, all devices use `tensors_on[0]`.
  const bool any_cut =
      std::ranges::any_of(*places, [](const auto& p) { return p.dim.has_value(); });
  const auto common_cuts = cuts_;
  std::vector<std::vector<chosen_tensor>> tensors_on;
  for (std::uint32_t d = 0; d < (any_cut ? devices : 1); ++d) {
    cuts_ = common_cuts;
    if (auto status = cut_for(d, devices, *places); !status) return status.error();
    auto tensors = put_together();
    if (!tensors) return tensors.error();
    tensors_on.push_back(std::move(*tensors));
  }
  std::vector<chosen_tensor> out;
  for (std::size_t i = 0; i < tensors_on.front().size(); ++i) {
    const std::vector<box>& boxes = tensors_on.front()[i].boxes;
    const device_choice& place = (*places)[boxes.front().tensor];
    const bool cut = std::ranges::any_of(boxes, is_cut);
    const bool on_all_devices = place.on_all_devices || cut;
    for (std::uint32_t d = 0; d < devices; ++d) {
      if (!on_all_devices && d != place.device) continue;
      out.push_back(tensors_on[any_cut ? d : 0][i]);
      out.back().device = d;
      out.back().replicated = on_all_devices && devices > 1 && (!cut || boxes.size() > 1);
    }
  }
  return out;
}

std::vector<std::uint64_t> chooser::shape_of(const box& source_box) const {
  if (source_box.ranges.empty()) return counted_shape(source_box.tensor);
  std::vector<std::uint64_t> shape;
  for (const range& extent : source_box.ranges) shape.push_back(extent.count());
  return shape;
}

// If the selected ranges contain the whole tensor, the box has no ranges.
box chooser::box_of(std::uint32_t t) const {
  box out = {t, {}};
  const auto cuts = cuts_.find(t);
  if (cuts == cuts_.end()) return out;
  const std::vector<std::uint64_t>& shape = counted_shape(t);
  bool is_whole = true;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const range whole = {0, shape[d]};
    out.ranges.push_back(cuts->second[d].value_or(whole));
    is_whole = is_whole && out.ranges.back() == whole;
  }
  if (is_whole) out.ranges.clear();
  return out;
}

// Fails unless each row of the box begins and ends at a whole byte of the stored tensor. The
// innermost dimensions that are selected completely, and the next dimension, form a row. A load
// copies rows of bytes. Products are computed modulo 2^64, which keeps the remainder of a division
// by 8.
result<void> chooser::check_whole_bytes(const box& source_box) const {
  const tensor_info& info = from_.tensors[source_box.tensor];
  const std::vector<range>& ranges = source_box.ranges;
  std::uint64_t bit_count = bits(info.dtype);
  const auto is_empty = [](const range& extent) { return extent.count() == 0; };
  if (bit_count % 8 == 0 || std::ranges::any_of(ranges, is_empty)) return {};
  for (std::size_t d = ranges.size(); d-- > 0;) {
    const range whole = {0, info.shape[d]};
    if (ranges[d] == whole) {
      bit_count *= info.shape[d];
      continue;
    }
    const bool has_whole_bytes = ranges[d].begin * bit_count % 8 == 0 &&
                                 ranges[d].end * bit_count % 8 == 0 &&
                                 (d == 0 || info.shape[d] * bit_count % 8 == 0);
    if (has_whole_bytes) return {};
    return fault{errc::fractional_bytes, at_tensor(from_, source_box.tensor),
                 "each row of the selected range must begin and end on a whole byte"};
  }
  return {};
}

result<chosen_tensor> chooser::fuse(const detail::fuse_request& request) {
  chosen_tensor fused = {request.fused_name, {}, {}, request.dim};
  for (const std::string& part_name : request.names) {
    auto t = context_.find(part_name);
    if (!t) return t.error();
    if (!*t) continue;
    fused.boxes.push_back(box_of(**t));
    const std::vector<std::uint64_t> shape = shape_of(fused.boxes.back());
    if (request.dim >= shape.size()) {
      return wrong_range(at_tensor(from_, **t), "there is no dimension " + grouped(request.dim) +
                                                    " in its shape " + shape_text(shape));
    }
    if (bits(from_.tensors[**t].dtype) % 8 != 0) {
      return wrong_range(at_tensor(from_, **t), "elements of less than a byte cannot be fused");
    }
    if (fused.boxes.size() == 1) {
      fused.shape = shape;
      continue;
    }
    const tensor_info& first = from_.tensors[fused.boxes.front().tensor];
    bool fits = shape.size() == fused.shape.size() && from_.tensors[**t].dtype == first.dtype &&
                blocks_of(from_.tensors[**t]) == blocks_of(first);
    for (std::size_t d = 0; fits && d < shape.size(); ++d) {
      fits = d == request.dim || shape[d] == fused.shape[d];
    }
    const auto along =
        fits ? checked_add(fused.shape[request.dim], shape[request.dim]) : std::nullopt;
    if (!along) {
      return wrong_range(at_tensor(from_, **t),
                         "the tensor cannot be fused with " + tensor_place(first.name) +
                             ": the dtype and all dimensions except the fused one must be equal");
    }
    fused.shape[request.dim] = *along;
  }
  return fused;
}

result<std::vector<chosen_tensor>> chooser::put_together() {
  std::vector<chosen_tensor> out;
  // The fused tensors. The key is the catalog index of the first part of a fused tensor.
  std::unordered_map<std::uint32_t, std::vector<chosen_tensor>> fused;
  for (const detail::fuse_request& request : context_.requests.fused) {
    auto tensor = fuse(request);
    if (!tensor) return tensor.error();
    if (!tensor->boxes.empty()) fused[tensor->boxes.front().tensor].push_back(std::move(*tensor));
  }
  out.reserve(static_cast<std::size_t>(std::ranges::count(taken_.separate, true)) +
              context_.requests.fused.size());
  for (std::uint32_t t = 0; t < context_.tensors(); ++t) {
    if (taken_.separate[t]) {
      box whole_or_cut = box_of(t);
      if (auto status = check_whole_bytes(whole_or_cut); !status) return status.error();
      const bool whole = whole_or_cut.ranges.empty();
      std::vector<std::uint64_t> shape = whole ? from_.tensors[t].shape : shape_of(whole_or_cut);
      out.push_back({context_.name(t), std::move(shape), {std::move(whole_or_cut)}, 0});
    }
    if (!taken_.fused_part[t]) continue;
    const auto ready = fused.find(t);
    if (ready == fused.end()) continue;
    for (chosen_tensor& tensor : ready->second) out.push_back(std::move(tensor));
  }
  return out;
}

result<void> check_names_once(const std::vector<chosen_tensor>& tensors) {
  std::vector<std::pair<std::string_view, std::uint32_t>> names;
  names.reserve(tensors.size());
  for (const chosen_tensor& tensor : tensors) names.emplace_back(tensor.name, tensor.device);
  std::ranges::sort(names);
  const auto duplicate = std::ranges::adjacent_find(names);
  if (duplicate == names.end()) return {};
  return fault{errc::invalid_selection, tensor_place(duplicate->first),
               "the selection contains two tensors of this name"};
}

}  // namespace

result<std::vector<chosen_tensor>> choose(const catalog& from, const name_index& names,
                                          const detail::requests& requests,
                                          const std::string& source, std::uint32_t devices) {
  const selection_context context = {from, names, requests, source};
  auto taken = take_tensors(context);
  if (!taken) return taken.error();
  auto tensors = chooser(context, std::move(*taken)).run(devices);
  // Two names can be equal only if the selection has fused tensors. All other names are from the
  // catalog, and are unique on each device.
  if (tensors && !requests.fused.empty()) {
    if (auto status = check_names_once(*tensors); !status) return status.error();
  }
  return tensors;
}

}  // namespace ringload::inline v0
