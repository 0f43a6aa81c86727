// SPDX-License-Identifier: Apache-2.0
#include "selection/choose.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <ringload/dtype.hpp>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/checked.hpp"
#include "formats/printable.hpp"
#include "selection/block_tensors.hpp"
#include "selection/choose_devices.hpp"

namespace ringload::inline v0 {

namespace {

using detail::wishes;

// The number n of ".experts.<n>." in a name.
std::optional<std::uint64_t> expert_of(std::string_view name) noexcept {
  constexpr std::string_view mark = ".experts.";
  for (std::size_t at = name.find(mark); at != name.npos; at = name.find(mark, at + 1)) {
    const char* const first = name.data() + at + mark.size();
    const char* const last = name.data() + name.size();
    std::uint64_t n = 0;
    const auto [end, failed] = std::from_chars(first, last, n);
    if (failed == std::errc() && end != first && end != last && *end == '.') return n;
  }
  return std::nullopt;
}

std::string at_tensor(const catalog& from, std::uint32_t t) {
  return tensor_place(from, from.tensors[t]);
}

fault wrong_range(std::string place, std::string cause) {
  return {errc::invalid_selection, std::move(place), std::move(cause)};
}

class chooser {
 public:
  chooser(const catalog& from, const name_index& names, const wishes& wanted,
          const std::string& source, std::uint32_t devices)
      : from_(from),
        names_(names),
        wanted_(wanted),
        source_(source),
        devices_(devices),
        all_(wanted.names.empty() && wanted.globs.empty() && wanted.predicates.empty()),
        taken_(from.tensors.size(), all_),
        fused_part_(from.tensors.size()) {}

  result<std::vector<chosen_tensor>> run() {
    if (auto good = take(); !good) return good.error();
    if (auto good = keep_experts(); !good) return good.error();
    if (auto good = find_fused(); !good) return good.error();
    if (auto good = cut(); !good) return good.error();
    if (devices_ == 0 || wanted_.places.empty()) return put_together();
    return put_on_devices();
  }

 private:
  std::uint32_t count() const { return static_cast<std::uint32_t>(from_.tensors.size()); }
  const std::string& name(std::uint32_t t) const { return from_.tensors[t].name; }
  // What ranges of it count.
  const std::vector<std::uint64_t>& counted_shape(std::uint32_t t) const {
    const tensor_info& info = from_.tensors[t];
    return blocks_of(info) ? info.original_shape : info.shape;
  }
  // Of a fault that is no one tensor's.
  std::string of_source(const std::string& place) const {
    return source_.empty() ? place : source_ + ": " + place;
  }

  // Which tensors.
  result<void> take();
  result<void> keep_experts();
  result<void> find_fused();
  bool wanted(std::uint32_t t) const { return taken_[t] || fused_part_[t]; }
  // Which range of each.
  result<void> cut();
  result<void> cut(std::uint32_t t, std::uint32_t dim, range to);
  result<std::vector<chosen_tensor>> put_together();
  // On which devices.
  result<std::vector<chosen_tensor>> put_on_devices();
  result<void> cut_for(std::uint32_t device, const std::vector<device_choice>& places);
  range block_of(std::uint32_t t, std::uint32_t dim, std::uint64_t rank, std::uint64_t ranks) const;
  result<chosen_tensor> fuse(const detail::fused_wish& wish);
  box box_of(std::uint32_t t) const;

  std::vector<std::uint64_t> shape_of(const box& of) const;

  // Empty if there is none and missing names are allowed.
  result<std::optional<std::uint32_t>> find(const std::string& wanted_name);
  result<void> found_any(bool any, const std::string& glob) const;

