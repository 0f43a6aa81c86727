// SPDX-License-Identifier: Apache-2.0
#pragma once

// The server thread of a keeper. A keeper is a process that shares loaded models with other
// processes. The thread answers one request per connection. A request for the next version is
// answered as soon as a version other than the client's version is served. After the answer with a
// model, the connection stays open until the client closes the connection or ends. After any other
// answer, the server closes the connection.

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <ringload/keeper.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"
#include "device/exported_memory.hpp"
#include "keeper/messages.hpp"

namespace ringload::inline v0::detail {

// A model that clients can attach to.
struct offered_model {
  model model_handle;
  std::shared_ptr<const void> description;  // Owns the first descriptor.
  // One descriptor for the description, then one for each memory region.
  std::vector<int> descriptors;
  // If the regions are on a device, this member owns their descriptors.
  std::vector<exported_memory> on_device;
  std::uint64_t bytes = 0;
  kept_version version;
  // Number of clients. Shared with the connections, which may exist longer than this object.
  std::shared_ptr<std::atomic<std::uint64_t>> client_count =
      std::make_shared<std::atomic<std::uint64_t>>(0);
};

class keeper_server {
 public:
  static result<std::unique_ptr<keeper_server>> make(std::string path, keeper_options options);
  keeper_server(std::string path, keeper_options options, unique_fd listening, unique_fd wake);
  keeper_server(const keeper_server&) = delete;
  keeper_server& operator=(const keeper_server&) = delete;
  ~keeper_server();

  // May be called from any thread.
  void offer(const std::string& name, offered_model new_model);
  bool withdraw(std::string_view name);
  std::vector<kept_model> models() const;

  const std::string& path() const noexcept { return path_; }

 private:
  using clock = std::chrono::steady_clock;

  struct connection {
    unique_fd socket;
    clock::time_point request_deadline;  // The request must arrive before this time.
    // The client count of the attached model. Null until a model is attached.
    std::shared_ptr<std::atomic<std::uint64_t>> client_count = nullptr;
    // A request for a model, if the keeper has not answered it yet. Either no other version is
    // served, or the answer could not be sent.
    std::optional<keep_request> waiting = {};
    // If set, the answer could not be sent, and must be sent again at this time.
    std::optional<clock::time_point> retry_time = {};
  };

  void wake() const noexcept;
  void run();
  void end_connections();
  void wait_and_serve();
  int milliseconds_to_wait() const;
  void accept_all();
  // Receives and answers the client's packet. Returns false if the connection must be closed.
  bool answer(connection& client) noexcept;
  bool answer_request(connection& client);
  // Answers the waiting request of the client, if possible: sends the model, or replies that no
  // such model is served. A request for the next version waits until another version is served.
  // Returns false if the connection must be closed.
  bool answer_waiting(connection& client) noexcept;
  // Sends the model. If this is not possible at present, sets `retry_time`. Returns false if the
  // connection must be closed.
  static bool attach_client(connection& client,
                            const std::shared_ptr<const offered_model>& offered);
  std::shared_ptr<const offered_model> find(const std::string& name) const;

  const std::string path_;           // As given by the caller.
  const std::string absolute_path_;  // Used by the destructor.
  const keeper_options options_;
  const std::uint64_t id_;  // Random, so that the versions of two keepers differ.
  const unique_fd listening_;
  const unique_fd wake_;
  std::pair<::dev_t, ::ino_t> socket_id_ = {};

  mutable std::mutex mutex_;
  // Guarded by the mutex.
  std::map<std::string, std::shared_ptr<const offered_model>, std::less<>> offered_;
  // The last version of each name. An entry remains after withdraw().
  std::map<std::string, std::uint64_t, std::less<>> versions_;

  // Used by the server thread only.
  std::vector<connection> connections_;  // At most options_.connections_max.
  // If accept() has failed, for example for lack of descriptors, the server accepts no connection
  // until this time.
  clock::time_point accept_paused_until_;

  // If false, no connection is accepted. If the caller has passed a listening socket, the value is
  // false until the first model is offered.
  std::atomic<bool> accepting_ = true;
  std::atomic<bool> stop_ = false;
  // Must be the last member, because the thread uses the other members.
  std::thread thread_;
};

}  // namespace ringload::inline v0::detail
