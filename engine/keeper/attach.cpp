// SPDX-License-Identifier: Apache-2.0

// Attaches to a model of a keeper, which is a process that shares loaded models with other
// processes. Sends the name of a model to the keeper, receives descriptors, maps the memory, and
// checks the description of the model. Host memory is sealed, so no process can change the memory.
// The result is a model in the shared memory, or a copy of the model on the requested device.

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <future>
#include <memory>
#include <optional>
#include <ringload/keeper.hpp>
#include <ringload/loader.hpp>
#include <string>
#include <system_error>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "base/end_operation.hpp"
#include "base/packet_socket.hpp"
#include "base/printable.hpp"
#include "base/retry_allocation.hpp"
#include "device/pinned_models.hpp"
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

// Opens the memory of a model that is on a device. The arenas share `connection`.
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
      // The placement differs from the original only in its arena and offset.
      placement place = original.storage()->tensors().where(static_cast<std::uint32_t>(t));
      auto memory = shared(*original.storage(), place, original[t].size_bytes());
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
    return model(make_model_storage(original.catalog(), std::move(placements), std::move(arenas)));
  }

 private:
  // Returns null if the device cannot use the host memory.
  std::shared_ptr<arena> shared(const model_storage& storage, const placement& place,
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

result<model> make_model(attached_memory memory, unique_fd connection, device target) {
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
  // The keeper counts this client until the last arena closes the connection.
  const auto shared_connection = std::make_shared<const unique_fd>(std::move(connection));
  if (!description->device_regions.empty()) {
    auto opened = open_regions(target, description->device_regions, shared_connection);
    if (!opened) return opened.error();
    return model(make_model_storage(std::move(description->contents), std::move(placements),
                                    std::move(*opened)));
  }
  std::vector<taken_arena> arenas;
  for (shared_memory& entry : memory.regions) {
    const std::uint64_t bytes = entry.span().size();
    // If this process has already pinned the same memory, the pinned mapping is used, because
    // copies to a device are then faster.
    std::shared_ptr<arena> region;
    if (target.kind() != device_kind::host) region = find_pinned(entry.descriptor());
    if (!region) region = std::make_shared<shared_arena>(std::move(entry), shared_connection);
    arenas.push_back({std::move(region), bytes});
  }
  model mapped = model(make_model_storage(std::move(description->contents), std::move(placements),
                                          std::move(arenas)));
  if (target.kind() == device_kind::host) return mapped;
  return model_on_device(target).make(mapped);
}

result<model> request_model(const std::string& path, const std::string& name, device target,
                            std::chrono::milliseconds timeout) {
  auto connection = connect_to(path, timeout);
  if (!connection) return connection.error();
  if (auto sent = send_packet(*connection, pack(keep_request{name})); !sent) return sent.error();
  std::array<std::byte, packet_bytes_max> buffer = {};
  auto got = receive_packet(*connection, buffer);
  if (!got) return got.error();
  if (got->bytes == 0)
    return fault{system_code(ECONNRESET), "", "the keeper closed the connection"};
  const auto reply = unpack_reply(std::span(buffer).first(got->bytes));
  if (!reply) return reply.error();
  if (reply->answer != keep_answer::attached) return refusal(reply->answer);
  auto memory = open_memory(std::move(*got), *reply);
  if (!memory) return memory.error();
  return make_model(std::move(*memory), std::move(*connection), target);
}

result<model> attach_now(const std::string& path, const std::string& name, device target,
                         std::chrono::milliseconds timeout) {
  const std::string place = printable_path(path) + ": model '" + printable(name) + "'";
  if (name.empty() || name.size() > name_bytes_max) {
    return fault{errc::invalid_source_name, place,
                 "the model name has " + grouped(name.size()) + " bytes, expected 1 to " +
                     grouped(name_bytes_max)};
  }
  auto attached_model = catch_as_fault([&] { return request_model(path, name, target, timeout); });
  if (!attached_model) return attached_model.error().in(place);
  return attached_model;
}

}  // namespace

void begin_attach(const boost::asio::system_executor& executor, attach_request request,
                  std::unique_ptr<operation<model>> waiting) {
  struct attachment {
    attachment(attach_request&& r, std::unique_ptr<operation<model>>&& w) noexcept
        : request(std::move(r)), waiting(std::move(w)) {}

    const attach_request request;
    std::unique_ptr<operation<model>> waiting;

    // Must not throw, because an exception in this thread would end the process.
    void run() noexcept {
      auto attached_model = catch_as_fault(
          [&] { return attach_now(request.socket, request.name, request.on, request.timeout); });
      end_operation(waiting, std::move(attached_model));
    }
  };
  const auto state = retry_allocation(
      [&] { return std::make_shared<attachment>(std::move(request), std::move(waiting)); });
  // The executor may have to start a thread, which can fail.
  const std::error_code refused = retry_allocation([&]() -> std::error_code {
    try {
      boost::asio::post(executor, [state] { state->run(); });
      return {};
    } catch (const boost::system::system_error& e) {
      return e.code();
    } catch (const std::system_error& e) {
      return e.code();
    }
  });
  if (!refused) return;
  end_operation(state->waiting,
                result<model>(retry_allocation([&] { return thread_refused(refused.value()); })));
}

}  // namespace detail

model attach(std::string_view socket, std::string_view name, std::chrono::milliseconds timeout) {
  return attach(socket, name, host(), timeout);
}

model attach(std::string_view socket, std::string_view name, device on,
             std::chrono::milliseconds timeout) {
  auto attached_model = detail::attach_now(std::string(socket), std::string(name), on, timeout);
  if (!attached_model) throw to_error(attached_model.error());
  return std::move(*attached_model);
}

}  // namespace ringload::inline v0
