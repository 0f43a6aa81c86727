// SPDX-License-Identifier: Apache-2.0

#include "keeper_record.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <new>
#include <optional>
#include <ringload/error.hpp>
#include <set>
#include <utility>

#include "base/packet_socket.hpp"
#include "memory.hpp"
#include "packet_calls.hpp"
#include "packet_sockets.hpp"
#include "world.hpp"

namespace ringload::simulation {

using boost::system::error_code;

namespace {

// The time within which the keeper notices that a client has closed its connection.
constexpr std::int64_t count_nanoseconds_max = 5'000'000'000;

// The time within which a waiting client must receive another version.
constexpr std::int64_t wake_nanoseconds_max = 1'000'000'000;

bool is_system(const error_code& code, int error_number) {
  return code == error_code(error_number, boost::system::system_category());
}

// Calls the keeper. Returns the error of a failure, which needs a fault of the world.
template <class Call>
std::optional<error_code> failure_of(const char* function, const Call& call) {
  const std::uint64_t faults = hard_faults();
  error_code code = errc::memory_exceeded;
  std::string problem = "no memory";
  try {
    const uncertain_memory engine;
    call();
    return std::nullopt;
  } catch (const std::bad_alloc&) {
  } catch (const error& failure) {
    code = failure.code();
    problem = failure.what();
  }
  if (faults == hard_faults() && !is_system(code, EADDRINUSE)) {
    violation(std::string(function) + " has failed: " + problem);
  }
  return code;
}

keeper_options any_options(bool is_narrow) {
  keeper_options options;
  if (is_narrow) options.connections_max = static_cast<std::uint32_t>(1 + random(6));
  if (random(3) == 0) options.users = {usual_user, 17};
  return options;
}

}  // namespace

void keeper_record::start(const std::string& path) {
  ++changes_;
  bool is_narrow = random(4) == 0;
  keeper_options options = any_options(is_narrow);
  set_packet_rules({options.users.empty() ? 0U : 20U, options.connections_max});
  is_passed_ = random(4) == 0;
  unique_fd passed;
  bool has_file = false;
  if (is_passed_) {
    auto listening = listen_at(path, 0600);
    if (!listening) return;
    passed = std::move(*listening);
    options.listening_socket = passed.get();
    has_file = is_narrow = true;  // No client is answered before the first publication.
  } else if (random(4) == 0) {
    // A keeper that crashed has left its file.
    has_file = ::mknod(path.c_str(), S_IFSOCK | 0600, 0) == 0;
  }
  if (random(2) == 0) fail_allocation_soon();
  const std::uint64_t faults = hard_faults();
  std::unique_ptr<keeper> started;
  const auto failure =
      failure_of("keeper", [&] { started = std::make_unique<keeper>(path, options); });
  if (!failure) {
    running_ = last_random_number();
    lives_[running_].is_narrow = is_narrow;
    server_ = std::move(started);
    return;
  }
  // Without a descriptor, the keeper cannot find out that no program listens.
  if (is_system(*failure, EADDRINUSE) && faults == hard_faults())
    violation("a keeper has not replaced an abandoned socket");
  if (!has_file && std::filesystem::exists(path)) violation("a keeper that failed left its socket");
  ::unlink(path.c_str());
}

void keeper_record::start_second(const std::string& path) {
  if (is_passed_) return;
  std::optional<keeper> second;
  const auto failure = failure_of("a second keeper", [&] { second.emplace(path); });
  if (!failure) violation("two keepers listen at one path");
}

void keeper_record::stop(const std::string& path) {
  ++changes_;
  const std::uint64_t ended = std::exchange(running_, 0);
  // Another thread may run while the keeper ends.
  std::unique_ptr<keeper> ending = std::move(server_);
  for (auto& entry : lives_[ended].names) entry.second.source = {};
  ending.reset();
  lives_[ended].end = ++changes_;
  if (is_passed_) {
    ::unlink(path.c_str());
  } else if (std::filesystem::exists(path)) {
    violation("a keeper left its socket");
  }
}

void keeper_record::publish(const std::string& name, const attached_model& source) {
  published_name& entry = lives_[running_].names[name];
  const std::uint64_t number = entry.last + 1;
  entry.versions[number] = source.expected;
  entry.is_changing = true;
  ++entry.publications;
  if (random(2) == 0) fail_allocation_soon();
  const auto failure = failure_of("publish", [&] { server_->publish(name, source.loaded); });
  entry.is_changing = false;
  if (failure) return (void)entry.versions.erase(number);
  entry.last = number;
  entry.is_served = true;
  entry.last_change = now();
  entry.source = source;
}

void keeper_record::withdraw(const std::string& name) {
  published_name& entry = lives_[running_].names[name];
  const bool was_served = std::exchange(entry.is_served, false);
  entry.is_changing = true;
  ++entry.withdrawals;
  if (server_->withdraw(name) != was_served) violation("withdraw() has a wrong result");
  entry.is_changing = false;
  entry.source = {};
}

const keeper_record::published_name* keeper_record::find(const std::string& name) const {
  const auto life = lives_.find(running_);
  if (life == lives_.end()) return nullptr;
  const auto found = life->second.names.find(name);
  return found == life->second.names.end() ? nullptr : &found->second;
}

call_begin keeper_record::begin_of_call(const std::string& name) const {
  call_begin begin;
  begin.keeper = running_;
  begin.changes = changes_;
  begin.foreign_connections = foreign_connections();
  begin.hard_faults = hard_faults();
  begin.time = now();
  const published_name* const entry = find(name);
  if (!entry) return begin;
  begin.version = std::max(entry->last, entry->seen);
  begin.publications = entry->publications;
  begin.withdrawals = entry->withdrawals;
  begin.is_served = entry->is_served && !entry->is_changing;
  begin.may_be_served = entry->is_served || entry->is_changing;
  return begin;
}

kept_version keeper_record::newest(const std::string& name) const {
  const published_name* const entry = find(name);
  return entry ? kept_version{running_, entry->last} : kept_version();
}

const bytes_by_name& keeper_record::expected_of(const std::string& name, kept_version version,
                                                const call_begin& begin) {
  const auto life = lives_.find(version.keeper);
  if (life == lives_.end()) violation("a client sees a version of no keeper");
  if (life->second.end <= begin.changes) violation("a keeper answers after its end");
  published_name& entry = life->second.names[name];
  const auto found = entry.versions.find(version.number);
  if (found == entry.versions.end()) violation("a client sees a version that was not published");
  if (version.keeper == begin.keeper && version.number < begin.version) {
    violation("a client sees an older version than before");
  }
  if (version.keeper == begin.keeper && !begin.may_be_served &&
      entry.publications == begin.publications) {
    violation("a client sees a model that was withdrawn");
  }
  entry.seen = std::max(entry.seen, version.number);
  return *found->second;
}

bool keeper_record::was_narrow(const call_begin& begin) const {
  return std::ranges::any_of(lives_, [&begin](const auto& entry) {
    return entry.second.is_narrow && entry.second.end > begin.changes;
  });
}

bool keeper_record::may_fail(const error_code& code, const std::string& name,
                             const call_begin& begin) const {
  const bool has_changed = begin.keeper == 0 || changes_ != begin.changes;
  if (code == errc::source_not_found) {
    const published_name* const entry = find(name);
    return has_changed || !begin.is_served || !entry || entry->withdrawals != begin.withdrawals;
  }
  if (is_system(code, ENOENT) || is_system(code, ECONNREFUSED)) return has_changed;
  if (is_system(code, EACCES)) return foreign_connections() != begin.foreign_connections;
  const bool has_fault = hard_faults() != begin.hard_faults;
  if (is_system(code, ECONNRESET)) return has_changed || has_fault;
  if (is_system(code, ETIMEDOUT)) return has_fault || was_narrow(begin);
  // The process has no memory, no descriptors or no threads.
  return has_fault && (code == errc::memory_exceeded || code == errc::malformed_message ||
                       is_system(code, EMFILE) || is_system(code, EAGAIN));
}

bool keeper_record::must_have_seen(const std::string& name, kept_version current,
                                   const call_begin& begin) const {
  const published_name* const entry = find(name);
  if (!entry || changes_ != begin.changes || was_narrow(begin)) return false;
  if (!entry->is_served || entry->is_changing || hard_faults() != begin.hard_faults) return false;
  return current != kept_version{running_, entry->last} &&
         now() - std::max(begin.time, entry->last_change) > wake_nanoseconds_max;
}

bool keeper_record::has_counted(const std::deque<attached_model>& attached) const {
  return std::ranges::all_of(server_->models(), [&](const kept_model& served) {
    const kept_version newest_version = newest(served.name);
    if (served.version != newest_version.number) violation("models() has another version");
    // Copies of an attached model have one connection.
    std::set<const void*> clients;
    const auto add = [&](const attached_model& entry) {
      if (entry.name != served.name || attached_version(entry.loaded) != newest_version) return;
      clients.insert(entry.loaded.storage().get());
    };
    std::ranges::for_each(attached, add);
    for (const auto& entry : lives_.at(running_).names) add(entry.second.source);
    return served.attached == clients.size() ||
           (served.attached < clients.size() && broken_packet_connections() > 0);
  });
}

void keeper_record::await_counts(const std::deque<attached_model>& attached) const {
  const std::int64_t limit = now() + count_nanoseconds_max;
  while (!has_counted(attached)) {
    if (now() > limit) violation("the keeper counts its clients wrongly");
    sleep_for(1'000'000);
  }
}

void check_shared_memory() {
  if (!settings().has_keeper) return;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:ringload") != std::string::npos)
      violation("memory of a keeper is mapped at the end");
  }
}

}  // namespace ringload::simulation
