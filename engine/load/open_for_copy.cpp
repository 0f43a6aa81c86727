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

// Kernels convert fewer pairs of types than the CPU.
bool converts(dtype from, dtype to, const device& on) {
  return on == host() ? fill_converts(from, to) : kernels_convert(from, to);
}

result<void> check(const copy_request& what, const device_set& devices) {
  const std::string place = tensor_place(what.from.name());
  for (const device& each : {what.from.device(), what.to}) {
    if (devices.find(each) != nullptr) continue;
    return fault{
        errc::device_unavailable, place,
        "a copy is from or to the memory of " + each.name() + ", and " + devices.description()};
  }
  const dtype from = what.from.dtype();
  const dtype as = what.as.value_or(from);
  if (from == as || converts(from, as, what.to)) return {};
  return fault{errc::unsupported_dtype, place,
               "its elements are " + std::string(name(from)) + ", which are not converted to " +
                   std::string(name(as)) + " in the memory of " + what.to.name()};
}

// The bytes of the tensor, as if they were a file's.
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
  const auto at = static_cast<std::uint64_t>(begin - memory.data());
  return [&target, &memory, at, bytes](int, std::uint64_t offset, std::span<std::byte> into,
                                       boost::system::error_code& why) -> std::int64_t {
    const std::uint64_t count = std::min<std::uint64_t>(into.size(), bytes - offset);
    auto here = target.read_back(memory, at + offset, into.first(count));
    if (here && here->data() != into.data()) std::memcpy(into.data(), here->data(), count);
    if (here) return static_cast<std::int64_t>(count);
    why = here.error().code;
    return -EIO;
  };
}

std::shared_ptr<const opened_checkpoint> source_of(const copy_request& what, backend& target) {
  const tensor& from = what.from;
  ringload::catalog only;
  only.files.resize(1);
  tensor_info& info = only.tensors.emplace_back();
  info.name = from.name();
  info.dtype = from.dtype();
  info.shape.assign(from.shape().begin(), from.shape().end());
  info.bytes = info.stored_bytes = from.size_bytes();
  auto made = std::make_shared<opened_checkpoint>();
  made->name = tensor_place(from.name());
  open_file& memory = made->files.emplace_back();
  memory.bytes = from.size_bytes();
  memory.supply = supply_of(from, target);
  made->named = std::make_shared<const named_catalog>(std::move(only));
  return made;
}

conversion conversion_of(const copy_request& what) {
  return conversion_between(what.from.dtype(), what.as.value_or(what.from.dtype()));
}

}  // namespace

result<opened_load> open_copy(const copy_request& what, const open_services& by) {
  if (auto good = check(what, by.devices); !good) return good.error();
  opened_load load;
  load.from = source_of(what, *by.devices.find(what.from.device()));
  load.named = load.from->named;

  const dtype as = what.as.value_or(what.from.dtype());
  const wanted_tensor all = {0, alignment(as), 0, what.from.size_bytes(), conversion_of(what)};
  plan_input input;
  input.tensors = {&all, 1};
  plan_limits bounds = {by.within.slot_bytes};
  bounds.arena_bytes_max = by.within.arena_bytes_max;
  // Bytes that stay as they are land in memory of the host themselves.
  backend& memory = *by.devices.find(what.to);
  auto plan = make_plan(input, memory.rules(), bounds);
  if (!plan) return plan.error().in(load.from->name);
  load.plan = std::move(*plan);

  const arena_size size = {load.plan.arenas.front().bytes, load.plan.arenas.front().alignment};
  auto taken = memory.allocate(size.bytes);
  if (!taken) return taken.error().in(load.from->name);
  load.into.add_arena((*taken)->data(), &memory);
  load.memory.push_back(
      {std::move(*taken), size.bytes, false, what.to, by.devices.position_of(what.to)});
  return load;
}

}  // namespace ringload::inline v0::detail
