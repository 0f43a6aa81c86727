// SPDX-License-Identifier: Apache-2.0
#include "request/fill_state.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/numeric/convert.hpp"
#include "base/printable.hpp"
#include "request/block_tensors.hpp"

namespace ringload::inline v0::detail {

namespace {

result<void> check_options(const fill_request& request, const load_options& options,
                           const device_set& devices) {
  if (options.dtype) {
    return fault{errc::unsupported_dtype, "load_options::dtype",
                 "a fill converts to the types of its destinations"};
  }
  if (options.verify.checksums != nullptr) {
    return fault{errc::digest_unavailable, "load_options::verify",
                 "a fill cannot be checked against a manifest"};
  }
  for (const destination& target : request.into) {
    if (devices.find(target.on) != nullptr) continue;
    return fault{errc::device_unavailable, "destination '" + printable(target.name) + "'",
                 "it is in the memory of " + target.on.name() + ", and " + devices.description()};
  }
  return {};
}

// Kernels convert fewer pairs of types than the CPU.
result<void> check_kernels(const tensor_info& t, const destination& target) {
  if (target.on == host() || target.dtype == t.dtype || kernels_convert(t.dtype, target.dtype)) {
    return {};
  }
  return fault{errc::unsupported_dtype, "destination '" + printable(target.name) + "'",
               "the checkpoint has " + std::string(name(t.dtype)) + ", which is converted to " +
                   std::string(name(target.dtype)) + " only in host memory, and this is " +
                   target.on.name()};
}

// Quantised blocks fill memory in their stored form, and only as whole tensors.
result<void> check_blocks(const tensor_info& t, const chosen_tensor& wanted,
                          const destination& target, const ringload::catalog& in) {
  if (!blocks_of(t)) return {};
  if (target.dtype != t.dtype) {
    return fault{errc::unsupported_dtype, tensor_place(in, t),
                 "a fill does not dequantise: blocks of " + t.type + " fill memory of U8"};
  }
  if (wanted.boxes.size() == 1 && wanted.boxes.front().ranges.empty()) return {};
  return fault{errc::invalid_selection, tensor_place(in, t),
               "blocks fill memory of the caller's whole, and this is a part of them"};
}

// The sums fit: match() has checked the destination.
fill_target target_of(const destination& target, matched_tensor fit) {
  fill_target out;
  out.dtype = target.dtype;
  const auto address = reinterpret_cast<std::uintptr_t>(target.data);
  out.memory = {address, 0, target.on == host()};
  std::uint64_t after = bits(target.dtype) % 8 == 0 ? bits(target.dtype) / 8 : 1;
  std::uint64_t before = 0;
  for (std::size_t d = 0; d < fit.shape.size(); ++d) {
    if (fit.shape[d] == 0) {
      out.fit = std::move(fit);
      return out;
    }
    const auto stride = static_cast<std::uint64_t>(fit.stride_bytes[d]);
    const bool back = fit.stride_bytes[d] < 0;
    (back ? before : after) += (fit.shape[d] - 1) * (back ? 0 - stride : stride);
  }
  out.memory.address = address - before;
  out.memory.bytes = before + after;
  out.first_element = before;
  out.fit = std::move(fit);
  return out;
}

}  // namespace

conversion conversion_between(dtype from, dtype to) noexcept {
  if (from == to || !fill_converts(from, to)) return {};
  return {*element_kind_of(from), *element_kind_of(to)};
}

result<checked_fill> check_fill(const fill_request& request, const load_options& options,
                                const device_set& devices,
                                const std::vector<chosen_tensor>& tensors,
                                const ringload::catalog& chosen) {
  if (auto status = check_options(request, options, devices); !status) return status.error();
  auto matched = match(chosen, request.into, request.rules, fill_converts);
  if (!matched) return matched.error();
  checked_fill out;
  out.state.missing = std::move(matched->missing);
  out.state.unexpected = std::move(matched->unexpected);
  out.chosen.files = chosen.files;
  out.into.add_arena(nullptr, nullptr);  // There is no arena.
  for (matched_tensor& matched_entry : matched->tensors) {
    const destination& target = request.into[matched_entry.destination];
    const tensor_info& t = chosen.tensors[matched_entry.tensor];
    if (auto status = check_kernels(t, target); !status) return status.error();
    if (auto status = check_blocks(t, tensors[matched_entry.tensor], target, chosen); !status)
      return status.error();
    out.which.push_back(tensors[matched_entry.tensor]);
    out.chosen.tensors.push_back(chosen.tensors[matched_entry.tensor]);
    out.state.places.push_back({target.name, matched_entry.destination});
    out.targets.push_back(target_of(target, std::move(matched_entry)));
    const std::uint64_t address = out.targets.back().memory.address;
    out.into.add_callers(reinterpret_cast<std::byte*>(address), devices.find(target.on));
  }
  return out;
}

std::exception_ptr fill_state::failure(
    const fault& cause, const std::function<bool(std::uint32_t)>& loaded) const noexcept {
  try {
    if (!writing) return to_exception(cause);
    // If a file changed during the fill, its bytes may belong to different versions.
    const bool changed = cause.code == errc::changed_file;
    std::vector<std::uint32_t> order(places.size());
    for (std::uint32_t t = 0; t < order.size(); ++t) order[t] = t;
    std::ranges::sort(order, {}, [this](std::uint32_t t) { return places[t].given_at; });
    std::vector<std::string> whole;
    std::vector<std::string> torn;
    for (const std::uint32_t t : order) {
      (loaded(t) && !changed ? whole : torn).push_back(places[t].name);
    }
    return std::make_exception_ptr(fill_error(to_error(cause), std::move(whole), std::move(torn)));
  } catch (const std::bad_alloc&) {
    return std::make_exception_ptr(std::bad_alloc());
  }
}

}  // namespace ringload::inline v0::detail
