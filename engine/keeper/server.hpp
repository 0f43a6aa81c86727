// SPDX-License-Identifier: Apache-2.0
#pragma once

// The thread of a keeper: accepts connections, answers the one request of each, and holds them
// until their other ends close, which the kernel does for a process that ends in any way.

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <ringload/keeper.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/fault.hpp"
#include "core/unique_fd.hpp"
#include "keeper/messages.hpp"

namespace ringload::inline v0::detail {

// A model as it is given away.
struct offered_model {
  model held;
  std::shared_ptr<const void> description;  // Owns the first of the descriptors.
  std::vector<int> descriptors;             // Of the description, then of each region.
  std::uint64_t bytes = 0;
  std::uint64_t version = 0;
  bool owns_memory = false;  // Who attaches needs this process's allocation: memory of a device.
  // Outlives this, with the connections.
  std::shared_ptr<std::atomic<std::uint64_t>> attached =
      std::make_shared<std::atomic<std::uint64_t>>(0);
};

class keeper_server {
 public:
  static result<std::unique_ptr<keeper_server>> make(std::string path, keeper_settings how);
  keeper_server(std::string path, keeper_settings how, unique_fd listening, unique_fd wake);
  keeper_server(const keeper_server&) = delete;
  keeper_server& operator=(const keeper_server&) = delete;
  ~keeper_server();

  // Any thread.
  void offer(const std::string& name, offered_model what);
  bool withdraw(std::string_view name);
  std::vector<kept_model> models() const;

  const std::string& path() const noexcept { return path_; }

 private:
  using clock = std::chrono::steady_clock;

  struct connection {
    unique_fd socket;
    clock::time_point answer_until;  // For who connects and then says nothing.
    std::shared_ptr<std::atomic<std::uint64_t>> counted_in;  // Null: it was not answered yet.
    std::shared_ptr<const offered_model> uses;  // What must not be freed before it is over.
  };

  void run();
  int milliseconds_to_wait() const;
  void accept_all();
  // Takes its next packet. False: the connection is over.
  bool answer(connection& to);
  static bool give(connection& to, const std::shared_ptr<const offered_model>& what);
  std::shared_ptr<const offered_model> find(const std::string& name) const;

  const std::string path_;
  const keeper_settings how_;
  const unique_fd listening_;
  const unique_fd wake_;
  std::pair<::dev_t, ::ino_t> made_ = {};  // The socket's file.

  mutable std::mutex mutex_;
  // Guarded by the mutex.
  std::map<std::string, std::shared_ptr<const offered_model>, std::less<>> offered_;
  std::map<std::string, std::uint64_t, std::less<>> versions_;  // Of withdrawn ones too.

  // The thread's own.
  std::vector<connection> connections_;  // At most how_.connections_max.
  clock::time_point accept_from_;        // Later where there was no descriptor for another.

  std::atomic<bool> stop_ = false;
  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace ringload::inline v0::detail
