// SPDX-License-Identifier: Apache-2.0

// Attaches to a model of a keeper, which is a process that shares loaded models with other
// processes. Sends the name of a model to the keeper, receives descriptors, maps the memory, and
// checks the description of the model. Host memory is sealed, so no process can change the memory.
// The result is a model in the shared memory, or a copy of the model on the requested device.

#include <array>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_future.hpp>
#include <cerrno>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <ringload/keeper.hpp>
#include <ringload/loader.hpp>
#include <string>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "base/packet_socket.hpp"
#include "base/printable.hpp"
#include "base/retry_allocation.hpp"
#include "device/pinned_models.hpp"
#include "device/shared_arena.hpp"
#include "keeper/connection_guard.hpp"
#include "keeper/description.hpp"
#include "keeper/messages.hpp"
#include "load/tensor_storage.hpp"
#include "runtime/step_operation.hpp"

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
    case keep_answer::version:
    case keep_answer::attached: break;
  }
  return {errc::malformed_message, "",
          "the keeper refused the request as malformed: its version of ringload may differ"};
}

struct attached_memory {
  shared_memory description;
  std::vector<shared_memory> regions;
  std::vector<unique_fd> on_device;
};

result<attached_memory> open_memory(received_packet packet, const keep_reply& reply) {
  auto& descriptors = packet.descriptors;
  const std::uint64_t expected = 1 + reply.host_regions + reply.device_regions;
  if (descriptors.size() != expected) {
    return fault{
        errc::malformed_message, "",
        "received " + grouped(descriptors.size()) + " descriptors, expected " + grouped(expected)};
  }
  attached_memory out;
  auto description =
      shared_memory::open_sealed(std::move(descriptors.front()), description_bytes_max);
  if (!description) return description.error();
  out.description = std::move(*description);
  for (std::size_t i = 1; i < descriptors.size(); ++i) {
    if (i > reply.host_regions) {
      out.on_device.push_back(std::move(descriptors[i]));
      continue;
    }
    auto region = shared_memory::open_sealed(std::move(descriptors[i]), any_bytes);
    if (!region) return region.error();
    out.regions.push_back(std::move(*region));
  }
  return out;
}

// Opens the memory of a model that is on a device. The returned arenas keep `connection` open.
result<std::vector<taken_arena>> open_regions(device target,
                                              const std::vector<exported_memory>& regions,
                                              const std::shared_ptr<const void>& connection) {
  const auto temporary = target.maker()(target.index());
  auto* const memory = dynamic_cast<memory_exchange*>(temporary.get());
  if (memory == nullptr) {
    return fault{errc::device_unavailable, "",
                 "the model is in memory of the GPU " + printable(regions.front().on) +
                     ": attach for that device"};
  }
  std::vector<taken_arena> arenas;
  for (const exported_memory& region : regions) {
    auto memory_region = memory->import_memory(region, connection);
    if (!memory_region) return memory_region.error();
    arenas.push_back({std::move(*memory_region), region.bytes, false, target});
  }
  return arenas;
}

// Makes a model in host memory available on a device. If the device can access host memory, the
// result uses the same memory. Otherwise a temporary loader copies the tensors.
class model_on_device {
 public:
  explicit model_on_device(device target)
      : target_(target), backend_(target.maker()(target.index())) {}

  result<model> make(const model& original) {
    std::vector<placement> placements;
    std::vector<taken_arena> arenas(original.size());
    std::vector<std::pair<std::size_t, std::future<tensor>>> copies;
    for (std::size_t t = 0; t < arenas.size(); ++t) {
      // The new placement differs from the original placement only in its arena and offset.
      placement place = original.storage()->tensors().where(static_cast<std::uint32_t>(t));
      auto memory = share_host_memory(*original.storage(), place, original[t].size_bytes());
      place.destination = static_cast<std::uint32_t>(t);
      place.destination_offset = 0;
      placements.push_back(place);
      if (!memory) {
        copies.emplace_back(t, start_copy(original[t]));
        continue;
      }
      arenas[t] = {std::move(memory), original[t].size_bytes(), false, target_};
    }
    for (auto& [t, pending] : copies) {
      const auto copy = std::make_shared<const tensor>(pending.get());
      placements[t].destination_offset =
          static_cast<std::uint64_t>(static_cast<std::byte*>(copy->data()) - copy->memory().data());
      arenas[t] = {std::shared_ptr<arena>(copy, &copy->memory()), copy->size_bytes(), false,
                   target_};
    }
    auto storage = make_model_storage(original.catalog(), std::move(placements), std::move(arenas));
    storage->version = original.storage()->version;
    return model(std::move(storage));
  }