  const catalog& from_;
  const name_index& names_;
  const wishes& wanted_;
  const std::string& source_;
  const std::uint32_t devices_;
  const bool all_;                // No tensor is chosen by name, glob or predicate: all are.
  std::vector<bool> taken_;       // By tensor: it is loaded by itself.
  std::vector<bool> fused_part_;  // By tensor.
  // By tensor, for those that are selected in part.
  std::unordered_map<std::uint32_t, std::vector<std::optional<range>>> cuts_;
};

result<std::optional<std::uint32_t>> chooser::find(const std::string& wanted_name) {
  if (const auto at = names_.find(wanted_name)) return at;
  if (wanted_.missing_is_allowed) return std::optional<std::uint32_t>();
  return fault{errc::no_such_tensor, of_source(tensor_place(wanted_name))};
}

result<void> chooser::found_any(bool any, const std::string& glob) const {
  if (any || wanted_.missing_is_allowed) return {};
  return fault{errc::no_such_tensor, of_source("selection"),
               "no tensor matches '" + printable(glob) + "'"};
}

result<void> chooser::take() {
  for (const std::string& each : wanted_.names) {
    auto t = find(each);
    if (!t) return t.error();
    if (*t) taken_[**t] = true;
  }
  for (const std::string& glob : wanted_.globs) {
    bool any = false;
    for (std::uint32_t t = 0; t < count(); ++t) {
      if (!matches(glob, name(t))) continue;
      taken_[t] = any = true;
    }
    if (auto good = found_any(any, glob); !good) return good.error();
  }
  for (const auto& predicate : wanted_.predicates) {
    for (std::uint32_t t = 0; t < count(); ++t) {
      if (predicate(from_.tensors[t])) taken_[t] = true;
    }
  }
  for (const std::string& glob : wanted_.excepted) {
    for (std::uint32_t t = 0; t < count(); ++t) {
      if (matches(glob, name(t))) taken_[t] = false;
    }
  }
  return {};
}

result<void> chooser::keep_experts() {
  if (wanted_.experts.empty()) return {};
  const auto [rank, ranks, stated] = wanted_.experts.back();
  if (rank >= ranks) {
    return wrong_range(of_source("selection"),
                       "there is no rank " + grouped(rank) + " of " + grouped(ranks));
  }
  std::uint64_t experts = stated;
  for (const tensor_info& each : from_.tensors) {
    const auto n = expert_of(each.name);
    if (n && stated == 0 && *n < ~std::uint64_t{0}) experts = std::max(experts, *n + 1);
  }
  const std::uint64_t whole = experts / ranks;
  const std::uint64_t over = experts % ranks;
  const std::uint64_t begin = rank * whole + std::min(rank, over);
  const std::uint64_t end = begin + whole + (rank < over ? 1 : 0);
  for (std::uint32_t t = 0; t < count(); ++t) {
    const auto n = expert_of(name(t));
    if (n && (*n < begin || *n >= end)) taken_[t] = false;
  }
  return {};
}

result<void> chooser::cut(std::uint32_t t, std::uint32_t dim, range to) {
  const std::vector<std::uint64_t>& shape = counted_shape(t);
  if (dim >= shape.size()) {
    return wrong_range(at_tensor(from_, t), "there is no dimension " + grouped(dim) + ", it has " +
                                                grouped(shape.size()));
  }
  if (to.begin > to.end || to.end > shape[dim]) {
    return wrong_range(at_tensor(from_, t), "elements " + grouped(to.begin) + " to " +
                                                grouped(to.end) + " of dimension " + grouped(dim) +
                                                ", which has " + grouped(shape[dim]));
  }
  const auto blocks = blocks_of(from_.tensors[t]);
  const std::uint64_t unit = blocks && dim + 1 == shape.size() ? size_of(*blocks).elements : 1;
  if (to.begin % unit != 0 || to.end % unit != 0) {
    return wrong_range(at_tensor(from_, t), "elements " + grouped(to.begin) + " to " +
                                                grouped(to.end) + " of dimension " + grouped(dim) +
                                                ", whose blocks have " + grouped(unit));
  }
  auto& cuts = cuts_[t];
  cuts.resize(shape.size());
  if (cuts[dim]) {
    return wrong_range(at_tensor(from_, t), "two ranges are wanted of dimension " + grouped(dim));
  }
  cuts[dim] = to;
  return {};
}

result<void> chooser::cut() {
  for (const detail::slice_wish& wish : wanted_.slices) {
    auto t = find(wish.name);
    if (!t) return t.error();
    if (!*t) continue;
    taken_[**t] = true;
    const auto end = checked_add(wish.begin, wish.count);
    if (!end) return wrong_range(at_tensor(from_, **t), "the range leaves 64 bits");
    if (auto good = cut(**t, wish.dim, {wish.begin, *end}); !good) return good.error();
  }
  for (const detail::shard_wish& wish : wanted_.shards) {
    if (wish.rank >= wish.ranks) {
      return wrong_range(of_source("selection"),
                         "there is no rank " + grouped(wish.rank) + " of " + grouped(wish.ranks));
    }
    bool any = false;
    for (std::uint32_t t = 0; t < count(); ++t) {
      if (!wanted(t) || !matches(wish.glob, name(t))) continue;
      any = true;
      auto good = cut(t, wish.dim, block_of(t, wish.dim, wish.rank, wish.ranks));
      if (!good) return good.error();
    }
    if (auto good = found_any(any, wish.glob); !good) return good.error();
  }
  return {};
}

// Blocks are ceil(size / ranks) long.
range chooser::block_of(std::uint32_t t, std::uint32_t dim, std::uint64_t rank,
                        std::uint64_t ranks) const {
  const std::vector<std::uint64_t>& shape = counted_shape(t);
  const std::uint64_t size = dim < shape.size() ? shape[dim] : 0;
  const std::uint64_t block = size / ranks + (size % ranks != 0 ? 1 : 0);
  // If the product overflows 64 bits, the block begins past the end.
  const std::uint64_t begin = std::min(size, checked_multiply(block, rank).value_or(size));
  return {begin, begin + std::min(block, size - begin)};
}

result<void> chooser::cut_for(std::uint32_t device, const std::vector<device_choice>& places) {
  for (std::uint32_t t = 0; t < count(); ++t) {
    if (!wanted(t) || !places[t].dim) continue;
    auto good = cut(t, *places[t].dim, block_of(t, *places[t].dim, device, devices_));
    if (!good) return good.error();
  }
  return {};
}

result<std::vector<chosen_tensor>> chooser::put_on_devices() {
  const auto any_wanted = [this](std::uint32_t t) { return wanted(t); };
  auto places = choose_devices(from_, wanted_, any_wanted, devices_, of_source("selection"));
  if (!places) return places.error();
  const auto is_cut = [&](const box& b) { return (*places)[b.tensor].dim.has_value(); };
  // What each device would have if it had something of all.
  const bool any_cut =
      std::ranges::any_of(*places, [](const auto& p) { return p.dim.has_value(); });
  const auto common = cuts_;
  std::vector<std::vector<chosen_tensor>> on;
  for (std::uint32_t d = 0; d < (any_cut ? devices_ : 1); ++d) {
    cuts_ = common;
    if (auto good = cut_for(d, *places); !good) return good.error();
    auto made = put_together();
    if (!made) return made.error();
    on.push_back(std::move(*made));
  }
  std::vector<chosen_tensor> out;
  for (std::size_t i = 0; i < on.front().size(); ++i) {
    const std::vector<box>& boxes = on.front()[i].boxes;
    const device_choice& place = (*places)[boxes.front().tensor];
    const bool cut = std::ranges::any_of(boxes, is_cut);
    const bool everywhere = place.everywhere || cut;
    for (std::uint32_t d = 0; d < devices_; ++d) {
      if (!everywhere && d != place.device) continue;
      out.push_back(on[any_cut ? d : 0][i]);
      out.back().device = d;
      out.back().replicated = everywhere && devices_ > 1 && (!cut || boxes.size() > 1);
    }
  }
  return out;
}

std::vector<std::uint64_t> chooser::shape_of(const box& of) const {
  if (of.ranges.empty()) return counted_shape(of.tensor);
  std::vector<std::uint64_t> shape;
  for (const range& each : of.ranges) shape.push_back(each.count());
  return shape;
}

// The tensors that are parts of fused ones. They are loaded separately only if they were also
// chosen by name, glob or predicate.
result<void> chooser::find_fused() {
  for (const detail::fused_wish& wish : wanted_.fused) {
    for (const std::string& each : wish.names) {
      auto t = find(each);
      if (!t) return t.error();
      if (!*t) continue;
      fused_part_[**t] = true;
      if (all_) taken_[**t] = false;
    }
  }
  return {};
}

box chooser::box_of(std::uint32_t t) const {
  box out = {t, {}};
  const auto cuts = cuts_.find(t);
  if (cuts == cuts_.end()) return out;
  const std::vector<std::uint64_t>& whole = counted_shape(t);
  for (std::size_t d = 0; d < whole.size(); ++d) {
    out.ranges.push_back(cuts->second[d].value_or(range{0, whole[d]}));
  }
  return out;
}

result<chosen_tensor> chooser::fuse(const detail::fused_wish& wish) {
  chosen_tensor made = {wish.as, {}, {}, wish.dim};
  for (const std::string& each : wish.names) {
    auto t = find(each);
    if (!t) return t.error();
    if (!*t) continue;
    made.boxes.push_back(box_of(**t));
    const std::vector<std::uint64_t> shape = shape_of(made.boxes.back());
    if (wish.dim >= shape.size()) {
      return wrong_range(at_tensor(from_, **t),
                         "there is no dimension " + grouped(wish.dim) + " to fuse along");
    }
    if (bits(from_.tensors[**t].dtype) % 8 != 0) {
      return wrong_range(at_tensor(from_, **t), "elements of less than a byte cannot be fused");
    }
    if (made.boxes.size() == 1) {
      made.shape = shape;
      continue;
    }
    const tensor_info& first = from_.tensors[made.boxes.front().tensor];
    bool fits = shape.size() == made.shape.size() && from_.tensors[**t].dtype == first.dtype &&
                blocks_of(from_.tensors[**t]) == blocks_of(first);
    for (std::size_t d = 0; fits && d < shape.size(); ++d) {
      fits = d == wish.dim || shape[d] == made.shape[d];
    }
    const auto along = fits ? checked_add(made.shape[wish.dim], shape[wish.dim]) : std::nullopt;
    if (!along) {
      return wrong_range(at_tensor(from_, **t), "it cannot be fused with " +
                                                    tensor_place(first.name) +
                                                    ": dtype and all other dimensions must agree");
    }
    made.shape[wish.dim] = *along;
  }
  return made;
}

result<std::vector<chosen_tensor>> chooser::put_together() {
  std::vector<chosen_tensor> out;
  // Fused tensors by their first part.
  std::unordered_map<std::uint32_t, std::vector<chosen_tensor>> fused;
  for (const detail::fused_wish& wish : wanted_.fused) {
    auto made = fuse(wish);
    if (!made) return made.error();
    if (!made->boxes.empty()) fused[made->boxes.front().tensor].push_back(std::move(*made));
  }
  out.reserve(static_cast<std::size_t>(std::ranges::count(taken_, true)) + wanted_.fused.size());
  for (std::uint32_t t = 0; t < count(); ++t) {
    if (taken_[t]) {
      box whole_or_cut = box_of(t);
      const bool whole = whole_or_cut.ranges.empty();
      std::vector<std::uint64_t> shape = whole ? from_.tensors[t].shape : shape_of(whole_or_cut);
      out.push_back({name(t), std::move(shape), {std::move(whole_or_cut)}, 0});
    }
    if (!fused_part_[t]) continue;
    const auto here = fused.find(t);
    if (here == fused.end()) continue;
    for (chosen_tensor& each : here->second) out.push_back(std::move(each));
  }
  return out;
}

result<void> check_names_once(const std::vector<chosen_tensor>& which) {
  std::vector<std::pair<std::string_view, std::uint32_t>> names;
  names.reserve(which.size());
  for (const chosen_tensor& each : which) names.emplace_back(each.name, each.device);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return {};
  return fault{errc::invalid_selection, tensor_place(twice->first),
               "the selection makes two tensors of this name"};
}

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
      return whole.contains(each.name + "/" + part);
    };
    if (std::ranges::all_of(each.parts, is_whole)) out.push_back(each);
  }
  return out;
}

}  // namespace

result<std::vector<chosen_tensor>> choose(const catalog& from, const name_index& names,
                                          const detail::wishes& wanted, const std::string& source,
                                          std::uint32_t devices) {
  auto made = chooser(from, names, wanted, source, devices).run();
  // Without fused tensors the names are those of the catalog, each once on a device.
  if (made && !wanted.fused.empty()) {
    if (auto good = check_names_once(*made); !good) return good.error();
  }
  return made;
}

result<catalog> catalog_of(const catalog& from, const std::vector<chosen_tensor>& which) {
  catalog out;
  out.files = from.files;
  out.metadata = from.metadata;
  out.notes = from.notes;
  out.composites = composites_of(from, which);
  out.tensors.reserve(which.size());
  for (const chosen_tensor& each : which) {
    tensor_info info = from.tensors[each.boxes.front().tensor];
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
        return fault{errc::fractional_bytes, at_tensor(from, each.boxes.front().tensor),
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
  auto which = choose(from, name_index(from), wanted.wishes());
  if (!which) throw to_error(which.error());
  auto made = catalog_of(from, *which);
  if (!made) throw to_error(made.error());
  return std::move(*made);
}

}  // namespace ringload::inline v0
