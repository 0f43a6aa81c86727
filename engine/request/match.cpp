// SPDX-License-Identifier: Apache-2.0
#include "request/match.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "formats/shape.hpp"
#include "request/footprint.hpp"

namespace ringload::inline v0 {

namespace {

std::string destination_place(const destination& one) {
  return "destination '" + printable(one.name) + "'";
}

// The destination's elements in memory, with strides; a type of less than a byte as one dimension
// of bytes. Empty if a number overflows 64 bits or the type ends inside a byte.
struct strided {
  std::uint64_t element_bytes = 1;
  std::vector<std::uint64_t> shape;
  std::vector<std::int64_t> stride_bytes;
};

std::optional<strided> in_memory(const destination& one) {
  const std::uint64_t width = bits(one.dtype);
  std::optional<std::uint64_t> total_bits = width;
  for (const std::uint64_t size : one.shape) {
    total_bits = total_bits ? checked_multiply(*total_bits, size) : total_bits;
  }
  if (!total_bits) return std::nullopt;
  if (width % 8 != 0) {
    if (*total_bits % 8 != 0) return std::nullopt;
    return strided{1, {*total_bits / 8}, {1}};
  }
  strided out = {width / 8, one.shape, std::vector<std::int64_t>(one.shape.size())};
  std::uint64_t dense = out.element_bytes;
  for (std::size_t d = one.shape.size(); d-- > 0;) {
    std::int64_t step = 0;
    if (one.strides.empty()) {
      // The product fits, but if one size is 0, another may still be too large.
      if (dense > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return std::nullopt;
      }
      step = static_cast<std::int64_t>(dense);
      dense *= std::max<std::uint64_t>(one.shape[d], 1);
    } else if (__builtin_mul_overflow(one.strides[d], static_cast<std::int64_t>(out.element_bytes),
                                      &step)) {
      return std::nullopt;
    }
    out.stride_bytes[d] = step;
  }
  return out;
}

fault invalid(const destination& one, std::string cause) {
  return {errc::invalid_destination, destination_place(one), std::move(cause)};
}

class matcher {
 public:
  matcher(const catalog& from, std::span<const destination> into, const fill_options& how,
          bool (*converts)(dtype, dtype))
      : from_(from), into_(into), how_(how), converts_(converts) {}

  result<matching> run();

 private:
  result<void> check_memory(std::uint32_t d);
  result<void> check_apart() const;
  result<void> check_types(const destination& one, const tensor_info& t) const;
  result<matched_tensor> fit(std::uint32_t d, std::uint32_t t) const;
  std::string place(const tensor_info& t) const { return tensor_place(from_, t); }