 private:
  // Returns an arena for the device in the host memory of the tensor. Returns null if the device
  // cannot use this memory.
  std::shared_ptr<arena> share_host_memory(const model_storage& storage, const placement& place,
                                           std::uint64_t bytes) const {
    auto* const sharing = dynamic_cast<memory_exchange*>(backend_.get());
    const auto owner = storage.arenas()[place.destination];
    if (sharing == nullptr || !owner) return nullptr;
    const std::shared_ptr<arena> memory(owner, &owner->memory());
    return sharing->share_host(
        memory, {memory->data() + place.destination_offset, static_cast<std::size_t>(bytes)});
  }

  std::future<tensor> start_copy(const tensor& source) {
    if (!copier_) copier_.emplace(target_);
    return copier_->copy_async(source, target_, boost::asio::use_future);
  }

  const device target_;
  const std::unique_ptr<backend> backend_;
  std::optional<loader> copier_;
};

result<model> make_model(attached_memory memory, unique_fd connection, device target,
                         kept_version version) {
  const auto model_of = [&](catalog contents, std::vector<placement> placements,
                            std::vector<taken_arena> arenas) {
    auto storage =
        make_model_storage(std::move(contents), std::move(placements), std::move(arenas));
    storage->version = version;
    return model(std::move(storage));
  };
  std::vector<std::uint64_t> sizes;
  for (const shared_memory& entry : memory.regions) sizes.push_back(entry.span().size());
  auto description = unpack_description(memory.description.span(), sizes);
  if (!description) return description.error();
  std::vector<placement> placements;
  for (const kept_tensor& entry : description->tensors) {
    placement& place = placements.emplace_back();
    place.destination = entry.region;
    place.destination_offset = entry.offset;
    place.cast = entry.cast;
  }
  if (description->device_regions.size() != memory.on_device.size()) {
    return fault{errc::malformed_message, "",
                 "received " + grouped(memory.on_device.size()) +
                     " descriptors of device memory, expected " +
                     grouped(description->device_regions.size())};
  }
  for (std::size_t i = 0; i < memory.on_device.size(); ++i) {
    description->device_regions[i].descriptor = std::move(memory.on_device[i]);
  }
  // The keeper counts this client until the last arena is destroyed and closes the connection.
  const auto shared_connection = std::make_shared<const unique_fd>(std::move(connection));
  if (!description->device_regions.empty()) {
    auto opened = open_regions(target, description->device_regions, shared_connection);
    if (!opened) return opened.error();
    return model_of(std::move(description->contents), std::move(placements), std::move(*opened));
  }
  std::vector<taken_arena> arenas;
  for (shared_memory& entry : memory.regions) {
    const std::uint64_t bytes = entry.span().size();
    // If this process has already pinned the same memory for a GPU, uses the pinned mapping,
    // because copies to the GPU are then faster.
    std::shared_ptr<arena> region;
    if (target.kind() != device_kind::host) region = find_pinned(entry.descriptor());
    if (!region) region = std::make_shared<shared_arena>(std::move(entry), shared_connection);
    arenas.push_back({std::move(region), bytes});
  }
  model mapped =
      model_of(std::move(description->contents), std::move(placements), std::move(arenas));
  if (target.kind() == device_kind::host) return mapped;
  return model_on_device(target).make(mapped);
}

fault closed_connection() {
  return {system_code(ECONNRESET), "", "the keeper closed the connection"};
}

// Sends a request and receives the reply, on a new connection.
class keeper_call {
 public:
  explicit keeper_call(connection_guard* guard = nullptr) noexcept : guard_(guard) {}

  result<keep_reply> run(const attach_request& request) {
    auto connected = connect_to(request.socket, request.timeout);
    if (!connected) return connected.error();
    connection = std::move(*connected);
    const connection_guard::scope interruptible(guard_, connection);
    const keep_request message = {request.name, request.action, request.current};
    if (auto sent = send_packet(connection, pack(message)); !sent) {
      return sent.error().code == system_code(EPIPE) ? closed_connection() : sent.error();
    }
    std::optional<std::chrono::milliseconds> reply_timeout;
    if (!request.is_unlimited) reply_timeout = request.timeout;
    if (auto arrived = await_packet(connection, reply_timeout); !arrived) return arrived.error();
    std::array<std::byte, packet_bytes_max> buffer = {};
    auto got = receive_packet(connection, buffer);
    if (!got) return got.error();
    if (got->bytes == 0) return closed_connection();
    packet = std::move(*got);
    auto reply = unpack_reply(std::span(buffer).first(packet.bytes));
    if (!reply) return reply.error();
    const bool is_version = request.action == keep_action::read_version;
    const auto expected = is_version ? keep_answer::version : keep_answer::attached;
    if (reply->answer != expected) return refusal(reply->answer);
    return reply;
  }

