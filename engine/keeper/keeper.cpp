// SPDX-License-Identifier: Apache-2.0

// The public keeper: from a loaded model to what the server gives away.

#include <algorithm>
#include <cstring>
#include <optional>
#include <ringload/keeper.hpp>
#include <string>
#include <utility>

#include "core/shared_memory.hpp"
#include "device/shared_arena.hpp"
#include "formats/printable.hpp"
#include "keeper/description.hpp"
#include "keeper/server.hpp"
#include "pipeline/tensor_storage.hpp"

namespace ringload::inline v0 {

keeper_settings::keeper_settings() = default;
keeper_settings::keeper_settings(const keeper_settings& other) = default;
keeper_settings::keeper_settings(keeper_settings&& other) noexcept = default;
keeper_settings& keeper_settings::operator=(const keeper_settings& other) = default;
keeper_settings& keeper_settings::operator=(keeper_settings&& other) noexcept = default;
keeper_settings::~keeper_settings() = default;

namespace detail {

namespace {

// Of each destination of the plan the index among the regions that tensors lie in.
std::vector<std::uint32_t> region_indices(const model_storage& all) {
  std::vector<std::uint32_t> out;
  std::uint32_t next = 0;
  for (const auto& each : all.arenas()) {
    out.push_back(next);
    if (each) ++next;
  }
  return out;
}

result<std::vector<shared_arena*>> shared_regions(const model_storage& all) {
  std::vector<shared_arena*> out;
  for (const auto& each : all.arenas()) {
    if (!each) continue;
    auto* const memory = dynamic_cast<shared_arena*>(&each->memory());
    if (memory == nullptr) {
      return fault{errc::device_unavailable, "",
                   "its memory is this process's alone: load it for ringload::shared_host(), not "
                   "mapped"};
    }
    out.push_back(memory);
  }
  if (out.size() < descriptors_max) return out;
  return fault{errc::invalid_limits, "",
               "it lies in " + grouped(out.size()) + " allocations, and at most " +
                   grouped(descriptors_max - 1) + " can be given away"};
}

// That of all regions; the host's where there is none. Empty: they lie on several.
std::optional<device> device_of(const model_storage& all) {
  std::optional<device> found;
  for (const auto& each : all.arenas()) {
    if (!each) continue;
    if (found && !(*found == each->on())) return std::nullopt;
    found = each->on();
  }
  return found ? found : host();
}

result<std::vector<exported_memory>> device_regions(const model_storage& all) {
  const device on = *device_of(all);
  const auto made = on.maker()(on.index());
  auto* const memory = dynamic_cast<memory_exchange*>(made.get());
  if (memory == nullptr) return fault{errc::device_unavailable, "", "it cannot be shared"};
  std::vector<exported_memory> out;
  for (const auto& each : all.arenas()) {
    if (!each) continue;
    auto one = memory->export_memory(each->memory());
    if (!one) return one.error();
    out.push_back(std::move(*one));
  }
  return out;
}

kept_description description_of(const model_storage& all) {
  const std::vector<std::uint32_t> regions = region_indices(all);
  kept_description out;
  out.what = all.of().named().catalog();
  for (std::uint32_t t = 0; t < out.what.tensors.size(); ++t) {
    const placement& at = all.of().where(t);
    out.where.push_back({regions[at.destination], at.destination_offset, at.as});
  }
  return out;
}

result<std::shared_ptr<shared_arena>> sealed(std::span<const std::byte> bytes) {
  auto memory = shared_memory::make(bytes.size(), page_kind::small);
  if (!memory) return memory.error();
  // The pages behind the last byte are zeros, which no reader looks at.
  std::memcpy(memory->span().data(), bytes.data(), bytes.size());
  auto made = std::make_shared<shared_arena>(std::move(*memory));
  if (auto done = made->seal(); !done) return done.error();
  return made;
}

result<void> describe(offered_model& out, const kept_description& as) {
  const auto description = sealed(packed(as));
  if (!description) return description.error();
  out.description = *description;
  out.descriptors.push_back((*description)->descriptor());
  return {};
}

result<offered_model> offer_on_device(const model& what) {
  offered_model out;
  out.held = what;
  out.owns_memory = true;
  kept_description as = description_of(*what.storage());
  auto regions = device_regions(*what.storage());
  if (!regions) return regions.error();
  as.on_device = std::move(*regions);
  if (auto done = describe(out, as); !done) return done.error();
  for (const exported_memory& each : as.on_device) out.bytes += each.bytes;
  return out;
}

result<offered_model> offer_of(const model& what) {
  if (!what.storage()) return fault{errc::no_such_tensor, "", "it is an empty handle"};
  const auto on = device_of(*what.storage());
  if (!on) return fault{errc::device_unavailable, "", "it lies on several devices"};
  if (on->kind() != device_kind::host) return offer_on_device(what);
  const auto regions = shared_regions(*what.storage());
  if (!regions) return regions.error();
  offered_model out;
  out.held = what;
  if (auto done = describe(out, description_of(*what.storage())); !done) return done.error();
  for (shared_arena* const each : *regions) {
    if (auto done = each->seal(); !done) return done.error();
    out.descriptors.push_back(each->descriptor());
    out.bytes += each->span().size();
  }
  return out;
}

std::string place_of(const std::string& path, std::string_view name) {
  return printable_path(path) + ": model '" + printable(name) + "'";
}

}  // namespace

}  // namespace detail

keeper::keeper(std::string_view socket, keeper_settings how) {
  auto made = detail::keeper_server::make(std::string(socket), std::move(how));
  if (!made) throw to_error(made.error().in(printable_path(socket)));
  server_ = std::move(*made);
}

keeper::~keeper() = default;

void keeper::publish(std::string_view name, const model& what) {
  const std::string place = detail::place_of(server_->path(), name);
  if (name.empty() || name.size() > detail::name_bytes_max) {
    throw error(errc::invalid_source_name, place,
                "a name has 1 to " + grouped(detail::name_bytes_max) + " bytes");
  }
  auto offer = detail::offer_of(what);
  if (!offer) throw to_error(offer.error().in(place));
  server_->offer(std::string(name), std::move(*offer));
}

bool keeper::withdraw(std::string_view name) { return server_->withdraw(name); }

std::vector<kept_model> keeper::models() const { return server_->models(); }

}  // namespace ringload::inline v0
