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

std::string at_tensor(const ringload::catalog& catalog, std::uint32_t t) {
  return tensor_place(catalog, catalog.tensors[t]);
}

result<void> check_dtype(const load_options& options) {
  if (!options.dtype || *options.dtype == dtype::f32 || convertible(dtype::f32, *options.dtype))
    return {};
  return fault{
      errc::unsupported_dtype, "load_options::dtype",
      "tensors can be converted to F32, F16 and BF16, not to " + std::string(name(*options.dtype))};
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

// Adds the place of the tensor to an error of the planner.
fault of_plan(fault cause, const std::string& source, const plan_input_builder& wanted,
              const ringload::catalog& chosen, std::uint32_t culprit) {
  if (culprit == no_index) return cause.in(printable_path(source));
  return cause.in(at_tensor(chosen, wanted.tensor_of(culprit)));
}

}  // namespace

namespace {

// After this call the files are open and the catalog is known. No later step parses.
result<std::shared_ptr<const opened_checkpoint>> checkpoint_of(const load_request& request,
                                                               const open_services& services) {
  if (auto opened = request.opened.opened()) {
    if (auto unchanged = check_unchanged(*opened); !unchanged) return unchanged.error();
    return opened;
  }
  const open_options options = {request.options.strictness, request.independent_files,
                                request.options.nameless};
  return open_checkpoint(request.source, options, request.options.route, services.direct,
                         services.from);
}

result<std::vector<chosen_tensor>> boxes_of(const load_request& request,
                                            const opened_checkpoint& from,
                                            const device_set& devices) {
  if (request.chosen) {
    const auto first = request.chosen->begin();
    return std::vector(first + request.only_first, first + request.only_last);
  }
  const named_catalog& catalog = *from.named;
  const bool tolerates =
      request.fill && request.fill->rules.unexpected != fill_options::on_unexpected::error;
  if (!tolerates) {
    if (auto unreadable_object = unreadable_chosen(catalog.catalog(), request.wanted.requests()))
      return *unreadable_object;
  }
  return choose(catalog.catalog(), catalog.names(), request.wanted.requests(),
                printable_path(from.name), request.fill ? 0 : devices.size());
}

// Returns the chosen tensors of the checkpoint. For a fill, also the destination of each tensor.
result<checked_fill> chosen_of(const load_request& request, const opened_checkpoint& from,
                               const device_set& devices) {
  const ringload::catalog& catalog = from.named->catalog();
  if (request.fill && !request.wanted.requests().places.empty()) {
    return fault{errc::invalid_selection, "selection",
                 "a fill takes the devices from its destinations, expected no placement"};
  }
  auto tensors = boxes_of(request, from, devices);
  if (!tensors) return tensors.error();
  if (request.fill) {
    for (const destination& target : request.fill->into) {
      const bool known = from.named->find(target.name).has_value();
      const unreadable_info* const unreadable_object =
          known ? nullptr : unreadable_named(catalog, target.name);
      if (unreadable_object != nullptr) return fault_of(*unreadable_object);
    }
  }
  auto chosen = catalog_of(catalog, *tensors);
  if (!chosen) return chosen.error();
  if (request.fill) return check_fill(*request.fill, request.options, devices, *tensors, *chosen);
  checked_fill out;
  out.which = std::move(*tensors);
  out.chosen = std::move(*chosen);
  return out;
}

result<mapping_request> refs_of(const load_request& request, const device_set& devices) {
  const load_options& options = request.options;
  if (options.memory != tensor_memory::mapped) return mapping_request::none;
  const char* const place = "load_options::memory";
  if (request.fill) {
    return fault{errc::invalid_options, place,
                 "a fill writes to the memory of the caller, so files cannot be mapped"};
  }
  if (options.window_bytes > 0) {
    return fault{errc::invalid_options, place,
                 "mapped tensors take no memory: window_bytes must be 0"};
  }
  const bool copies = options.unmappable == on_unmappable::copy;
  const bool one_host = devices.size() == 1 && devices.listed().front().kind() == device_kind::host;
  if (one_host) return copies ? mapping_request::possible : mapping_request::all;
  if (copies) return mapping_request::none;
  return fault{errc::device_unavailable, place,
               "files are mapped for a loader of the host alone, and " + devices.description()};
}

// An object of a store cannot be mapped.
result<void> check_mappable(const opened_checkpoint& from, const load_options& options,
                            mapping_request& views) {
  if (views == mapping_request::none) return {};
  for (const open_file& file : from.files) {
    if (!file.object) continue;
    views = mapping_request::none;
    if (options.unmappable == on_unmappable::copy) return {};
    return fault{errc::not_mappable, printable_path(file.path),
                 "the object is not a file, so it cannot be mapped"};
  }
  return {};
}

plan_limits loader_options_of(const loader_options& within, mapping_request views, bool fills) {
  plan_limits bounds = {within.slot_bytes};
  // A buffered read can write to any address. If a direct read cannot, its worker stages the read.
  bounds.direct_alignment = 1;
  if (fills) return bounds;
  bounds.arena_bytes_max = within.arena_bytes_max;
  // Only the planner knows how many bytes are copied, and a file may declare more than can be
  // planned.
  if (views == mapping_request::possible) {
    bounds.arena_bytes_max =
        std::min(bounds.arena_bytes_max, available_bytes().value_or(bounds.arena_bytes_max));
  }
  return bounds;
}

}  // namespace