  // Set by run().
  unique_fd connection;
  received_packet packet;

 private:
  connection_guard* const guard_;
};

result<model> request_model(const attach_request& request, connection_guard* guard) {
  keeper_call call(guard);
  const auto reply = call.run(request);
  if (!reply) return reply.error();
  // interrupt() may have shut down the connection after the reply. Then the keeper does not count
  // this client.
  if (guard != nullptr && guard->is_interrupted()) return closed_connection();
  auto memory = open_memory(std::move(call.packet), *reply);
  if (!memory) return memory.error();
  return make_model(std::move(*memory), std::move(call.connection), request.on, reply->version);
}

std::string place_of(const attach_request& request) {
  return printable_path(request.socket) + ": model '" + printable(request.name) + "'";
}

// Checks the name of the model, then calls `work`. If `work` fails, adds the socket and the name to
// the fault.
template <class T, class Work>
result<T> call_keeper(const attach_request& request, const Work& work) {
  const std::string place = place_of(request);
  if (request.name.empty() || request.name.size() > name_bytes_max) {
    return fault{errc::invalid_source_name, place,
                 "the model name has " + grouped(request.name.size()) + " bytes, expected 1 to " +
                     grouped(name_bytes_max)};
  }
  auto outcome = catch_as_fault(work);
  if (!outcome) return outcome.error().in(place);
  return outcome;
}

result<model> attach_now(const attach_request& request, connection_guard* guard = nullptr) {
  return call_keeper<model>(request, [&] { return request_model(request, guard); });
}

model attach_or_throw(const attach_request& request) {
  auto attached_model = attach_now(request);
  if (!attached_model) throw to_error(attached_model.error());
  return std::move(*attached_model);
}

}  // namespace

void begin_attach(const boost::asio::system_executor&, attach_request request,
                  std::unique_ptr<operation<model>> waiting) {
  auto guard = retry_allocation([] { return std::make_shared<connection_guard>(); });
  auto cancellation = retry_allocation(
      [&] { return std::make_shared<step_cancellation>([guard] { guard->interrupt(); }); });
  auto place = retry_allocation([&] { return place_of(request); });
  run_step_operation<model>(std::move(waiting), std::move(place), std::move(cancellation),
                            [request = std::move(request), guard = std::move(guard)] {
                              return attach_now(request, guard.get());
                            });
}

}  // namespace detail

model attach(std::string_view socket, std::string_view name, std::chrono::milliseconds timeout) {
  return attach(socket, name, host(), timeout);
}

model attach(std::string_view socket, std::string_view name, device on,
             std::chrono::milliseconds timeout) {
  detail::attach_request request = {std::string(socket), std::string(name), on, timeout};
  return detail::attach_or_throw(request);
}

model attach_next(std::string_view socket, std::string_view name, kept_version current,
                  std::chrono::milliseconds timeout) {
  return attach_next(socket, name, current, host(), timeout);
}

model attach_next(std::string_view socket, std::string_view name, kept_version current, device on,
                  std::chrono::milliseconds timeout) {
  detail::attach_request request = {std::string(socket), std::string(name), on, timeout};
  request.action = detail::keep_action::attach_next;
  request.current = current;
  return detail::attach_or_throw(request);
}

kept_version served_version(std::string_view socket, std::string_view name,
                            std::chrono::milliseconds timeout) {
  detail::attach_request request = {std::string(socket), std::string(name), host(), timeout};
  request.action = detail::keep_action::read_version;
  const auto version = detail::call_keeper<kept_version>(request, [&]() -> result<kept_version> {
    const auto reply = detail::keeper_call().run(request);
    if (!reply) return reply.error();
    return reply->version;
  });
  if (!version) throw to_error(version.error());
  return *version;
}

kept_version attached_version(const model& attached) noexcept {
  return attached.storage() ? attached.storage()->version : kept_version();
}

}  // namespace ringload::inline v0
