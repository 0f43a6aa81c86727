// SPDX-License-Identifier: Apache-2.0
#pragma once

// The thread of a keeper. It accepts connections, answers one request on each, and holds them until
// the clients close them, which the kernel does for a process that ends in any way.

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

#include "base/fault.hpp"
#include "base/unique_fd.hpp"
#include "keeper/messages.hpp"

namespace ringload::inline v0::detail {

// A model that is offered to clients.
struct offered_model {
  model held;
  std::shared_ptr<const void> description;  // Owns the first descriptor.
  std::vector<int> descriptors;  // The descriptor of the description, then one for each region.
  std::uint64_t bytes = 0;
  std::uint64_t version = 0;
  bool owns_memory = false;  // Clients use this process's allocation: device memory.
  // Shared with the connections, which may outlive this object.
  std::shared_ptr<std::atomic<std::uint64_t>> attached =
      std::make_shared<std::atomic<std::uint64_t>>(0);
};

class keeper_server {
 public:
  static result<std::unique_ptr<keeper_server>> make(std::string path, keeper_options settings);
  keeper_server(std::string path, keeper_options settings, unique_fd listening, unique_fd wake);
  keeper_server(const keeper_server&) = delete;
  keeper_server& operator=(const keeper_server&) = delete;
  ~keeper_server();

  // These functions are thread-safe.
  void offer(const std::string& name, offered_model new_model);
  bool withdraw(std::string_view name);
  std::vector<kept_model> models() const;

  const std::string& path() const noexcept { return path_; }

 private:
  using clock = std::chrono::steady_clock;

  struct connection {
    unique_fd socket;
    clock::time_point answer_until;  // Deadline for the request of a silent client.
    std::shared_ptr<std::atomic<std::uint64_t>> counted_in;  // Null: not answered yet.
    std::shared_ptr<const offered_model> uses;  // Must not be freed while the connection is open.
  };

  void run();
  int milliseconds_to_wait() const;
  void accept_all();
  // Answers the client's next packet. Returns false if the connection must be closed.
  bool answer(connection& to);
  static bool attach_client(connection& to, const std::shared_ptr<const offered_model>& offered);
  std::shared_ptr<const offered_model> find(const std::string& name) const;

  const std::string path_;
  const keeper_options settings_;
  const unique_fd listening_;
  const unique_fd wake_;
  std::pair<::dev_t, ::ino_t> socket_id_ = {};  // Identifies the socket's file.

  mutable std::mutex mutex_;
  // Guarded by the mutex.
  std::map<std::string, std::shared_ptr<const offered_model>, std::less<>> offered_;
  std::map<std::string, std::uint64_t, std::less<>> versions_;  // Includes withdrawn models.

  // Used only by the thread.
  std::vector<connection> connections_;  // At most settings_.connections_max.
  clock::time_point accept_after_;       // Later if no descriptor was left for a connection.

  std::atomic<bool> stop_ = false;
  std::thread thread_;  // Last member, because the thread uses all members above.
};

}  // namespace ringload::inline v0::detail
