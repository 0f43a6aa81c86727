// SPDX-License-Identifier: Apache-2.0

// Attaches to a kept model: sends a name, receives descriptors, maps the sealed memory, and checks
// the description against it. The result is a model, or a copy on the requested device.

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_future.hpp>
#include <cerrno>
#include <future>
#include <ringload/keeper.hpp>
#include <ringload/loader.hpp>
#include <string>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "base/packet_socket.hpp"
#include "base/printable.hpp"
#include "device/shared_arena.hpp"
#include "keeper/description.hpp"
#include "keeper/messages.hpp"
#include "load/tensor_storage.hpp"

namespace ringload::inline v0 {

namespace detail {

namespace {

constexpr std::uint64_t any_bytes = std::uint64_t{1} << 62;

fault refusal(keep_answer answer) {
  switch (answer) {
    case keep_answer::no_such_model:
      return {errc::source_not_found, "", "the keeper has no model of that name"};
    case keep_answer::not_admitted:
      return {system_code(EACCES), "", "the keeper does not admit this user"};
    case keep_answer::malformed:
    case keep_answer::attached: break;
  }
  return {errc::malformed_message, "", "the keeper did not understand the request"};
}

// The received memory, with checked counts.
struct attached_memory {
  shared_memory description;
  std::vector<shared_memory> regions;
};

result<attached_memory> memory_of(received_packet from, const keep_reply& reply) {
  auto& descriptors = from.descriptors;
  if (descriptors.size() != reply.regions + 1) {
    return fault{errc::malformed_message, "",
                 "received " + grouped(descriptors.size()) + " descriptors, expected " +
                     grouped(reply.regions + 1)};
  }
  attached_memory out;
  auto description =
      shared_memory::open_sealed(std::move(descriptors.front()), description_bytes_max);
  if (!description) return description.error();
  out.description = std::move(*description);
  for (std::size_t i = 1; i < descriptors.size(); ++i) {
    auto region = shared_memory::open_sealed(std::move(descriptors[i]), any_bytes);
    if (!region) return region.error();
    out.regions.push_back(std::move(*region));
  }
  return out;
}

model assembled(catalog contents, std::vector<placement> where, std::vector<taken_arena> arenas) {
  auto named = std::make_shared<const named_catalog>(std::move(contents));
  auto tensors = std::make_shared<const loaded_tensors>(std::move(named), std::move(where));
  return model(std::make_shared<const model_storage>(std::move(tensors), std::move(arenas),
                                                     memory_accounts()));
}

// Opens the regions of a model on a device.
result<std::vector<taken_arena>> opened_on(device on, const std::vector<exported_memory>& regions,
                                           const std::shared_ptr<const void>& counted) {
  const auto temporary = on.maker()(on.index());
  auto* const memory = dynamic_cast<memory_exchange*>(temporary.get());
  if (memory == nullptr) {
    return fault{
        errc::device_unavailable, "",
        "the model is in memory of the GPU at " + regions.front().on + ": attach for that device"};
  }
  std::vector<taken_arena> arenas;
  for (const exported_memory& region : regions) {
    auto memory_region = memory->import_memory(region, counted);
    if (!memory_region) return memory_region.error();
    arenas.push_back({std::move(*memory_region), region.bytes, false, on});
  }
  return arenas;
}

// Copies a host model to a device with a temporary engine.
result<model> copied_to(device on, const model& from) {
  loader copier(on);
  std::vector<std::future<tensor>> begun;
  for (const tensor& source : from) {
    begun.push_back(copier.copy_async(source, on, boost::asio::use_future));
  }
  std::vector<taken_arena> arenas;
  std::vector<placement> where;
  for (std::size_t t = 0; t < begun.size(); ++t) {
    const auto copy = std::make_shared<const tensor>(begun[t].get());
    // The offset of the copy in its arena. The types are those of the original.
    placement place = from.storage()->tensors().where(static_cast<std::uint32_t>(t));
    place.destination = static_cast<std::uint32_t>(t);
    place.destination_offset =
        static_cast<std::uint64_t>(static_cast<std::byte*>(copy->data()) - copy->memory().data());
    where.push_back(place);
    arenas.push_back(
        {std::shared_ptr<arena>(copy, &copy->memory()), copy->size_bytes(), false, on});
  }
  return assembled(from.catalog(), std::move(where), std::move(arenas));
}

result<model> model_of(attached_memory memory, unique_fd connection, device on) {
  std::vector<std::uint64_t> sizes;
  for (const shared_memory& entry : memory.regions) sizes.push_back(entry.span().size());
  auto described = unpacked_description(memory.description.span(), sizes);
  if (!described) return described.error();
  std::vector<placement> where;
  for (const kept_tensor& entry : described->where) {
    placement& place = where.emplace_back();
    place.destination = entry.region;
    place.destination_offset = entry.offset;
    place.cast = entry.cast;
  }
  const auto counted = std::make_shared<const unique_fd>(std::move(connection));
  if (!described->on_device.empty()) {
    auto opened = opened_on(on, described->on_device, counted);
    if (!opened) return opened.error();
    return assembled(std::move(described->contents), std::move(where), std::move(*opened));
  }
  std::vector<taken_arena> arenas;
  for (shared_memory& entry : memory.regions) {
    const std::uint64_t bytes = entry.span().size();
    arenas.push_back({std::make_shared<shared_arena>(std::move(entry), counted), bytes});
  }
  model mapped = assembled(std::move(described->contents), std::move(where), std::move(arenas));
  if (on.kind() == device_kind::host) return mapped;
  return copied_to(on, mapped);
}

result<model> attach_to(const std::string& path, const std::string& name, device on,
                        std::chrono::milliseconds timeout) {
  auto connection = connect_to(path, timeout);
  if (!connection) return connection.error();
  if (auto sent = send_packet(*connection, packed(keep_request{name})); !sent) return sent.error();
  std::array<std::byte, packet_bytes_max> room = {};
  auto got = receive_packet(*connection, room);
  if (!got) return got.error();
  if (got->bytes == 0)
    return fault{system_code(ECONNRESET), "", "the keeper closed the connection"};
  const auto reply = unpacked_reply(std::span(room).first(got->bytes));
  if (!reply) return reply.error();
  if (reply->answer != keep_answer::attached) return refusal(reply->answer);
  auto memory = memory_of(std::move(*got), *reply);
  if (!memory) return memory.error();
  return model_of(std::move(*memory), std::move(*connection), on);
}

result<model> attached(const std::string& path, const std::string& name, device on,
                       std::chrono::milliseconds timeout) {
  const std::string place = printable_path(path) + ": model '" + printable(name) + "'";
  if (name.empty() || name.size() > name_bytes_max) {
    return fault{errc::invalid_source_name, place,
                 "the model name has " + grouped(name.size()) + " bytes, expected 1 to " +
                     grouped(name_bytes_max)};
  }
  auto attached_model = catch_as_fault([&] { return attach_to(path, name, on, timeout); });
  if (!attached_model) return attached_model.error().in(place);
  return attached_model;
}

}  // namespace

void begin_attach(std::string socket, std::string name, device on,
                  std::chrono::milliseconds timeout, std::unique_ptr<operation<model>> waiting) {
  struct attaching {
    std::string socket;
    std::string name;
    device on;
    std::chrono::milliseconds timeout;
    std::unique_ptr<operation<model>> waiting;

    void operator()() {
      auto attached_model = attached(socket, name, on, timeout);
      if (attached_model) return waiting->complete(nullptr, std::move(*attached_model));
      waiting->complete(to_exception(attached_model.error()), model());
    }
  };
  boost::asio::post(boost::asio::system_executor(),
                    attaching{std::move(socket), std::move(name), on, timeout, std::move(waiting)});
}

}  // namespace detail

model attach(std::string_view socket, std::string_view name, std::chrono::milliseconds timeout) {
  return attach(socket, name, host(), timeout);
}

model attach(std::string_view socket, std::string_view name, device on,
             std::chrono::milliseconds timeout) {
  auto attached_model = detail::attached(std::string(socket), std::string(name), on, timeout);
  if (!attached_model) throw to_error(attached_model.error());
  return std::move(*attached_model);
}

}  // namespace ringload::inline v0
