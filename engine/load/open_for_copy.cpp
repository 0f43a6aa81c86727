// SPDX-License-Identifier: Apache-2.0

#include "load/open_for_copy.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/numeric/convert.hpp"
#include "base/printable.hpp"
#include "plan/make_plan.hpp"

namespace ringload::inline v0::detail {

namespace {

// Returns true if a copy into memory of the device `target` can convert the type. GPU kernels
// support fewer pairs of types than the host.
bool converts(dtype from, dtype to, const device& target) {
  return target == host() ? fill_converts(from, to) : kernels_convert(from, to);
}

result<void> check(const copy_request& request, const device_set& devices) {
  const std::string place = tensor_place(request.from.name());
  for (const device& end : {request.from.device(), request.to}) {
    if (devices.find(end) != nullptr) continue;
    return fault{errc::device_unavailable, place,
                 "cannot copy from or to " + end.name() + ", because " + devices.description()};
  }
  const dtype from = request.from.dtype();
  const dtype target_type = request.to_dtype.value_or(from);
  if (from == target_type || converts(from, target_type, request.to)) return {};
  return fault{errc::unsupported_dtype, place,
               "cannot convert " + std::string(name(from)) + " to " +
                   std::string(name(target_type)) + " in the memory of " + request.to.name()};
}

// Returns a function that delivers the bytes of the tensor as if the bytes were read from a file.
byte_supply supply_of(const tensor& from, backend& target) {
  const std::uint64_t bytes = from.size_bytes();
  const auto begin = static_cast<std::byte*>(from.data());
  if (from.device() == host()) {
    return [begin, bytes](int, std::uint64_t offset, std::span<std::byte> into, auto&) {
      const std::uint64_t count = std::min<std::uint64_t>(into.size(), bytes - offset);
      std::memcpy(into.data(), begin + offset, count);
      return static_cast<std::int64_t>(count);
    };
  }
  const arena& memory = from.memory();
  const auto memory_offset = static_cast<std::uint64_t>(begin - memory.data());
  return
      [&target, &memory, memory_offset, bytes](int, std::uint64_t offset, std::span<std::byte> into,
                                               boost::system::error_code& problem) -> std::int64_t {
        const std::uint64_t count = std::min<std::uint64_t>(into.size(), bytes - offset);
        auto bytes_read = target.read_back(memory, memory_offset + offset, into.first(count));
        if (bytes_read && bytes_read->data() != into.data())
          std::memcpy(into.data(), bytes_read->data(), count);
        if (bytes_read) return static_cast<std::int64_t>(count);
        problem = bytes_read.error().code;
        return -EIO;
      };
}

std::shared_ptr<const opened_checkpoint> source_of(const copy_request& request, backend& target) {
  const tensor& from = request.from;
  ringload::catalog only;
  only.files.resize(1);
  tensor_info& info = only.tensors.emplace_back();
  info.name = from.name();
  info.dtype = from.dtype();
  info.shape.assign(from.shape().begin(), from.shape().end());
  info.bytes = info.stored_bytes = from.size_bytes();
  auto source = std::make_shared<opened_checkpoint>();
  source->name = tensor_place(from.name());
  open_file& memory = source->files.emplace_back();
  memory.bytes = from.size_bytes();
  memory.supply = supply_of(from, target);
  if (const mapping* const mapped = from.memory().host_mapping()) {
    memory.memory = static_cast<const std::byte*>(from.data());
    memory.registration = mapped->registration();
  }
  source->named = std::make_shared<const named_catalog>(std::move(only));
  return source;
}

conversion conversion_of(const copy_request& request) {
  return conversion_between(request.from.dtype(), request.to_dtype.value_or(request.from.dtype()));
}

}  // namespace

result<opened_load> open_copy(const copy_request& request, const open_services& services) {
  if (auto valid = check(request, services.devices); !valid) return valid.error();
  opened_load load;
  load.checkpoint = source_of(request, *services.devices.find(request.from.device()));
  load.named = load.checkpoint->named;

  const dtype target_type = request.to_dtype.value_or(request.from.dtype());
  const wanted_tensor whole_tensor = {0, alignment(target_type), 0, request.from.size_bytes(),
                                      conversion_of(request)};
  plan_input input;
  input.tensors = {&whole_tensor, 1};
  plan_limits bounds = {services.options.slot_bytes};
  bounds.arena_bytes_max = services.options.arena_bytes_max;
  // The placement rules of host memory allow unstaged reads, which copy the bytes directly into the
  // destination. make_plan() then uses unstaged reads if no conversion is needed.
  backend& memory = *services.devices.find(request.to);
  auto plan = make_plan(input, memory.rules(), bounds);
  if (!plan) return plan.error().in(load.checkpoint->name);
  load.plan = std::move(*plan);

  const arena_size size = {load.plan.arenas.front().bytes, load.plan.arenas.front().alignment};
  auto taken = memory.allocate(size.bytes);
  if (!taken) return taken.error().in(load.checkpoint->name);
  load.destination_memory.add_arena((*taken)->data(), &memory);
  load.memory.push_back(
      {std::move(*taken), size.bytes, false, request.to, services.devices.position_of(request.to)});
  return load;
}

}  // namespace ringload::inline v0::detail
