// SPDX-License-Identifier: Apache-2.0

// Implements the public class `keeper`. Prepares each model for its clients: seals the memory, and
// creates the description and the descriptors that the server sends.

#include <algorithm>
#include <cstring>
#include <optional>
#include <ringload/keeper.hpp>
#include <string>
#include <utility>

#include "base/printable.hpp"
#include "base/shared_memory.hpp"
#include "device/shared_arena.hpp"
#include "keeper/description.hpp"
#include "keeper/server.hpp"
#include "load/tensor_storage.hpp"

namespace ringload::inline v0 {

namespace detail {

namespace {

// Returns the region index of each arena. A null arena has no tensors and no region, so its index
// must not be used.
std::vector<std::uint32_t> region_indices(const model_storage& storage) {
  std::vector<std::uint32_t> out;
  std::uint32_t next = 0;
  for (const auto& arena_ref : storage.arenas()) {
    out.push_back(next);
    if (arena_ref) ++next;
  }
  return out;
}

result<void> check_count(std::size_t regions) {
  if (regions < descriptors_max) return {};
  return fault{errc::invalid_options, "",
               "the model has " + grouped(regions) + " memory regions, the limit is " +
                   grouped(descriptors_max - 1)};
}

result<std::vector<shared_arena*>> shared_regions(const model_storage& storage) {
  std::vector<shared_arena*> out;
  for (const auto& arena_ref : storage.arenas()) {
    if (!arena_ref) continue;
    auto* const memory = dynamic_cast<shared_arena*>(&arena_ref->memory());
    if (memory == nullptr) {
      return fault{
          errc::device_unavailable, "",
          "the model's memory is private: load the model for ringload::shared_host(), not mapped"};
    }
    out.push_back(memory);
  }
  if (auto allowed = check_count(out.size()); !allowed) return allowed.error();
  return out;
}

// Returns the device that has all regions, or the host if there are no regions. Returns an empty
// optional if several devices have regions.
std::optional<device> device_of(const model_storage& storage) {
  std::optional<device> common_device;
  for (const auto& arena_ref : storage.arenas()) {
    if (!arena_ref) continue;
    if (common_device && !(*common_device == arena_ref->on())) return std::nullopt;
    common_device = arena_ref->on();
  }
  return common_device ? common_device : host();
}

result<std::vector<exported_memory>> device_regions(const model_storage& storage) {
  const device source = *device_of(storage);
  const auto temporary = source.maker()(source.index());
  auto* const memory = dynamic_cast<memory_exchange*>(temporary.get());
  if (memory == nullptr)
    return fault{errc::device_unavailable, "", "the model's device cannot share memory"};
  std::vector<exported_memory> out;
  for (const auto& arena_ref : storage.arenas()) {
    if (!arena_ref) continue;
    auto exported = memory->export_memory(arena_ref->memory());
    if (!exported) return exported.error();
    out.push_back(std::move(*exported));
    if (auto allowed = check_count(out.size()); !allowed) return allowed.error();
  }
  return out;
}

kept_description description_of(const model_storage& storage) {
  const std::vector<std::uint32_t> regions = region_indices(storage);
  kept_description out;
  out.contents = storage.tensors().named().catalog();
  for (std::uint32_t t = 0; t < out.contents.tensors.size(); ++t) {
    const placement& place = storage.tensors().where(t);
    out.tensors.push_back({regions[place.destination], place.destination_offset, place.cast});
  }
  return out;
}

result<std::shared_ptr<shared_arena>> seal_copy(std::span<const std::byte> bytes) {
  auto memory = shared_memory::make(bytes.size(), page_kind::small);
  if (!memory) return memory.error();
  // Clients ignore the rest of the last page, which is zero.
  std::memcpy(memory->span().data(), bytes.data(), bytes.size());
  auto shared = std::make_shared<shared_arena>(std::move(*memory));
  if (auto done = shared->seal(); !done) return done.error();
  return shared;
}

result<void> add_description(offered_model& out, const kept_description& content) {
  if (const auto name = duplicate_name(content.contents)) {
    return fault{errc::duplicate_tensor, tensor_place(*name),
                 "the model has several tensors of this name, expected one"};
  }
  const auto description = seal_copy(pack(content));
  if (!description) return description.error();
  out.description = *description;
  out.descriptors.push_back((*description)->descriptor());
  return {};
}

result<offered_model> offer_on_device(const model& source) {
  offered_model out;
  out.model_handle = source;
  kept_description content = description_of(*source.storage());
  auto regions = device_regions(*source.storage());
  if (!regions) return regions.error();
  content.device_regions = std::move(*regions);
  if (auto done = add_description(out, content); !done) return done.error();
  out.on_device = std::move(content.device_regions);
  for (const exported_memory& region : out.on_device) {
    out.descriptors.push_back(region.descriptor.get());
    out.bytes += region.bytes;
  }
  return out;
}

result<offered_model> make_offer(const model& source) {
  if (!source.storage()) return fault{errc::no_such_tensor, "", "the model handle is empty"};
  const auto on = device_of(*source.storage());
  if (!on)
    return fault{errc::device_unavailable, "",
                 "the model is on several devices, expected one device"};
  if (on->kind() != device_kind::host) return offer_on_device(source);
  const auto regions = shared_regions(*source.storage());
  if (!regions) return regions.error();
  offered_model out;
  out.model_handle = source;
  if (auto status = add_description(out, description_of(*source.storage())); !status) {
    return status.error();
  }
  for (shared_arena* const region : *regions) {
    if (auto done = region->seal(); !done) return done.error();
    out.descriptors.push_back(region->descriptor());
    out.bytes += region->span().size();
  }
  return out;
}

std::string place_of(const std::string& path, std::string_view name) {
  return printable_path(path) + ": model '" + printable(name) + "'";
}

}  // namespace

}  // namespace detail

keeper::keeper(std::string_view socket, keeper_options options) {
  auto server = detail::keeper_server::make(std::string(socket), std::move(options));
  if (!server) throw to_error(server.error().in(printable_path(socket)));
  server_ = std::move(*server);
}

keeper::~keeper() = default;

void keeper::publish(std::string_view name, const model& source) {
  const std::string place = detail::place_of(server_->path(), name);
  if (name.empty() || name.size() > detail::name_bytes_max) {
    throw error(errc::invalid_source_name, place,
                "the model name has " + grouped(name.size()) + " bytes, expected 1 to " +
                    grouped(detail::name_bytes_max));
  }
  auto offer = detail::make_offer(source);
  if (!offer) throw to_error(offer.error().in(place));
  server_->offer(std::string(name), std::move(*offer));
}

bool keeper::withdraw(std::string_view name) { return server_->withdraw(name); }

std::vector<kept_model> keeper::models() const { return server_->models(); }

}  // namespace ringload::inline v0
