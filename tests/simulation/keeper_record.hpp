// SPDX-License-Identifier: Apache-2.0
#pragma once

// The keepers of a world, which follow each other at one path, and the versions that they publish.
// Decides which versions and which failures a client may see.

#include <boost/system/error_code.hpp>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <ringload/keeper.hpp>
#include <string>

#include "workload.hpp"

namespace ringload::simulation {

// A model that a client has attached, and keeps.
struct attached_model {
  std::string name;
  model loaded;
  const bytes_by_name* expected = nullptr;
};

// The state of the keeper when the call of a client begins.
struct call_begin {
  std::uint64_t keeper = 0;   // The number of the running keeper. 0: no keeper runs.
  std::uint64_t changes = 0;  // The number of starts and ends of keepers.
  std::uint64_t version = 0;  // A client must not see an older version.
  std::uint64_t publications = 0;
  std::uint64_t withdrawals = 0;
  bool is_served = false;
  bool may_be_served = false;
  std::uint64_t foreign_connections = 0;
  std::uint64_t hard_faults = 0;
  std::int64_t time = 0;
};

class keeper_record {
 public:
  // Returns false if another client calls the keeper now.
  bool begin_call() { return !std::exchange(is_busy_, true); }
  void end_call() { is_busy_ = false; }

  bool is_running() const { return server_ != nullptr; }
  // The caller of the functions below must have called begin_call().
  void start(const std::string& path);
  // Starts a second keeper at the path of the first keeper, which must fail.
  void start_second(const std::string& path);
  void stop(const std::string& path);
  // Publishes a model that has the expected bytes. The name of `source` is empty if no client has
  // attached the model.
  void publish(const std::string& name, const attached_model& source);
  void withdraw(const std::string& name);

  // The state at the begin of a call for this name.
  call_begin begin_of_call(const std::string& name) const;
  // Returns the bytes of the version. A version that the client must not see is a violation.
  const bytes_by_name& expected_of(const std::string& name, kept_version version,
                                   const call_begin& begin);
  // Returns true if a call that began at `begin` may fail now with this code.
  bool may_fail(const boost::system::error_code& code, const std::string& name,
                const call_begin& begin) const;
  // Returns true if a wait for another version than `current` must be over.
  bool must_have_seen(const std::string& name, kept_version current, const call_begin& begin) const;
  // Returns true if a client may have waited for a connection without a limit.
  bool was_narrow(const call_begin& begin) const;
  kept_version newest(const std::string& name) const;

  // Waits until the keeper has counted the clients of its models, which are those of `attached`.
  void await_counts(const std::deque<attached_model>& attached) const;

 private:
  struct published_name {
    std::uint64_t last = 0;  // The newest version whose publication is complete.
    std::uint64_t seen = 0;  // The newest version that a client has seen.
    std::uint64_t publications = 0;
    std::uint64_t withdrawals = 0;
    bool is_served = false;
    bool is_changing = false;
    std::int64_t last_change = 0;
    std::map<std::uint64_t, const bytes_by_name*> versions;
    attached_model source;  // The keeper is a client of an attached model that it serves.
  };
  struct keeper_life {
    std::map<std::string, published_name> names;
    bool is_narrow = false;
    std::uint64_t end = UINT64_MAX;  // The number of changes when the keeper had ended.
  };

  const published_name* find(const std::string& name) const;
  bool has_counted(const std::deque<attached_model>& attached) const;

  std::unique_ptr<keeper> server_;
  std::map<std::uint64_t, keeper_life> lives_;
  std::uint64_t running_ = 0;  // The number of the running keeper.
  std::uint64_t changes_ = 0;
  bool is_passed_ = false;  // The keeper was started with a listening socket.
  bool is_busy_ = false;
};

// No memory that a keeper shares is mapped at the end of a world.
void check_shared_memory();

}  // namespace ringload::simulation