namespace {

result<std::shared_ptr<arena>> map(const open_file& file, const planned_arena& planned,
                                   mapped_access access) {
  const bool read_only = access == mapped_access::read_only;
  auto mapping =
      file_mapping::make(file.buffered.get(), planned.file_offset, planned.bytes, !read_only);
  if (!mapping) return mapping.error().in(printable_path(file.path));
  return std::shared_ptr<arena>(std::make_shared<mapped_arena>(std::move(*mapping), read_only));
}

// Checks which tensors load_options::dtype cannot convert. Adds a note to the chosen catalog.
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

// Checks the free memory of each device, before planning.
result<void> check_devices(const plan_input_builder& wanted,
                           const std::vector<chosen_tensor>& tensors, const device_set& devices) {
  const std::vector<std::uint64_t> bytes = wanted.loaded_bytes_by_tensor();
  for (const auto& backend : devices.backends()) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (&devices.backend_at(tensors[i].device) == backend.get()) sum += bytes[i];
    }
    if (sum == 0) continue;
    if (auto room = backend->check_room(sum); !room) return room.error();
  }
  return {};
}

// Allocates or maps all arenas of the plan. Keeps no memory after a failure.
result<void> take_memory(opened_load& load, const plan_input_builder& wanted, mapped_access access,
                         const device_set& devices) {
  const std::vector<planned_arena>& planned = load.plan.arenas;
  // Arenas are mapped only for a loader with a single device.
  const auto backend_of = [&](std::size_t a) -> backend* {
    return &devices.backend_at(wanted.device_of(static_cast<std::uint32_t>(a)));
  };
  const auto is_taken = [&](std::size_t a) { return planned[a].bytes > 0 && !planned[a].mapped(); };
  load.memory.resize(planned.size());
  for (const auto& owner : devices.backends()) {
    std::vector<arena_size> sizes;
    for (std::size_t a = 0; a < planned.size(); ++a) {
      if (!is_taken(a) || backend_of(a) != owner.get()) continue;
      sizes.push_back({planned[a].bytes, planned[a].alignment});
    }
    if (sizes.empty()) continue;
    auto taken = owner->allocate_all(sizes);
    if (!taken) return taken.error().in(printable_path(load.from->name));
    auto next = taken->begin();
    for (std::size_t a = 0; a < planned.size(); ++a) {
      if (is_taken(a) && backend_of(a) == owner.get()) load.memory[a].memory = std::move(*next++);
    }
  }
  for (std::size_t a = 0; a < planned.size(); ++a) {
    taken_arena& taken_memory = load.memory[a];
    taken_memory.bytes = planned[a].bytes;
    taken_memory.position = wanted.device_of(static_cast<std::uint32_t>(a));
    taken_memory.on = devices.listed()[taken_memory.position];
    taken_memory.mapped = planned[a].mapped();
    if (taken_memory.mapped) {
      auto view = map(load.from->files[planned[a].file], planned[a], access);
      if (!view) return view.error();
      taken_memory.memory = std::move(*view);
    }
    load.into.add_arena(taken_memory.memory ? taken_memory.memory->data() : nullptr,
                        taken_memory.memory ? backend_of(a) : nullptr);
  }
  return {};
}

