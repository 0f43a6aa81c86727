// SPDX-License-Identifier: Apache-2.0

// Threads that use a keeper as other processes do: readers, whose calls block, and visitors, who
// violate the protocol.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <ringload/error.hpp>
#include <ringload/keeper.hpp>
#include <system_error>
#include <thread>
#include <vector>

#include "base/packet_socket.hpp"
#include "client.hpp"
#include "keeper/messages.hpp"

namespace ringload::simulation {

using boost::system::error_code;
using std::chrono::milliseconds;

namespace {

// Work between two events of the simulation takes less time.
constexpr std::int64_t slack = 1'000'000'000;

// The keeper closes the connection of a visitor who sends no request after 10 seconds.
constexpr milliseconds visit_max{12'000};

std::int64_t nanoseconds(milliseconds time) { return std::int64_t{time.count()} * 1'000'000; }

}  // namespace

void client::run_in_thread(std::function<void()> work) {
  auto thread = std::make_shared<std::thread>();
  const auto run = [self = shared_from_this(), thread, work = std::move(work),
                    guard = asio::make_work_guard(loop_.context)] {
    const certain_memory simulation;
    work();
    asio::post(self->loop_.context, [self, thread] {
      thread->join();
      self->next();
    });
  };
  for (;;) {
    try {
      *thread = std::thread(run);
      return;
    } catch (const std::system_error&) {
    }
  }
}

// ---- Readers ----

// A process that attaches versions one after the other.
struct client::reader {
  std::string name;
  model held;
  const bytes_by_name* expected = nullptr;
};

void client::read_versions() {
  run_in_thread([this] {
    reader process;
    process.name = random(4) == 0 ? "second" : "first";
    for (std::uint64_t i = 1 + random(4); i > 0; --i) {
      read_version(process);
      sleep_for(static_cast<std::int64_t>(random(std::uint64_t{1000} << random(16))));
      if (process.expected) check_model(process.held, *process.expected);
    }
  });
}

void client::read_version(reader& process) {
  keeper_record& keepers = program_.keepers;
  const call_begin begin = keepers.begin_of_call(process.name);
  const std::int64_t begin_time = now();
  const bool is_short = random(2) == 0;
  const milliseconds limit =
      is_short ? milliseconds(1 + random(std::uint64_t{1} << random(12))) : attach_timeout;
  const kept_version current = attached_version(process.held);
  const std::uint64_t kind = random(3);
  const std::string path = program_.socket_path();
  kept_version version;
  model attached;
  error_code failed;
  count_operation();
  try {
    const uncertain_memory engine;
    if (kind == 0) version = served_version(path, process.name, limit);
    if (kind == 1) attached = attach(path, process.name, limit);
    if (kind == 2) attached = attach_next(path, process.name, current, limit);
  } catch (const std::bad_alloc&) {
    failed = errc::memory_exceeded;
  } catch (const error& failure) {
    failed = failure.code();
  }
  if (now() > begin_time + 2 * nanoseconds(limit) + slack) {
    violation("a call of a keeper's client ended after its time limit: " + failed.message());
  }
  if (!failed) {
    if (kind != 0) version = attached_version(attached);
    const bytes_by_name& expected = keepers.expected_of(process.name, version, begin);
    if (kind == 0) return;
    check_model(attached, expected);
    if (attached.size() != expected.size()) violation("an attached model lacks tensors");
    if (kind == 2 && version == current) violation("a wait returns the same version");
    process.held = std::move(attached);
    process.expected = &expected;
    return;
  }
  const bool is_timeout = failed == error_code(ETIMEDOUT, boost::system::system_category());
  if (is_timeout && kind == 2 && keepers.must_have_seen(process.name, current, begin)) {
    violation("a waiting client has not received the version");
  }
  const bool may_expire = is_timeout && (is_short || kind == 2);
  const bool has_missed = kind == 2 && failed == errc::source_not_found;
  if (has_missed || (!may_expire && !keepers.may_fail(failed, process.name, begin))) {
    violation("a call of a keeper's client failed without a fault: " + failed.message());
  }
}

// ---- Visitors ----

namespace {

enum class manner { silent, garbage, oversized, passes_descriptors, leaves, speaks_twice, waits };

// Returns false if the keeper has closed the connection.
bool receive_answer(const unique_fd& connection, bool& has_expired) {
  std::vector<std::byte> buffer(512);
  const auto got = receive_packet(connection, buffer);
  has_expired = !got && got.error().code == error_code(ETIMEDOUT, boost::system::system_category());
  return got && got->bytes > 0;
}

void send_as(manner chosen, const unique_fd& connection, const std::string& name) {
  const std::vector<std::byte> garbage(chosen == manner::oversized ? 600 : 1 + random(512),
                                       static_cast<std::byte>(random(256)));
  const auto attach_message = detail::pack(detail::keep_request{name});
  const auto wait_message =
      detail::pack(detail::keep_request{"absent", detail::keep_action::attach_next});
  const std::vector<int> descriptors(1 + random(3), STDERR_FILENO);
  switch (chosen) {
    case manner::silent: return;
    case manner::garbage:
    case manner::oversized: return (void)send_packet(connection, garbage);
    case manner::passes_descriptors: return (void)send_packet(connection, garbage, descriptors);
    case manner::leaves: return (void)send_packet(connection, attach_message);
    case manner::speaks_twice:
      (void)send_packet(connection, attach_message);
      return (void)send_packet(connection, attach_message);
    case manner::waits: return (void)send_packet(connection, wait_message);
  }
}

}  // namespace

void client::visit_keeper() {
  run_in_thread([this] { visit(); });
}

void client::visit() {
  const std::string name = "first";
  const call_begin begin = program_.keepers.begin_of_call(name);
  const auto chosen = static_cast<manner>(random(7));
  const auto connection = connect_to(program_.socket_path(), visit_max);
  if (!connection) return;
  send_as(chosen, *connection, name);
  // These visitors leave at a random time.
  if (chosen == manner::leaves || chosen == manner::waits) {
    return sleep_for(static_cast<std::int64_t>(random(std::uint64_t{1000} << random(16))));
  }
  bool has_expired = false;
  while (receive_answer(*connection, has_expired)) {
  }
  if (has_expired && hard_faults() == begin.hard_faults && !program_.keepers.was_narrow(begin)) {
    violation("a keeper has not closed the connection of a visitor");
  }
}

}  // namespace ringload::simulation
