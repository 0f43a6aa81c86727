// SPDX-License-Identifier: Apache-2.0
#include "load/open.hpp"

#include <algorithm>
#include <utility>

#include "base/file_mapping.hpp"
#include "base/numeric/convert.hpp"
#include "base/printable.hpp"
#include "device/available.hpp"
#include "device/mapped_arena.hpp"
#include "plan/make_plan.hpp"
#include "request/choose_digests.hpp"
#include "request/chosen_catalog.hpp"
#include "request/unreadable.hpp"

namespace ringload::inline v0::detail {

namespace {

std::string at_tensor(const ringload::catalog& in, std::uint32_t t) {
  return tensor_place(in, in.tensors[t]);
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

// What the planner says of a tensor, with the tensor's place.
fault of_plan(fault why, const std::string& source, const plan_input_builder& wanted,
              const ringload::catalog& chosen, std::uint32_t culprit) {
  if (culprit == no_index) return why.in(printable_path(source));
  return why.in(at_tensor(chosen, wanted.tensor_of(culprit)));
}

}  // namespace

namespace {

// The files are open and the catalog is known after this: nothing parses any more.
result<std::shared_ptr<const opened_checkpoint>> checkpoint_of(const load_request& what,
                                                               const open_services& by) {
  if (auto opened = what.opened.opened()) {
    if (auto same = check_unchanged(*opened); !same) return same.error();
    return opened;
  }
  const open_options how = {what.options.strictness, what.independent_files, what.options.nameless};
  return open_checkpoint(what.source, how, what.options.route, by.direct, by.from);
}

result<std::vector<chosen_tensor>> boxes_of(const load_request& what, const opened_checkpoint& from,
                                            const device_set& devices) {
  if (what.chosen) {
    const auto first = what.chosen->begin();
    return std::vector(first + what.only_first, first + what.only_last);
  }
  const named_catalog& all = *from.named;
  const bool tolerates =
      what.fill && what.fill->how.unexpected != fill_options::on_unexpected::error;
  if (!tolerates) {
    if (auto bad = unreadable_chosen(all.catalog(), what.wanted.requests())) return *bad;
  }
  return choose(all.catalog(), all.names(), what.wanted.requests(), printable_path(from.name),
                what.fill ? 0 : devices.size());
}

// What is chosen of the checkpoint, and, of a fill, for which destination.
result<checked_fill> chosen_of(const load_request& what, const opened_checkpoint& from,
                               const device_set& devices) {
  const ringload::catalog& all = from.named->catalog();
  if (what.fill && !what.wanted.requests().places.empty()) {
    return fault{errc::invalid_selection, "selection",
                 "the destinations of a fill say which devices they are on"};
  }
  auto which = boxes_of(what, from, devices);
  if (!which) return which.error();
  if (what.fill) {
    for (const destination& each : what.fill->into) {
      const bool known = from.named->find(each.name).has_value();
      const unreadable_info* const bad = known ? nullptr : unreadable_named(all, each.name);
      if (bad != nullptr) return fault_of(*bad);
    }
  }
  auto chosen = catalog_of(all, *which);
  if (!chosen) return chosen.error();
  if (what.fill) return check_fill(*what.fill, what.options, devices, *which, *chosen);
  checked_fill out;
  out.which = std::move(*which);
  out.chosen = std::move(*chosen);
  return out;
}

result<mapping_request> refs_of(const load_request& what, const device_set& devices) {
  const load_options& how = what.options;
  if (how.memory != tensor_memory::mapped) return mapping_request::none;
  const char* const place = "load_options::memory";
  if (what.fill) {
    return fault{errc::invalid_options, place, "a fill has memory, so nothing is mapped"};
  }
  if (how.window_bytes > 0) {
    return fault{errc::invalid_options, place,
                 "what is mapped takes no memory, so it needs no window"};
  }
  const bool copies = how.unmappable == on_unmappable::copy;
  const bool one_host = devices.size() == 1 && devices.listed().front().kind() == device_kind::host;
  if (one_host) return copies ? mapping_request::possible : mapping_request::all;
  if (copies) return mapping_request::none;
  return fault{errc::device_unavailable, place,
               "files are mapped for a loader of the host alone, and " + devices.description()};
}

// An object of a store has no pages.
result<void> check_mappable(const opened_checkpoint& from, const load_options& how,
                            mapping_request& views) {
  if (views == mapping_request::none) return {};
  for (const open_file& file : from.files) {
    if (!file.object) continue;
    views = mapping_request::none;
    if (how.unmappable == on_unmappable::copy) return {};
    return fault{errc::not_mappable, printable_path(file.path),
                 "it is not a file of a file system"};
  }
  return {};
}

plan_limits loader_options_of(const loader_options& within, mapping_request views, bool fills) {
  plan_limits bounds = {within.slot_bytes};
  // A buffered read lands at any address. A direct one that cannot is staged by its worker.
  bounds.direct_alignment = 1;
  if (fills) return bounds;
  bounds.arena_bytes_max = within.arena_bytes_max;
  // How much is to be copied is known to the planner only, and a file may promise more than can be
  // planned.
  if (views == mapping_request::possible) {
    bounds.arena_bytes_max =
        std::min(bounds.arena_bytes_max, available_bytes().value_or(bounds.arena_bytes_max));
  }
  return bounds;
}

}  // namespace

namespace {

result<std::shared_ptr<arena>> map(const open_file& file, const planned_arena& what,
                                   mapped_access access) {
  const bool read_only = access == mapped_access::read_only;
  auto made = file_mapping::make(file.buffered.get(), what.file_offset, what.bytes, !read_only);
  if (!made) return made.error().in(printable_path(file.path));
  return std::shared_ptr<arena>(std::make_shared<mapped_arena>(std::move(*made), read_only));
}

// What load_options::dtype does not convert; a note is added to the chosen catalog.
result<void> check_conversions(const plan_input_builder& wanted, const opened_checkpoint& from,
                               ringload::catalog& chosen, const device_set& devices) {
  if (wanted.refused()) return *wanted.refused();
  const auto is_gpu = [&](std::uint32_t d) {
    return devices.listed()[d].kind() == device_kind::cuda;
  };
  const auto t = wanted.first_from_f64_on(is_gpu);
  if (t && *t < chosen.tensors.size()) {
    return fault{errc::unsupported_dtype, at_tensor(chosen, *t),
                 "F64 is converted only in host memory"};
  }
  if (wanted.unconverted().empty()) return {};
  const tensor_info& first = from.named->catalog().tensors[wanted.unconverted().front()];
  chosen.notes.push_back(grouped(wanted.unconverted().size()) +
                         " tensors are loaded unconverted, the first is '" + printable(first.name) +
                         "' of " + std::string(name(first.dtype)));
  return {};
}

// All that a device is to hold, before the plan says how.
result<void> check_devices(const plan_input_builder& wanted,
                           const std::vector<chosen_tensor>& which, const device_set& devices) {
  const std::vector<std::uint64_t> bytes = wanted.loaded_bytes_of_each();
  for (const auto& backend : devices.backends()) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < which.size(); ++i) {
      if (&devices.backend_at(which[i].device) == backend.get()) sum += bytes[i];
    }
    if (sum == 0) continue;
    if (auto room = backend->check_room(sum); !room) return room.error();
  }
  return {};
}

// All that the plan's arenas need, or nothing.
result<void> take_memory(opened_load& load, const plan_input_builder& wanted, mapped_access access,
                         const device_set& devices) {
  const std::vector<planned_arena>& planned = load.plan.arenas;
  // What is mapped is of the first device, which then is the only one.
  const auto backend_of = [&](std::size_t a) -> backend* {
    return &devices.backend_at(wanted.device_of(static_cast<std::uint32_t>(a)));
  };
  const auto is_taken = [&](std::size_t a) { return planned[a].bytes > 0 && !planned[a].mapped(); };
  load.memory.resize(planned.size());
  for (const auto& by : devices.backends()) {
    std::vector<arena_size> sizes;
    for (std::size_t a = 0; a < planned.size(); ++a) {
      if (!is_taken(a) || backend_of(a) != by.get()) continue;
      sizes.push_back({planned[a].bytes, planned[a].alignment});
    }
    if (sizes.empty()) continue;
    auto taken = by->allocate_all(sizes);
    if (!taken) return taken.error().in(printable_path(load.from->name));
    auto next = taken->begin();
    for (std::size_t a = 0; a < planned.size(); ++a) {
      if (is_taken(a) && backend_of(a) == by.get()) load.memory[a].memory = std::move(*next++);
    }
  }
  for (std::size_t a = 0; a < planned.size(); ++a) {
    taken_arena& one = load.memory[a];
    one.bytes = planned[a].bytes;
    one.position = wanted.device_of(static_cast<std::uint32_t>(a));
    one.on = devices.listed()[one.position];
    one.mapped = planned[a].mapped();
    if (one.mapped) {
      auto view = map(load.from->files[planned[a].file], planned[a], access);
      if (!view) return view.error();
      one.memory = std::move(*view);
    }
    load.into.add_arena(one.memory ? one.memory->data() : nullptr,
                        one.memory ? backend_of(a) : nullptr);
  }
  return {};
}

std::vector<layout_rules> arena_rules(const plan_input_builder& wanted, const plan_input& of,
                                      const device_set& devices) {
  if (devices.size() == 1) return {devices.backend_at(0).rules()};
  std::vector<layout_rules> rules;
  for (std::uint32_t a = 0; a < of.arenas; ++a) {
    rules.push_back(devices.backend_at(wanted.device_of(a)).rules());
  }
  return rules;
}

}  // namespace