  const catalog& from_;
  const std::span<const destination> into_;
  const fill_options& how_;
  bool (*const converts_)(dtype, dtype);
  std::vector<strided> memory_;        // By destination.
  std::vector<footprint> footprints_;  // By destination.
};

result<void> matcher::check_memory(std::uint32_t d) {
  const destination& one = into_[d];
  if (!one.strides.empty() && one.strides.size() != one.shape.size()) {
    return invalid(one, "it has " + grouped(one.shape.size()) + " dimensions and " +
                            grouped(one.strides.size()) + " strides");
  }
  if (!one.strides.empty() && bits(one.dtype) % 8 != 0) {
    return invalid(one, "elements of less than a byte cannot have strides");
  }
  auto memory = in_memory(one);
  if (!memory) return invalid(one, "its size is no whole number of bytes within 64 bits");
  const auto address = reinterpret_cast<std::uintptr_t>(one.data);
  auto taken = footprint::make(address, memory->element_bytes, memory->shape, memory->stride_bytes);
  if (!taken) return invalid(one, "its strides leave the address space, or elements overlap");
  if (!taken->empty() && one.data == nullptr) return invalid(one, "it has no address");
  if (one.bytes != 0 && !taken->empty() && taken->end() - taken->begin() > one.bytes) {
    return invalid(one, "shape and strides take " + grouped(taken->end() - taken->begin()) +
                            " bytes, and it has " + grouped(one.bytes));
  }
  memory_.push_back(std::move(*memory));
  footprints_.push_back(std::move(*taken));
  return {};
}

// In the order of their beginnings, each is compared with those before it that reach past that.
result<void> matcher::check_apart() const {
  std::vector<std::uint32_t> order(into_.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  std::erase_if(order, [&](std::uint32_t d) { return footprints_[d].empty(); });
  std::ranges::sort(order, {}, [&](std::uint32_t d) { return footprints_[d].begin(); });
  std::vector<std::uint32_t> open;
  for (const std::uint32_t d : order) {
    const footprint& mine = footprints_[d];
    std::erase_if(open, [&](std::uint32_t o) { return footprints_[o].end() <= mine.begin(); });
    for (const std::uint32_t o : open) {
      if (into_[o].on == into_[d].on && footprints_[o].meets(mine)) {
        return invalid(into_[d], "it overlaps " + destination_place(into_[o]));
      }
    }
    open.push_back(d);
  }
  return {};
}

result<void> matcher::check_types(const destination& one, const tensor_info& t) const {
  if (one.dtype == t.dtype) return {};
  const std::string both = "the checkpoint has " + std::string(name(t.dtype)) + ", " +
                           destination_place(one) + " " + std::string(name(one.dtype));
  if (how_.dtype == fill_options::on_dtype::exact) {
    return fault{errc::wrong_dtype, place(t), both};
  }
  if (!converts_(t.dtype, one.dtype)) {
    return fault{errc::unsupported_dtype, place(t),
                 both + ", and the one does not become the other"};
  }
  return {};
}

result<matched_tensor> matcher::fit(std::uint32_t d, std::uint32_t t) const {
  const destination& one = into_[d];
  const tensor_info& info = from_.tensors[t];
  if (auto good = check_types(one, info); !good) return good.error();
  matched_tensor made = {d, t, memory_[d].shape, memory_[d].stride_bytes, {}};
  made.repeated.resize(made.shape.size());
  if (one.shape == info.shape) return made;

  const fault differs{errc::wrong_shape, place(info),
                      "the checkpoint has " + shape_text(info.shape) + ", " +
                          destination_place(one) + " " + shape_text(one.shape)};
  if (how_.shape == fill_options::on_shape::exact || info.shape.size() > one.shape.size() ||
      bits(info.dtype) % 8 != 0 || bits(one.dtype) % 8 != 0) {
    return differs;
  }
  const std::size_t in_front = one.shape.size() - info.shape.size();
  for (std::size_t i = 0; i < one.shape.size(); ++i) {
    const std::uint64_t size = i < in_front ? 1 : info.shape[i - in_front];
    if (size != one.shape[i] && size != 1) return differs;
    made.repeated[i] = size != one.shape[i];
  }
  return made;
}

result<matching> matcher::run() {
  matching out;
  std::unordered_map<std::string_view, std::uint32_t> by_name;
  by_name.reserve(from_.tensors.size());
  for (std::uint32_t t = 0; t < from_.tensors.size(); ++t)
    by_name.emplace(from_.tensors[t].name, t);
  std::unordered_map<std::string_view, std::uint32_t> destinations;
  destinations.reserve(into_.size());
  std::vector<bool> wanted(from_.tensors.size());

  for (std::uint32_t d = 0; d < into_.size(); ++d) {
    const destination& one = into_[d];
    if (!destinations.emplace(one.name, d).second) return invalid(one, "it is given twice");
    if (auto good = check_memory(d); !good) return good.error();
    const std::string in_file = how_.rename ? how_.rename(one.name) : one.name;
    const auto at = by_name.find(in_file);
    if (at == by_name.end()) {
      if (how_.missing == fill_options::on_missing::error) {
        return fault{errc::no_such_tensor, destination_place(one),
                     "the checkpoint has no " + tensor_place(in_file)};
      }
      out.missing.push_back(one.name);
      continue;
    }
    auto fitting = fit(d, at->second);
    if (!fitting) return fitting.error();
    wanted[at->second] = true;
    out.tensors.push_back(std::move(*fitting));
  }
  if (auto good = check_apart(); !good) return good.error();

  for (std::uint32_t t = 0; t < from_.tensors.size(); ++t) {
    if (wanted[t] || how_.unexpected == fill_options::on_unexpected::ignore) continue;
    if (how_.unexpected == fill_options::on_unexpected::error) {
      return fault{errc::unexpected_tensor, place(from_.tensors[t]), "no destination is for it"};
    }
    out.unexpected.push_back(from_.tensors[t].name);
  }
  std::ranges::sort(out.tensors, {},
                    [](const matched_tensor& m) { return std::pair(m.tensor, m.destination); });
  return out;
}

}  // namespace

result<matching> match(const catalog& from, std::span<const destination> into,
                       const fill_options& how, bool (*converts)(dtype from, dtype to)) {
  return matcher(from, into, how, converts).run();
}

}  // namespace ringload::inline v0
