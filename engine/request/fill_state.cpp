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
    return fault{
        errc::unsupported_dtype, "load_options::dtype",
        "this option cannot be set for a fill, which converts to the types of its destinations"};
  }
  if (options.verify.checksums != nullptr) {
    return fault{errc::digest_unavailable, "load_options::verify",
                 "a fill cannot be checked against a checksum list"};
  }
  for (const destination& target : request.into) {
    if (devices.find(target.device) != nullptr) continue;
    return fault{errc::device_unavailable, "destination '" + printable(target.name) + "'",
                 "its memory is on " + target.device.name() + ", but " + devices.description()};
  }
  return {};
}

// Fails if the device of the destination does not support the conversion. GPU kernels support fewer
// pairs of types than the host.
result<void> check_kernels(const tensor_info& t, const destination& target) {
  if (target.device == host() || target.dtype == t.dtype ||
      kernels_convert(t.dtype, target.dtype)) {
    return {};
  }
  return fault{errc::unsupported_dtype, "destination '" + printable(target.name) + "'",
               "the checkpoint has " + std::string(name(t.dtype)) + ", which is converted to " +
                   std::string(name(target.dtype)) +
                   " only in host memory, but the destination is on " + target.device.name()};
}

// Fails if a fill would convert a quantised tensor, or load a part of a quantised tensor. A fill
// can only copy the bytes of all blocks.
result<void> check_blocks(const tensor_info& t, const chosen_tensor& selected,
                          const destination& target, const ringload::catalog& in) {
  if (!blocks_of(t)) return {};
  if (target.dtype != t.dtype) {
    return fault{errc::unsupported_dtype, tensor_place(in, t),
                 "a fill does not dequantise: the destination of " + t.type +
                     " blocks must have the type U8"};
  }
  if (selected.boxes.size() == 1 && selected.boxes.front().ranges.empty()) return {};
  return fault{errc::invalid_selection, tensor_place(in, t),
               "only a part is selected, but a fill needs a quantised tensor as a whole"};
}

// Returns the target of a fill. The additions cannot overflow, because match() has checked the
// destination.
fill_target target_of(const destination& target, matched_tensor matched) {
  fill_target out;
  out.dtype = target.dtype;
  const auto address = reinterpret_cast<std::uintptr_t>(target.data);
  out.memory = {address, 0, target.device == host()};
  std::uint64_t after = bits(target.dtype) % 8 == 0 ? bits(target.dtype) / 8 : 1;
  std::uint64_t before = 0;
  for (std::size_t d = 0; d < matched.shape.size(); ++d) {
    if (matched.shape[d] == 0) {
      out.matched = std::move(matched);
      return out;
    }
    const auto stride = static_cast<std::uint64_t>(matched.stride_bytes[d]);
    const bool back = matched.stride_bytes[d] < 0;
    (back ? before : after) += (matched.shape[d] - 1) * (back ? 0 - stride : stride);
  }
  out.memory.address = address - before;
  out.memory.bytes = before + after;
  out.first_element = before;
  out.matched = std::move(matched);
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
                                const ringload::catalog& chosen,
                                const unreadable_lookup& find_unreadable) {
  if (auto status = check_options(request, options, devices); !status) return status.error();
  auto matched = match(chosen, request.into, request.rules, fill_converts, find_unreadable);
  if (!matched) return matched.error();
  checked_fill out;
  out.state.missing = std::move(matched->missing);
  out.state.unexpected = std::move(matched->unexpected);
  out.chosen.files = chosen.files;
  // Destination 0 is unused, because a fill has no arena.
  out.plan_destinations.add_arena(nullptr, nullptr);
  for (matched_tensor& matched_entry : matched->tensors) {
    const destination& target = request.into[matched_entry.destination];
    const tensor_info& t = chosen.tensors[matched_entry.tensor];
    if (auto status = check_kernels(t, target); !status) return status.error();
    if (auto status = check_blocks(t, tensors[matched_entry.tensor], target, chosen); !status)
      return status.error();
    out.tensors.push_back(tensors[matched_entry.tensor]);
    out.chosen.tensors.push_back(chosen.tensors[matched_entry.tensor]);
    out.state.places.push_back({target.name, matched_entry.destination});
    out.targets.push_back(target_of(target, std::move(matched_entry)));
    const std::uint64_t address = out.targets.back().memory.address;
    out.plan_destinations.add_callers(reinterpret_cast<std::byte*>(address),
                                      devices.find(target.device));
  }
  return out;
}

operation_failure fill_state::failure(
    const fault& cause, const std::function<bool(std::uint32_t)>& loaded) const noexcept {
  operation_failure failure = cause;
  if (!writing) return failure;
  try {
    auto texts = std::make_shared<diagnostics>();
    failure.describe(*texts);
    // If a file changed, no tensor counts as complete, because every tensor may have bytes of both
    // versions.
    const bool changed = cause.code == errc::changed_file;
    std::vector<std::uint32_t> order(places.size());
    for (std::uint32_t t = 0; t < order.size(); ++t) order[t] = t;
    std::ranges::sort(order, {}, [this](std::uint32_t t) { return places[t].input_index; });
    for (const std::uint32_t t : order) {
      const bool is_whole = loaded(t) && !changed;
      (is_whole ? texts->whole : texts->torn).push_back(places[t].name);
    }
    failure.texts = std::move(texts);
  } catch (const std::bad_alloc&) {
    failure = {errc::memory_exceeded, {}};
  }
  return failure;
}

}  // namespace ringload::inline v0::detail
