// SPDX-License-Identifier: Apache-2.0

#include "load/open.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <string_view>
#include <utility>

#include "base/io_unit.hpp"
#include "base/numeric/convert.hpp"
#include "base/printable.hpp"
#include "device/available.hpp"
#include "io/residency.hpp"
#include "load/take_memory.hpp"
#include "plan/make_plan.hpp"
#include "request/choose_digests.hpp"
#include "request/chosen_catalog.hpp"
#include "request/unreadable.hpp"
#include "runtime/memory_budget.hpp"

namespace ringload::inline v0::detail {

namespace {

std::string at_tensor(const ringload::catalog& catalog, std::uint32_t t) {
  return tensor_place(catalog, catalog.tensors[t]);
}

// The alignment that cudaMalloc guarantees.
constexpr std::uint32_t cuda_alignment_max = 256;

result<void> check_alignment(const load_request& request, const device_set& devices) {
  const std::uint32_t alignment = request.options.tensor_alignment;
  const char* const place = "load_options::tensor_alignment";
  if (!std::has_single_bit(alignment) || alignment > block_bytes) {
    return fault{errc::invalid_options, place,
                 "the value is " + grouped(alignment) + ", expected a power of two up to 4,096"};
  }
  if (alignment > 1 && request.fill)
    return fault{errc::invalid_options, place, "the caller of a fill chooses the addresses"};
  const auto is_gpu = [](const device& target) { return target.kind() == device_kind::cuda; };
  if (alignment > cuda_alignment_max && std::ranges::any_of(devices.listed(), is_gpu)) {
    return fault{errc::invalid_options, place,
                 "the value is " + grouped(alignment) + ", but a GPU aligns memory to 256 bytes"};
  }
  return {};
}

result<void> check_route(const opened_checkpoint& checkpoint, read_route route,
                         std::string& reason) {
  for (const open_file& file : checkpoint.files) {
    if (file.direct || file.direct_refusal.empty() || route == read_route::buffered) continue;
    if (route == read_route::direct && file.bytes > 0) {
      return fault{errc::direct_unavailable, printable_path(file.path), file.direct_refusal};
    }
    if (reason.empty()) reason = printable_path(file.path) + ": " + file.direct_refusal;
  }
  return {};
}

// Adds the name of the tensor to an error of the planner. `failed_tensor` is the index that
// make_plan() has set, or no_index.
fault with_tensor_place(fault cause, const std::string& source, const plan_input_builder& builder,
                        const ringload::catalog& chosen, std::uint32_t failed_tensor) {
  if (failed_tensor == no_index) return cause.in(printable_path(source));
  return cause.in(at_tensor(chosen, builder.tensor_of(failed_tensor)));
}

// Opens the checkpoint, unless the request contains an open checkpoint. No later step parses a
// file.
result<std::shared_ptr<const opened_checkpoint>> find_or_open_checkpoint(
    const load_request& request, const open_services& services) {
  if (auto opened = request.opened.opened()) {
    if (auto unchanged = check_unchanged(*opened); !unchanged) return unchanged.error();
    return opened;
  }
  return open_checkpoint(request.source, request.options.open, request.options.route,
                         services.direct, services.for_checkpoint);
}

result<std::vector<chosen_tensor>> choose_tensors(const load_request& request,
                                                  const opened_checkpoint& checkpoint,
                                                  const device_set& devices) {
  if (request.chosen) {
    const auto first = request.chosen->begin();
    return std::vector(first + request.chosen_begin, first + request.chosen_end);
  }
  const named_catalog& catalog = *checkpoint.named;
  const bool tolerates =
      request.fill && request.fill->rules.unexpected != fill_options::on_unexpected::error;
  if (!tolerates) {
    if (auto unreadable_object =
            unreadable_chosen(catalog.catalog(), request.options.select.requests()))
      return *unreadable_object;
  }
  return choose(catalog.catalog(), catalog.names(), request.options.select.requests(),
                printable_path(checkpoint.name), request.fill ? 0 : devices.size());
}

// Returns the chosen tensors of the checkpoint. For a fill, the result also contains the
// destination of each tensor.
result<checked_fill> choose_for_request(const load_request& request,
                                        const opened_checkpoint& checkpoint,
                                        const device_set& devices) {
  const ringload::catalog& catalog = checkpoint.named->catalog();
  if (request.fill && !request.options.select.requests().places.empty()) {
    return fault{
        errc::invalid_selection, "selection",
        "a selection for a fill cannot choose devices, because each destination has its own"};
  }
  auto tensors = choose_tensors(request, checkpoint, devices);
  if (!tensors) return tensors.error();
  auto chosen = catalog_of(catalog, *tensors);
  if (!chosen) return chosen.error();
  if (request.fill) {
    const auto find_unreadable = [&](std::string_view name) -> std::optional<fault> {
      if (checkpoint.named->find(name)) return std::nullopt;
      const unreadable_info* const object = unreadable_named(catalog, name);
      return object != nullptr ? std::optional(fault_of(*object)) : std::nullopt;
    };
    return check_fill(*request.fill, request.options, devices, *tensors, *chosen, find_unreadable);
  }
  checked_fill out;
  out.tensors = std::move(*tensors);
  out.chosen = std::move(*chosen);
  return out;
}

result<mapping_request> requested_mapping(const load_request& request, const device_set& devices) {
  const load_options& options = request.options;
  if (options.memory != tensor_memory::mapped) {
    if (auto status = check_owned_memory(options); !status) return status.error();
    return mapping_request::none;
  }
  const char* const place = "load_options::memory";
  if (request.fill) {
    return fault{errc::invalid_options, place,
                 "a fill writes to the memory of the caller, so files cannot be mapped"};
  }
  if (request.window_bytes > 0) {
    return fault{errc::invalid_options, place,
                 "a stream with a window cannot map files: use start_async, because mapped tensors "
                 "need no memory"};
  }
  const bool copies = options.unmappable == on_unmappable::copy;
  const bool one_host = devices.size() == 1 && devices.listed().front().kind() == device_kind::host;
  if (one_host) return copies ? mapping_request::possible : mapping_request::all;
  if (copies) return mapping_request::none;
  return fault{
      errc::device_unavailable, place,
      "files are mapped only if the host is the only device, but " + devices.description()};
}

// Sets `mapping_mode` to `none` if a file is in an object store, because objects of a store cannot
// be mapped. Fails if a mapping is required.
result<void> check_mappable(const opened_checkpoint& checkpoint, const load_options& options,
                            mapping_request& mapping_mode) {
  if (mapping_mode == mapping_request::none) return {};
  for (const open_file& file : checkpoint.files) {
    if (!file.object) continue;
    mapping_mode = mapping_request::none;
    if (options.unmappable == on_unmappable::copy) return {};
    return fault{errc::not_mappable, printable_path(file.path),
                 "the object is not a file, so it cannot be mapped"};
  }
  return {};
}

plan_limits make_plan_limits(const loader_options& options, mapping_request mapping_mode,
                             bool fills) {
  plan_limits bounds = {options.slot_bytes};
  // The plan need not align destinations for direct reads. If the address of a destination is not
  // aligned, the worker reads into its slot and copies the bytes.
  bounds.direct_alignment = 1;
  if (fills) return bounds;
  bounds.arena_bytes_max = options.arena_bytes_max;
  // The planner enforces the limit, because only the planner computes the number of bytes that
  // cannot be mapped and must be copied. Without a limit, a file that declares very large tensors
  // could exhaust the memory.
  if (mapping_mode == mapping_request::possible) {
    const auto available = available_bytes();
    if (available && *available < bounds.arena_bytes_max) {
      bounds.arena_bytes_max = *available;
      bounds.arena_bytes_max_name = "the available memory";
    }
  }
  return bounds;
}

// Fails if a tensor of packed elements, or an F64 tensor on a GPU, should be converted to
// load_options::dtype, or if parts of a fused tensor are converted differently. If tensors keep
// their type because the type has no conversion, adds a note to the catalog.
result<void> check_conversions(const plan_input_builder& builder,
                               const opened_checkpoint& checkpoint, ringload::catalog& chosen,
                               const device_set& devices) {
  if (builder.refused()) return *builder.refused();
  const auto is_gpu = [&](std::uint32_t d) {
    return devices.listed()[d].kind() == device_kind::cuda;
  };
  const auto t = builder.first_f64_on(is_gpu);
  if (t && *t < chosen.tensors.size()) {
    return fault{errc::unsupported_dtype, at_tensor(chosen, *t),
                 "F64 is converted only in host memory"};
  }
  if (builder.unconverted().empty()) return {};
  const tensor_info& first = checkpoint.named->catalog().tensors[builder.unconverted().front()];
  chosen.notes.push_back(grouped(builder.unconverted().size()) +
                         " tensors are loaded unconverted, the first is '" + printable(first.name) +
                         "' of " + std::string(name(first.dtype)));
  return {};
}

// Fails if a device does not have enough free memory for its tensors.
result<void> check_devices(const plan_input_builder& builder,
                           const std::vector<chosen_tensor>& tensors, const device_set& devices) {
  const std::vector<std::uint64_t> bytes = builder.loaded_bytes_by_tensor();
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

// Chooses the files whose bytes should not stay in the page cache. A candidate is a file that is
// read through the page cache. A file is excluded if at least a tenth of its pages are known to be
// cached. If the free memory can hold all candidates in addition to the tensors, no file is chosen.
std::vector<bool> choose_uncached(const opened_load& load, const load_options& options) {
  std::vector<bool> uncached(load.checkpoint->files.size());
  std::uint64_t file_bytes = 0;
  for (std::size_t i = 0; i < uncached.size(); ++i) {
    const open_file& file = load.checkpoint->files[i];
    const bool is_buffered = !file.direct || options.route == read_route::buffered;
    if (file.buffered.get() < 0 || !is_buffered || file.bytes == 0) continue;
    const auto counts = count_pages(file.buffered.get(), 0, file.bytes);
    if (counts && counts->cached * 10 >= counts->pages) continue;
    uncached[i] = true;
    file_bytes += file.bytes;
  }
  if (file_bytes == 0) return {};
  std::uint64_t arena_bytes = 0;
  for (const taken_arena& arena : load.memory) arena_bytes += arena.mapped ? 0 : arena.bytes;
  if (page_cache_has_room(file_bytes, arena_bytes, available_bytes())) return {};
  return uncached;
}

std::vector<placement_rules> arena_rules(const plan_input_builder& builder, const plan_input& input,
                                         const device_set& devices, std::uint32_t alignment) {
  std::vector<placement_rules> rules;
  if (devices.size() == 1) {
    rules.push_back(devices.backend_at(0).rules());
  } else {
    for (std::uint32_t a = 0; a < input.arenas; ++a) {
      rules.push_back(devices.backend_at(builder.device_of(a)).rules());
    }
  }
  for (placement_rules& arena_rule : rules) {
    arena_rule.tensor_alignment = std::max<std::uint64_t>(arena_rule.tensor_alignment, alignment);
  }
  return rules;
}

}  // namespace

result<void> check_dtype(const load_options& options) {
  if (!options.dtype || *options.dtype == dtype::f32 || convertible(dtype::f32, *options.dtype))
    return {};
  return fault{
      errc::unsupported_dtype, "load_options::dtype",
      "tensors can be converted to F32, F16 and BF16, not to " + std::string(name(*options.dtype))};
}

result<void> check_owned_memory(const load_options& options) {
  const char* const ignored = options.access != mapped_access::read_only ? "load_options::access"
                              : options.unmappable != on_unmappable::refuse
                                  ? "load_options::unmappable"
                              : options.populate ? "load_options::populate"
                                                 : nullptr;
  if (ignored == nullptr) return {};
  return fault{errc::invalid_options, ignored, "the option is only for mapped memory"};
}

result<opened_load> open_load(const load_request& request, const open_services& services) {
  const load_options& options = request.options;
  const bool fills = request.fill.has_value();
  if (auto valid = check_dtype(options); !valid) return valid.error();
  if (auto valid = check_alignment(request, services.devices); !valid) return valid.error();
  auto mapping_mode = requested_mapping(request, services.devices);
  if (!mapping_mode) return mapping_mode.error();
  if (request.window_bytes > 0 && services.devices.size() > 1) {
    return fault{errc::invalid_options, "stream_async",
                 "a window supports a single device, but " + services.devices.description()};
  }
  opened_load load;
  auto checkpoint = find_or_open_checkpoint(request, services);
  if (!checkpoint) return checkpoint.error();
  load.checkpoint = std::move(*checkpoint);
  load.opened_at = std::chrono::steady_clock::now();
  if (auto checked = check_mappable(*load.checkpoint, options, *mapping_mode); !checked)
    return checked.error();
  if (auto checked = check_route(*load.checkpoint, options.route, load.route_reason); !checked) {
    return checked.error();
  }
  const std::string& source = load.checkpoint->name;
  auto chosen = choose_for_request(request, *load.checkpoint, services.devices);
  if (!chosen) return chosen.error();
  plan_input_builder builder(*load.checkpoint, chosen->tensors, options, chosen->targets);
  if (!fills) {
    auto checked = check_conversions(builder, *load.checkpoint, chosen->chosen, services.devices);
    if (!checked) return checked.error();
  }
  load.named = std::make_shared<const named_catalog>(std::move(chosen->chosen));
  if (fills) load.fill = std::move(chosen->state);
  auto checks = choose_digests(*load.checkpoint, chosen->tensors, builder, options.verify, fills);
  if (!checks) return checks.error();
  load.checks = std::move(*checks);
  if (request.window_bytes > 0) {
    std::uint32_t failed_tensor = 0;
    const device& target = services.devices.listed().front();
    load.window_bytes = target.kind() == device_kind::host
                            ? limit_window(request.window_bytes, available_bytes())
                            : request.window_bytes;
    auto groups = make_window_groups(builder.loaded_bytes_by_tensor(), load.window_bytes,
                                     window_page_bytes(target, services.options), failed_tensor,
                                     services.options.slot_bytes);
    if (!groups) return groups.error().in(at_tensor(load.named->catalog(), failed_tensor));
    load.groups = std::move(*groups);
    load.chosen = std::make_shared<const std::vector<chosen_tensor>>(std::move(chosen->tensors));
    load.checks.clear();  // The job of each group checks its own tensors.
    return load;
  }
  // With the option `populate`, mapped tensors also need memory.
  if (!fills && (*mapping_mode == mapping_request::none || options.populate)) {
    auto fits = check_devices(builder, chosen->tensors, services.devices);
    if (!fits) return fits.error().in(printable_path(source));
  }
  std::uint32_t failed_tensor = no_index;
  plan_input input = builder.input();
  input.mapping = *mapping_mode;
  input.populates_mappings = options.populate;
  auto plan =
      make_plan(input, arena_rules(builder, input, services.devices, options.tensor_alignment),
                make_plan_limits(services.options, *mapping_mode, fills), &failed_tensor);
  if (!plan)
    return with_tensor_place(plan.error(), source, builder, load.named->catalog(), failed_tensor);
  load.plan = std::move(*plan);
  load.streams = builder.take_streams();
  // The plan is complete. No later code chooses an offset or a size.

  load.destination_memory = std::move(chosen->plan_destinations);
  if (!fills && !chosen->tensors.empty()) {
    if (auto taken = take_memory(load, builder, options.access, services.devices); !taken)
      return taken.error();
  }
  load.uncached_files = choose_uncached(load, options);
  return load;
}

}  // namespace ringload::inline v0::detail
