// SPDX-License-Identifier: Apache-2.0
#include "pipeline/open.hpp"

#include <utility>

#include "core/convert.hpp"
#include "formats/printable.hpp"
#include "pipeline/check.hpp"
#include "plan/make_plan.hpp"

namespace ringload::inline v0::detail {

namespace {

std::string at_tensor(const ringload::catalog& in, std::uint32_t t) {
  const tensor_info& info = in.tensors[t];
  return printable_path(in.files[info.file].path) + ": " + tensor_place(info.name);
}

result<void> check_dtype(const load_options& how) {
  if (!how.dtype || *how.dtype == dtype::f32 || convertible(dtype::f32, *how.dtype)) return {};
  return fault{
      errc::unsupported_dtype, "load_options::dtype",
      "tensors can be converted to F32, F16 and BF16, not to " + std::string(name(*how.dtype))};
}

result<void> check_route(const opened_checkpoint& from, read_route route, std::string& reason) {
  for (const open_file& file : from.files) {
    if (file.direct || file.direct_refusal.empty() || route == read_route::buffered) continue;
    if (route == read_route::direct && file.bytes > 0) {
      return fault{errc::direct_unavailable, printable_path(file.path), file.direct_refusal};
    }
    if (reason.empty()) reason = printable_path(file.path) + ": " + file.direct_refusal;
  }
  return {};
}

// Digests are of the whole tensors' bytes in the files. The manifest lists all of the checkpoint;
// only what is loaded is checked.
result<std::vector<const tensor_digest*>> digests_of(const opened_checkpoint& from,
                                                     const std::vector<chosen_tensor>& which,
                                                     const wanted_list& wanted,
                                                     const manifest& verify) {
  const ringload::catalog& all = from.named->catalog();
  auto expected = expected_digests(verify, all);
  if (!expected) return expected.error().in(printable_path(from.name));
  std::vector<const tensor_digest*> out;
  out.reserve(which.size());
  for (const chosen_tensor& each : which) {
    const box& first = each.boxes.front();
    if (each.boxes.size() > 1 || !first.ranges.empty()) {
      return fault{errc::digest_unavailable, at_tensor(all, first.tensor),
                   "a part of it cannot be checked against the manifest"};
    }
    out.push_back((*expected)[first.tensor]);
  }
  if (const auto t = wanted.first_converted()) {
    return fault{errc::digest_unavailable, at_tensor(all, which[*t].boxes.front().tensor),
                 "it is converted, so it cannot be checked against the manifest"};
  }
  return out;
}

// What the planner says of a tensor, with the tensor's place.
fault of_plan(fault why, const std::string& source, const wanted_list& wanted,
              const ringload::catalog& chosen, std::uint32_t culprit) {
  if (culprit == no_index) return why.in(printable_path(source));
  return why.in(at_tensor(chosen, wanted.tensor_of(culprit)));
}

}  // namespace

result<opened_load> open_load(const load_request& what, const manifest* verify,
                              const limits& within, backend& target, direct_files& direct) {
  const load_options& options = what.options;
  if (auto good = check_dtype(options); !good) return good.error();
  opened_load load;
  load.from = what.opened.opened();
  if (load.from) {
    if (auto same = check_unchanged(*load.from); !same) return same.error();
  } else {
    const open_options how = {options.strictness, what.independent_files};
    auto found = open_source(what.source, how, options.route, direct);
    if (!found) return found.error();
    load.from = std::move(*found);
  }
  if (auto good = check_route(*load.from, options.route, load.route_reason); !good) {
    return good.error();
  }
  // The files are open and the catalog is fixed: nothing below parses.

  const std::string& source = load.from->name;
  const ringload::catalog& all = load.from->named->catalog();
  auto which = choose(all, what.wanted.wishes());
  if (!which) return which.error().in(printable_path(source));
  auto chosen = catalog_of(all, *which);
  if (!chosen) return chosen.error();
  load.named = std::make_shared<const named_catalog>(std::move(*chosen));
  wanted_list wanted(*load.from, *which, options);
  if (verify != nullptr) {
    auto expected = digests_of(*load.from, *which, wanted, *verify);
    if (!expected) return expected.error();
    load.expected = std::move(*expected);
  }
  if (auto room = target.check_room(wanted.loaded_bytes()); !room) {
    return room.error().in(printable_path(source));
  }
  plan_limits bounds = {within.slot_bytes};
  bounds.arena_bytes_max = within.arena_bytes_max;
  std::uint32_t culprit = no_index;
  auto plan = make_plan(wanted.input(), target.rules(), bounds, &culprit);
  if (!plan) return of_plan(plan.error(), source, wanted, load.named->catalog(), culprit);
  load.plan = std::move(*plan);
  wanted.merge_fused(load.plan);
  load.streams = wanted.take_streams();
  // The work is fixed: nothing below chooses an offset or a size.

  if (which->empty()) return load;
  auto memory = target.allocate(load.plan.arena_bytes);
  if (!memory) return memory.error().in(printable_path(source));
  load.memory = std::move(*memory);
  return load;
}

}  // namespace ringload::inline v0::detail