std::vector<layout_rules> arena_rules(const plan_input_builder& wanted, const plan_input& input,
                                      const device_set& devices) {
  if (devices.size() == 1) return {devices.backend_at(0).rules()};
  std::vector<layout_rules> rules;
  for (std::uint32_t a = 0; a < input.arenas; ++a) {
    rules.push_back(devices.backend_at(wanted.device_of(a)).rules());
  }
  return rules;
}

}  // namespace

result<opened_load> open_load(const load_request& request, const open_services& services) {
  const load_options& options = request.options;
  const bool fills = request.fill.has_value();
  if (auto valid = check_dtype(options); !valid) return valid.error();
  auto views = refs_of(request, services.devices);
  if (!views) return views.error();
  if (fills && options.window_bytes > 0) {
    return fault{errc::invalid_options, "load_options::window_bytes",
                 "a fill takes no memory for tensors: window_bytes must be 0"};
  }
  if (options.window_bytes > 0 && services.devices.size() > 1) {
    return fault{errc::invalid_options, "load_options::window_bytes",
                 "a window is of one device, and " + services.devices.description()};
  }
  opened_load load;
  auto from = checkpoint_of(request, services);
  if (!from) return from.error();
  load.from = std::move(*from);
  load.opened_at = std::chrono::steady_clock::now();
  if (auto checked = check_mappable(*load.from, options, *views); !checked) return checked.error();
  if (auto checked = check_route(*load.from, options.route, load.route_reason); !checked) {
    return checked.error();
  }
  const std::string& source = load.from->name;
  auto chosen = chosen_of(request, *load.from, services.devices);
  if (!chosen) return chosen.error();
  plan_input_builder wanted(*load.from, chosen->which, options, chosen->targets);
  if (!fills) {
    auto checked = check_conversions(wanted, *load.from, chosen->chosen, services.devices);
    if (!checked) return checked.error();
  }
  load.named = std::make_shared<const named_catalog>(std::move(chosen->chosen));
  if (fills) load.fill = std::move(chosen->state);
  auto checks = choose_digests(*load.from, chosen->which, wanted, options.verify, fills);
  if (!checks) return checks.error();
  load.checks = std::move(*checks);
  if (options.window_bytes > 0) {
    std::uint32_t culprit = 0;
    auto groups = make_window_groups(
        wanted.loaded_bytes_by_tensor(), options.window_bytes,
        window_page_bytes(services.devices.listed().front(), services.within), culprit);
    if (!groups) return groups.error().in(at_tensor(load.named->catalog(), culprit));
    load.groups = std::move(*groups);
    load.chosen = std::make_shared<const std::vector<chosen_tensor>>(std::move(chosen->which));
    load.checks.clear();  // Each group checks its own tensors.
    return load;
  }
  // With `populate`, the pages of mapped tensors need memory too.
  if (!fills && (*views == mapping_request::none || options.populate)) {
    auto room = check_devices(wanted, chosen->which, services.devices);
    if (!room) return room.error().in(printable_path(source));
  }
  std::uint32_t culprit = no_index;
  plan_input input = wanted.input();
  input.views = *views;
  input.views_present = options.populate;
  auto plan = make_plan(input, arena_rules(wanted, input, services.devices),
                        loader_options_of(services.within, *views, fills), &culprit);
  if (!plan) return of_plan(plan.error(), source, wanted, load.named->catalog(), culprit);
  load.plan = std::move(*plan);
  wanted.merge_fused(load.plan);
  load.streams = wanted.take_streams();
  // The plan is fixed. No code below chooses an offset or a size.

  load.into = std::move(chosen->into);
  if (fills || chosen->which.empty()) return load;
  if (auto taken = take_memory(load, wanted, options.access, services.devices); !taken)
    return taken.error();
  return load;
}

}  // namespace ringload::inline v0::detail
