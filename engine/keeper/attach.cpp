// SPDX-License-Identifier: Apache-2.0

// Attaching: a name -> descriptors -> memory that is sealed -> a description that fits it -> a
// model.

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/system_executor.hpp>
#include <cerrno>
#include <ringload/keeper.hpp>
#include <string>
#include <utility>

#include "core/attempt.hpp"
#include "core/packet_socket.hpp"
#include "device/shared_arena.hpp"
#include "formats/printable.hpp"
#include "keeper/description.hpp"
#include "keeper/messages.hpp"
#include "pipeline/tensor_storage.hpp"

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

// What has come, its sizes known.
struct attached_memory {
  shared_memory description;
  std::vector<shared_memory> regions;
};

result<attached_memory> memory_of(received_packet from, const keep_reply& reply) {
  auto& descriptors = from.descriptors;
  if (descriptors.size() != reply.regions + 1) {
    return fault{errc::malformed_message, "",
                 grouped(descriptors.size()) + " descriptors came for " + grouped(reply.regions) +
                     " regions"};
  }
  attached_memory out;
  auto description =
      shared_memory::open_sealed(std::move(descriptors.front()), description_bytes_max);
  if (!description) return description.error();
  out.description = std::move(*description);
  for (std::size_t i = 1; i < descriptors.size(); ++i) {
    auto one = shared_memory::open_sealed(std::move(descriptors[i]), any_bytes);
    if (!one) return one.error();
    out.regions.push_back(std::move(*one));
  }
  return out;
}

result<model> model_of(attached_memory memory, unique_fd connection) {
  std::vector<std::uint64_t> sizes;
  for (const shared_memory& each : memory.regions) sizes.push_back(each.span().size());
  auto described = unpacked_description(memory.description.span(), sizes);
  if (!described) return described.error();
  std::vector<placement> where;
  for (const kept_tensor& each : described->where) {
    placement& one = where.emplace_back();
    one.destination = each.region;
    one.destination_offset = each.offset;
    one.as = each.as;
  }
  auto named = std::make_shared<const named_catalog>(std::move(described->what));
  auto tensors = std::make_shared<const loaded_tensors>(std::move(named), std::move(where));
  const auto counted = std::make_shared<const unique_fd>(std::move(connection));
  std::vector<taken_arena> arenas;
  for (shared_memory& each : memory.regions) {
    const std::uint64_t bytes = each.span().size();
    arenas.push_back({std::make_shared<shared_arena>(std::move(each), counted), bytes});
  }
  return model(std::make_shared<const model_storage>(std::move(tensors), std::move(arenas),
                                                     memory_accounts()));
}

result<model> attach_to(const std::string& path, const std::string& name,
                        std::chrono::milliseconds timeout) {
  auto connection = connect_to(path, timeout);
  if (!connection) return connection.error();
  if (auto sent = send_packet(*connection, packed(keep_request{name})); !sent) return sent.error();
  std::array<std::byte, packet_bytes_max> room = {};
  auto got = receive_packet(*connection, room);
  if (!got) return got.error();
  if (got->bytes == 0) return fault{system_code(ECONNRESET), "", "the keeper hung up"};
  const auto reply = unpacked_reply(std::span(room).first(got->bytes));
  if (!reply) return reply.error();
  if (reply->answer != keep_answer::attached) return refusal(reply->answer);
  auto memory = memory_of(std::move(*got), *reply);
  if (!memory) return memory.error();
  return model_of(std::move(*memory), std::move(*connection));
}

result<model> attached(const std::string& path, const std::string& name,
                       std::chrono::milliseconds timeout) {
  const std::string place = printable_path(path) + ": model '" + printable(name) + "'";
  if (name.empty() || name.size() > name_bytes_max) {
    return fault{errc::invalid_source_name, place,
                 "a name has 1 to " + grouped(name_bytes_max) + " bytes"};
  }
  auto made = attempt([&] { return attach_to(path, name, timeout); });
  if (!made) return made.error().in(place);
  return made;
}

}  // namespace

void begin_attach(std::string socket, std::string name, std::chrono::milliseconds timeout,
                  std::unique_ptr<operation<model>> waiting) {
  struct work {
    std::string socket;
    std::string name;
    std::chrono::milliseconds timeout;
    std::unique_ptr<operation<model>> waiting;

    void operator()() {
      auto made = attached(socket, name, timeout);
      if (made) return waiting->complete(nullptr, std::move(*made));
      waiting->complete(to_exception(made.error()), model());
    }
  };
  boost::asio::post(boost::asio::system_executor(),
                    work{std::move(socket), std::move(name), timeout, std::move(waiting)});
}

}  // namespace detail

model attach(std::string_view socket, std::string_view name, std::chrono::milliseconds timeout) {
  auto made = detail::attached(std::string(socket), std::string(name), timeout);
  if (!made) throw to_error(made.error());
  return std::move(*made);
}

}  // namespace ringload::inline v0
