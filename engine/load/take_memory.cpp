// SPDX-License-Identifier: Apache-2.0

#include "load/take_memory.hpp"

#include <utility>

#include "base/file_mapping.hpp"
#include "base/printable.hpp"
#include "device/mapped_arena.hpp"

namespace ringload::inline v0::detail {

namespace {

result<std::shared_ptr<arena>> map(const open_file& file, const planned_arena& planned,
                                   mapped_access access) {
  const bool read_only = access == mapped_access::read_only;
  auto mapping =
      file_mapping::make(file.buffered.get(), planned.file_offset, planned.bytes, !read_only);
  if (!mapping) return mapping.error().in(printable_path(file.path));
  return std::shared_ptr<arena>(std::make_shared<mapped_arena>(std::move(*mapping), read_only));
}

}  // namespace

result<void> take_memory(opened_load& load, const plan_input_builder& builder, mapped_access access,
                         const device_set& devices) {
  const std::vector<planned_arena>& planned = load.plan.arenas;
  // device_of() is also correct for mapped arenas, because files are mapped only with a single
  // device.
  const auto backend_of = [&](std::size_t a) -> backend* {
    return &devices.backend_at(builder.device_of(static_cast<std::uint32_t>(a)));
  };
  const auto is_taken = [&](std::size_t a) {
    return planned[a].bytes > 0 && !planned[a].is_mapped();
  };
  load.memory.resize(planned.size());
  for (const auto& owner : devices.backends()) {
    std::vector<arena_size> sizes;
    for (std::size_t a = 0; a < planned.size(); ++a) {
      if (!is_taken(a) || backend_of(a) != owner.get()) continue;
      sizes.push_back({planned[a].bytes, planned[a].alignment});
    }
    if (sizes.empty()) continue;
    auto taken = owner->allocate_all(sizes);
    if (!taken) return taken.error().in(printable_path(load.checkpoint->name));
    auto next = taken->begin();
    for (std::size_t a = 0; a < planned.size(); ++a) {
      if (is_taken(a) && backend_of(a) == owner.get()) load.memory[a].memory = std::move(*next++);
    }
  }
  for (std::size_t a = 0; a < planned.size(); ++a) {
    taken_arena& taken_memory = load.memory[a];
    taken_memory.bytes = planned[a].bytes;
    taken_memory.position = builder.device_of(static_cast<std::uint32_t>(a));
    taken_memory.on = devices.listed()[taken_memory.position];
    taken_memory.mapped = planned[a].is_mapped();
    if (taken_memory.mapped) {
      auto view = map(load.checkpoint->files[planned[a].file], planned[a], access);
      if (!view) return view.error();
      taken_memory.memory = std::move(*view);
    }
    load.destination_memory.add_arena(taken_memory.memory ? taken_memory.memory->data() : nullptr,
                                      taken_memory.memory ? backend_of(a) : nullptr);
  }
  return {};
}

}  // namespace ringload::inline v0::detail
