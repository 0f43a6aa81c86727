// SPDX-License-Identifier: Apache-2.0

// The public keeper: from a loaded model to what the server gives away.

#include <algorithm>
#include <cstring>
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

// The arenas that tensors lie in, and of each destination of the plan the index among them.
struct shared_regions {
  std::vector<shared_arena*> arenas;
  std::vector<std::uint32_t> of_destination;
};

result<shared_regions> regions_of(const model_storage& all) {
  shared_regions out;
  for (const auto& each : all.arenas()) {
    out.of_destination.push_back(static_cast<std::uint32_t>(out.arenas.size()));
    if (!each) continue;
    auto* const memory = dynamic_cast<shared_arena*>(&each->memory());
    if (memory == nullptr) {
      return fault{errc::device_unavailable, "",
                   "its memory is this process's alone: load it for ringload::shared_host(), not "
                   "mapped"};
    }
    out.arenas.push_back(memory);
  }
  if (out.arenas.size() < descriptors_max) return out;
  return fault{errc::invalid_limits, "",
               "it lies in " + grouped(out.arenas.size()) + " allocations, and at most " +
                   grouped(descriptors_max - 1) + " can be given away"};
}

kept_description description_of(const loaded_tensors& all, const shared_regions& in) {
  kept_description out;
  out.what = all.named().catalog();
  for (std::uint32_t t = 0; t < out.what.tensors.size(); ++t) {
    const placement& at = all.where(t);
    out.where.push_back({in.of_destination[at.destination], at.destination_offset, at.as});
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

result<offered_model> offer_of(const model& what) {
  if (!what.storage()) return fault{errc::no_such_tensor, "", "it is an empty handle"};
  const model_storage& all = *what.storage();
  const auto regions = regions_of(all);
  if (!regions) return regions.error();
  const auto description = sealed(packed(description_of(all.of(), *regions)));
  if (!description) return description.error();
  offered_model out;
  out.held = what;
  out.description = *description;
  out.descriptors.push_back((*description)->descriptor());
  for (shared_arena* const each : regions->arenas) {
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
