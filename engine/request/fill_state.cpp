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

result<void> check_options(const fill_request& what, const load_options& options,
                           const device_set& devices) {
  if (options.dtype) {
    return fault{errc::unsupported_dtype, "load_options::dtype",
                 "a fill converts to the types of its destinations"};
  }
  if (options.verify.checksums != nullptr) {
    return fault{errc::digest_unavailable, "load_options::verify",
                 "a fill cannot be checked against a manifest"};
  }
  for (const destination& one : what.into) {
    if (devices.find(one.on) != nullptr) continue;
    return fault{errc::device_unavailable, "destination '" + printable(one.name) + "'",
                 "it is in the memory of " + one.on.name() + ", and " + devices.description()};
  }
  return {};
}

// Kernels convert fewer pairs of types than the CPU.
result<void> check_kernels(const tensor_info& t, const destination& one) {
  if (one.on == host() || one.dtype == t.dtype || kernels_convert(t.dtype, one.dtype)) {
    return {};
  }
  return fault{errc::unsupported_dtype, "destination '" + printable(one.name) + "'",
               "the checkpoint has " + std::string(name(t.dtype)) + ", which is converted to " +
                   std::string(name(one.dtype)) + " only in host memory, and this is " +
                   one.on.name()};
}

// Blocks fill memory as they are stored, and whole.
result<void> check_blocks(const tensor_info& t, const chosen_tensor& wanted, const destination& one,
                          const ringload::catalog& in) {
  if (!blocks_of(t)) return {};
  if (one.dtype != t.dtype) {
    return fault{errc::unsupported_dtype, tensor_place(in, t),
                 "a fill does not dequantise: blocks of " + t.type + " fill memory of U8"};
  }
  if (wanted.boxes.size() == 1 && wanted.boxes.front().ranges.empty()) return {};
  return fault{errc::invalid_selection, tensor_place(in, t),
               "blocks fill memory of the caller's whole, and this is a part of them"};
}

// The sums fit: match() has checked the destination.
fill_target target_of(const destination& one, matched_tensor fit) {
  fill_target made;
  made.dtype = one.dtype;
  const auto address = reinterpret_cast<std::uintptr_t>(one.data);
  made.memory = {address, 0, one.on == host()};
  std::uint64_t after = bits(one.dtype) % 8 == 0 ? bits(one.dtype) / 8 : 1;
  std::uint64_t before = 0;
  for (std::size_t d = 0; d < fit.shape.size(); ++d) {
    if (fit.shape[d] == 0) {
      made.fit = std::move(fit);
      return made;
    }
    const auto stride = static_cast<std::uint64_t>(fit.stride_bytes[d]);
    const bool back = fit.stride_bytes[d] < 0;
    (back ? before : after) += (fit.shape[d] - 1) * (back ? 0 - stride : stride);
  }
  made.memory.address = address - before;
  made.memory.bytes = before + after;
  made.first_element = before;
  made.fit = std::move(fit);
  return made;
}

}  // namespace

conversion conversion_between(dtype from, dtype to) noexcept {
  if (from == to || !fill_converts(from, to)) return {};
  return {*element_kind_of(from), *element_kind_of(to)};
}

result<checked_fill> check_fill(const fill_request& what, const load_options& options,
                                const device_set& devices, const std::vector<chosen_tensor>& which,
                                const ringload::catalog& chosen) {
  if (auto good = check_options(what, options, devices); !good) return good.error();
  auto matched = match(chosen, what.into, what.rules, fill_converts);
  if (!matched) return matched.error();
  checked_fill out;
  out.state.missing = std::move(matched->missing);
  out.state.unexpected = std::move(matched->unexpected);
  out.chosen.files = chosen.files;
  out.into.add_arena(nullptr, nullptr);  // There is no arena.
  for (matched_tensor& each : matched->tensors) {
    const destination& one = what.into[each.destination];
    const tensor_info& t = chosen.tensors[each.tensor];
    if (auto good = check_kernels(t, one); !good) return good.error();
    if (auto good = check_blocks(t, which[each.tensor], one, chosen); !good) return good.error();
    out.which.push_back(which[each.tensor]);
    out.chosen.tensors.push_back(chosen.tensors[each.tensor]);
    out.state.places.push_back({one.name, each.destination});
    out.targets.push_back(target_of(one, std::move(each)));
    const std::uint64_t address = out.targets.back().memory.address;
    out.into.add_callers(reinterpret_cast<std::byte*>(address), devices.find(one.on));
  }
  return out;
}

std::exception_ptr fill_state::failure(
    const fault& why, const std::function<bool(std::uint32_t)>& loaded) const noexcept {
  try {
    if (!writing) return to_exception(why);
    // What a file that was changed meanwhile has brought is of no one version.
    const bool changed = why.code == errc::changed_file;
    std::vector<std::uint32_t> order(places.size());
    for (std::uint32_t t = 0; t < order.size(); ++t) order[t] = t;
    std::ranges::sort(order, {}, [this](std::uint32_t t) { return places[t].given_at; });
    std::vector<std::string> whole;
    std::vector<std::string> torn;
    for (const std::uint32_t t : order) {
      (loaded(t) && !changed ? whole : torn).push_back(places[t].name);
    }
    return std::make_exception_ptr(fill_error(to_error(why), std::move(whole), std::move(torn)));
  } catch (const std::bad_alloc&) {
    return std::make_exception_ptr(std::bad_alloc());
  }
}

}  // namespace ringload::inline v0::detail
