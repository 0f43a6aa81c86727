// SPDX-License-Identifier: Apache-2.0

// Clients of a keeper: they publish, withdraw and attach models, wait for versions, and replace the
// keeper. All processes are threads of one world.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <ringload/keeper.hpp>

#include "client.hpp"
#include "packet_sockets.hpp"

namespace ringload::simulation {

using boost::system::error_code;

namespace {

// An attach communicates for at most about twice the default time limit.
constexpr std::int64_t attach_nanoseconds_max = 22'000'000'000;

constexpr std::size_t attached_max = 4;

std::string any_name() { return random(4) == 0 ? "second" : "first"; }

}  // namespace

std::string program::socket_path() const { return files.socket_folder() + "/keeper"; }

void program::start_keeper() {
  if (!settings().has_keeper) return;
  keeper_loader = make_loader(true);
  if (random(8) != 0) keepers.start(socket_path());
}

// The models that clients keep remain valid after the end of the keeper.
void program::end_keeper() {
  if (!settings().has_keeper) return;
  const bool drops_all = random(2) == 0;
  if (keepers.is_running()) {
    keepers.await_counts(attached);
    if (drops_all) attached.clear();
    keepers.await_counts(attached);
    keepers.stop(socket_path());
  }
  keeper_loader.reset();
  await_packets();
  if (!std::filesystem::is_empty(files.socket_folder())) violation("the file of a socket is left");
}

void client::use_keeper() {
  // Most calls need a model.
  if (program_.keepers.newest("first") == kept_version() && random(4) != 0) return publish_model();
  switch (random(20)) {
    case 0:
    case 1:
    case 2:
    case 3: return publish_model();
    case 4: return publish_attached();
    case 5: return withdraw_model();
    case 6: return replace_keeper();
    case 7:
    case 8:
    case 9:
    case 10: return attach_model();
    case 11:
    case 12: return await_version();
    case 13:
    case 14:
    case 15:
    case 16: return read_versions();
    case 17:
    case 18: return visit_keeper();
    default: return replace_keeper();
  }
}

// ---- The process of the keeper ----

void client::publish_model() {
  const known_file& file = any_file();
  const load_options options = any_options();
  const bytes_by_name* expected = &expected_of(file, options);
  const std::string source = source_of(file);
  auto handler = token<model>(begin_load(file, source),
                              [self = shared_from_this(), expected](bool ok, const model& done) {
                                if (ok) check_model(done, *expected);
                                if (ok) self->publish(any_name(), {"", done, expected});
                                self->next();
                              });
  call([&] { program_.keeper_loader->load_async(source, options, std::move(handler)); });
}

// Publishes a model that a client has attached, perhaps from an earlier keeper.
void client::publish_any(const std::string& name) {
  if (program_.attached.empty()) return;
  const attached_model chosen = program_.attached[random(program_.attached.size())];
  publish(name, chosen);
}

void client::publish_attached() {
  if (program_.attached.empty()) return publish_model();
  publish_any(any_name());
  next();
}

void client::publish(const std::string& name, const attached_model& source) {
  keeper_record& keepers = program_.keepers;
  if (!keepers.begin_call()) return;
  if (!keepers.is_running()) keepers.start(program_.socket_path());
  if (keepers.is_running()) keepers.publish(name, source);
  keepers.end_call();
}

void client::withdraw_model() {
  keeper_record& keepers = program_.keepers;
  if (!keepers.begin_call()) return next();
  if (keepers.is_running()) keepers.withdraw(any_name());
  keepers.end_call();
  next();
}

void client::replace_keeper() {
  keeper_record& keepers = program_.keepers;
  if (!keepers.begin_call()) return next();
  if (!keepers.is_running()) {
    keepers.start(program_.socket_path());
  } else if (random(2) == 0) {
    keepers.start_second(program_.socket_path());
  } else {
    keepers.stop(program_.socket_path());
  }
  keepers.end_call();
  next();
}

// ---- Other processes ----

client::operation_ptr client::begin_attach(const std::string& name, const call_begin& begin) {
  operation_ptr begun = begin_operation();
  begun->end_max = now() + attach_nanoseconds_max;
  begun->may_fail_with = [&keepers = program_.keepers, name, begin](const error_code& code) {
    return keepers.may_fail(code, name, begin);
  };
  if (settings().faults.any() && random(8) == 0) {
    call_at(now() + static_cast<std::int64_t>(random(std::uint64_t{1000} << random(12))),
            [] { break_any_packet_connection(); });
  }
  return begun;
}

// Several clients attach, and the keeper may replace the version meanwhile. A cancellation has no
// effect on attach_async().
void client::attach_model() {
  const std::string name = any_name();
  const auto open = std::make_shared<std::size_t>(1 + random(3));
  for (std::size_t i = *open; i > 0; --i) {
    const call_begin begin = program_.keepers.begin_of_call(name);
    const operation_ptr begun = begin_attach(name, begin);
    begun->may_be_cancelled = false;
    auto handler = token<model>(
        begun,
        [self = shared_from_this(), name, begin, open](bool ok, model done) {
          if (ok) self->end_attach(name, std::move(done), begin);
          if (--*open == 0) self->next();
        },
        false);
    call([&] { attach_async(program_.socket_path(), name, std::move(handler)); });
  }
  if (random(2) == 0) publish_any(name);
}

// Waits for another version, until the wait is cancelled.
void client::await_version() {
  const std::string name = any_name();
  const call_begin begin = program_.keepers.begin_of_call(name);
  const kept_version current = random(3) == 0 ? kept_version() : program_.keepers.newest(name);
  const operation_ptr begun = begin_attach(name, begin);
  // A wait for a model that is missing does not fail.
  begun->may_fail_with = [may_fail = begun->may_fail_with](const error_code& code) {
    return code != errc::source_not_found && may_fail(code);
  };
  const std::uint64_t wait_max = random(2) == 0 ? 5'000'000'000 : std::uint64_t{1000} << random(18);
  begun->may_be_cancelled = begun->will_be_cancelled = true;
  begun->end_max += static_cast<std::int64_t>(wait_max);
  cancel_after(begun, asio::cancellation_type::terminal, wait_max);
  auto handler = token<model>(
      begun,
      [self = shared_from_this(), name, begin, current](bool ok, model done) {
        if (!ok && self->program_.keepers.must_have_seen(name, current, begin)) {
          violation("a waiting client has not received the version");
        }
        if (ok && attached_version(done) == current) violation("a wait returns the same version");
        if (ok) self->end_attach(name, std::move(done), begin);
        self->next();
      },
      false);
  call([&] { attach_next_async(program_.socket_path(), name, current, std::move(handler)); });
  if (random(2) == 0) publish_any(name);
}

void client::end_attach(const std::string& name, model done, const call_begin& begin) {
  const bytes_by_name& expected = program_.keepers.expected_of(name, attached_version(done), begin);
  if (done.size() != expected.size()) violation("an attached model has another number of tensors");
  check_model(done, expected);
  if (random(2) == 0) return;
  program_.attached.push_back({name, std::move(done), &expected});
  if (program_.attached.size() <= attached_max) return;
  // Another thread may run while the model is destroyed.
  const attached_model oldest = std::move(program_.attached.front());
  program_.attached.pop_front();
  check_model(oldest.loaded, *oldest.expected);
}

}  // namespace ringload::simulation
