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

std::string destination_place(const destination& target) {
  return "destination '" + printable(target.name) + "'";
}

// The elements of a destination in memory. Elements of less than a byte are described as one
// dimension of bytes.
struct strided {
  std::uint64_t element_bytes = 1;
  std::vector<std::uint64_t> shape;
  std::vector<std::int64_t> stride_bytes;
};

fault invalid(const destination& target, std::string cause) {
  return {errc::invalid_destination, destination_place(target), std::move(cause)};
}

fault invalid_size(const destination& target) {
  return invalid(target, "its size in bits must be a multiple of 8 and less than 2^64");
}

fault invalid_stride(const destination& target, std::size_t dimension) {
  return invalid(target, "the stride of dimension " + grouped(dimension) +
                             " does not fit in 64 bits as a number of bytes");
}

result<strided> layout_in_bytes(const destination& target) {
  const std::uint64_t width = bits(target.dtype);
  std::optional<std::uint64_t> total_bits = width;
  for (const std::uint64_t size : target.shape) {
    total_bits = total_bits ? checked_multiply(*total_bits, size) : total_bits;
  }
  if (!total_bits || *total_bits % 8 != 0) return invalid_size(target);
  if (width % 8 != 0) return strided{1, {*total_bits / 8}, {1}};
  strided out = {width / 8, target.shape, std::vector<std::int64_t>(target.shape.size())};
  std::uint64_t dense = out.element_bytes;
  for (std::size_t d = target.shape.size(); d-- > 0;) {
    std::int64_t step = 0;
    if (target.strides.empty()) {
      // The total size in bits fits in 64 bits. Therefore `dense` can exceed the range of int64
      // only if a dimension is 0.
      if (dense > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return invalid_stride(target, d);
      }
      step = static_cast<std::int64_t>(dense);
      dense *= std::max<std::uint64_t>(target.shape[d], 1);
    } else if (__builtin_mul_overflow(target.strides[d],
                                      static_cast<std::int64_t>(out.element_bytes), &step)) {
      return invalid_stride(target, d);
    }
    out.stride_bytes[d] = step;
  }
  return out;
}

class matcher {
 public:
  matcher(const catalog& from, std::span<const destination> into, const fill_options& options,
          bool (*converts)(dtype, dtype), const unreadable_lookup& find_unreadable)
      : from_(from),
        into_(into),
        options_(options),
        converts_(converts),
        find_unreadable_(find_unreadable) {}

  result<matching> run();

 private:
  result<void> check_memory(std::uint32_t d);
  result<void> check_overlaps() const;
  result<void> check_types(const destination& target, const tensor_info& t) const;
  result<matched_tensor> fit(std::uint32_t d, std::uint32_t t) const;
  std::string place(const tensor_info& t) const { return tensor_place(from_, t); }

  const catalog& from_;
  const std::span<const destination> into_;
  const fill_options& options_;
  bool (*const converts_)(dtype, dtype);
  const unreadable_lookup& find_unreadable_;
  std::vector<strided> memory_;        // Indexed by destination.
  std::vector<footprint> footprints_;  // Indexed by destination.
};

result<void> matcher::check_memory(std::uint32_t d) {
  const destination& target = into_[d];
  if (!target.strides.empty() && target.strides.size() != target.shape.size()) {
    return invalid(target, "it has " + grouped(target.shape.size()) + " dimensions but " +
                               grouped(target.strides.size()) + " strides, expected equal numbers");
  }
  if (!target.strides.empty() && bits(target.dtype) % 8 != 0) {
    return invalid(target, "elements of less than a byte cannot have strides");
  }
  auto memory = layout_in_bytes(target);
  if (!memory) return memory.error();
  const auto address = reinterpret_cast<std::uintptr_t>(target.data);
  auto covered =
      footprint::make(address, memory->element_bytes, memory->shape, memory->stride_bytes);
  if (!covered)
    return invalid(target, "its strides lead outside the address space, or its elements overlap");
  if (!covered->empty() && target.data == nullptr) return invalid(target, "its address is null");
  if (target.bytes != 0 && !covered->empty() && covered->end() - covered->begin() > target.bytes) {
    return invalid(target, "its shape and strides cover " +
                               grouped(covered->end() - covered->begin()) +
                               " bytes, but its memory has " + grouped(target.bytes));
  }
  memory_.push_back(std::move(*memory));
  footprints_.push_back(std::move(*covered));
  return {};
}