result<opened_load> open_load(const load_request& what, const open_services& by) {
  const load_options& options = what.options;
  const bool fills = what.fill.has_value();
  if (auto good = check_dtype(options); !good) return good.error();
  auto views = refs_of(what, by.devices);
  if (!views) return views.error();
  if (fills && options.window_bytes > 0) {
    return fault{errc::invalid_options, "load_options::window_bytes",
                 "a fill takes no memory for tensors, so it has no window"};
  }
  if (options.window_bytes > 0 && by.devices.size() > 1) {
    return fault{errc::invalid_options, "load_options::window_bytes",
                 "a window is of one device, and " + by.devices.description()};
  }
  opened_load load;
  auto from = checkpoint_of(what, by);
  if (!from) return from.error();
  load.from = std::move(*from);
  load.opened_at = std::chrono::steady_clock::now();
  if (auto good = check_mappable(*load.from, options, *views); !good) return good.error();
  if (auto good = check_route(*load.from, options.route, load.route_reason); !good) {
    return good.error();
  }
  const std::string& source = load.from->name;
  auto chosen = chosen_of(what, *load.from, by.devices);
  if (!chosen) return chosen.error();
  plan_input_builder wanted(*load.from, chosen->which, options, chosen->targets);
  if (!fills) {
    auto good = check_conversions(wanted, *load.from, chosen->chosen, by.devices);
    if (!good) return good.error();
  }
  load.named = std::make_shared<const named_catalog>(std::move(chosen->chosen));
  if (fills) load.fill = std::move(chosen->state);
  auto checks = choose_digests(*load.from, chosen->which, wanted, options.verify, fills);
  if (!checks) return checks.error();
  load.checks = std::move(*checks);
  if (options.window_bytes > 0) {
    std::uint32_t culprit = 0;
    auto groups =
        make_window_groups(wanted.loaded_bytes_of_each(), options.window_bytes,
                           window_page_bytes(by.devices.listed().front(), by.within), culprit);
    if (!groups) return groups.error().in(at_tensor(load.named->catalog(), culprit));
    load.groups = std::move(*groups);
    load.chosen = std::make_shared<const std::vector<chosen_tensor>>(std::move(chosen->which));
    load.checks.clear();  // Each group checks its own.
    return load;
  }
  // Pages of views are in memory too, where all are to be there at once.
  if (!fills && (*views == mapping_request::none || options.populate)) {
    auto room = check_devices(wanted, chosen->which, by.devices);
    if (!room) return room.error().in(printable_path(source));
  }
  std::uint32_t culprit = no_index;
  plan_input input = wanted.input();
  input.views = *views;
  input.views_present = options.populate;
  auto plan = make_plan(input, arena_rules(wanted, input, by.devices),
                        loader_options_of(by.within, *views, fills), &culprit);
  if (!plan) return of_plan(plan.error(), source, wanted, load.named->catalog(), culprit);
  load.plan = std::move(*plan);
  wanted.merge_fused(load.plan);
  load.streams = wanted.take_streams();
  // The work is fixed: nothing below chooses an offset or a size.

  load.into = std::move(chosen->into);
  if (fills || chosen->which.empty()) return load;
  if (auto taken = take_memory(load, wanted, options.access, by.devices); !taken)
    return taken.error();
  return load;
}

}  // namespace ringload::inline v0::detail