// Fails if two destinations overlap. The destinations are sorted by their first byte. Each
// destination is compared only with the earlier destinations that end after its first byte.
result<void> matcher::check_overlaps() const {
  std::vector<std::uint32_t> order(into_.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  std::erase_if(order, [&](std::uint32_t d) { return footprints_[d].empty(); });
  std::ranges::sort(order, {}, [&](std::uint32_t d) { return footprints_[d].begin(); });
  std::vector<std::uint32_t> candidates;
  for (const std::uint32_t d : order) {
    const footprint& current = footprints_[d];
    std::erase_if(candidates, [&](std::uint32_t candidate) {
      return footprints_[candidate].end() <= current.begin();
    });
    for (const std::uint32_t candidate : candidates) {
      if (into_[candidate].device == into_[d].device && footprints_[candidate].overlaps(current)) {
        return invalid(into_[d], "it overlaps " + destination_place(into_[candidate]));
      }
    }
    candidates.push_back(d);
  }
  return {};
}

result<void> matcher::check_types(const destination& target, const tensor_info& t) const {
  if (target.dtype == t.dtype) return {};
  const std::string pair_text = "the checkpoint has " + std::string(name(t.dtype)) + ", but " +
                                destination_place(target) + " has " +
                                std::string(name(target.dtype));
  if (options_.dtype == fill_options::on_dtype::exact) {
    return fault{errc::wrong_dtype, place(t), pair_text};
  }
  if (!converts_(t.dtype, target.dtype)) {
    return fault{errc::unsupported_dtype, place(t),
                 pair_text + ": there is no conversion between these types"};
  }
  return {};
}

result<matched_tensor> matcher::fit(std::uint32_t d, std::uint32_t t) const {
  const destination& target = into_[d];
  const tensor_info& info = from_.tensors[t];
  if (auto status = check_types(target, info); !status) return status.error();
  matched_tensor out = {d, t, memory_[d].shape, memory_[d].stride_bytes, {}};
  out.repeated.resize(out.shape.size());
  if (target.shape == info.shape) return out;

  const fault differs{errc::wrong_shape, place(info),
                      "the checkpoint has shape " + shape_text(info.shape) + ", but " +
                          destination_place(target) + " has " + shape_text(target.shape)};
  if (options_.shape == fill_options::on_shape::exact || info.shape.size() > target.shape.size() ||
      bits(info.dtype) % 8 != 0 || bits(target.dtype) % 8 != 0) {
    return differs;
  }
  const std::size_t in_front = target.shape.size() - info.shape.size();
  for (std::size_t i = 0; i < target.shape.size(); ++i) {
    const std::uint64_t size = i < in_front ? 1 : info.shape[i - in_front];
    if (size != target.shape[i] && size != 1) return differs;
    out.repeated[i] = size != target.shape[i];
  }
  return out;
}

result<matching> matcher::run() {
  matching out;
  std::unordered_map<std::string_view, std::uint32_t> by_name;
  by_name.reserve(from_.tensors.size());
  for (std::uint32_t t = 0; t < from_.tensors.size(); ++t)
    by_name.emplace(from_.tensors[t].name, t);
  std::unordered_map<std::string_view, std::uint32_t> destinations;
  destinations.reserve(into_.size());
  std::vector<bool> has_destination(from_.tensors.size());

  for (std::uint32_t d = 0; d < into_.size(); ++d) {
    const destination& target = into_[d];
    if (!destinations.emplace(target.name, d).second)
      return invalid(target, "there are two destinations of this name");
    if (auto status = check_memory(d); !status) return status.error();
    const std::string tensor_name = options_.rename ? options_.rename(target.name) : target.name;
    const auto found = by_name.find(tensor_name);
    if (found == by_name.end()) {
      if (auto problem = find_unreadable_ ? find_unreadable_(tensor_name) : std::nullopt)
        return *problem;
      if (options_.missing == fill_options::on_missing::error) {
        return fault{errc::no_such_tensor, destination_place(target),
                     "the checkpoint has no " + tensor_place(tensor_name)};
      }
      out.missing.push_back(target.name);
      continue;
    }
    auto fitting = fit(d, found->second);
    if (!fitting) return fitting.error();
    has_destination[found->second] = true;
    out.tensors.push_back(std::move(*fitting));
  }
  if (auto status = check_overlaps(); !status) return status.error();

  for (std::uint32_t t = 0; t < from_.tensors.size(); ++t) {
    if (has_destination[t] || options_.unexpected == fill_options::on_unexpected::ignore) continue;
    if (options_.unexpected == fill_options::on_unexpected::error) {
      return fault{errc::unexpected_tensor, place(from_.tensors[t]),
                   "the tensor has no destination"};
    }
    out.unexpected.push_back(from_.tensors[t].name);
  }
  std::ranges::sort(out.tensors, {},
                    [](const matched_tensor& m) { return std::pair(m.tensor, m.destination); });
  return out;
}

}  // namespace

result<matching> match(const catalog& from, std::span<const destination> into,
                       const fill_options& options, bool (*converts)(dtype from, dtype to),
                       const unreadable_lookup& find_unreadable) {
  return matcher(from, into, options, converts, find_unreadable).run();
}

}  // namespace ringload::inline v0
