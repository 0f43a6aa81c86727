// SPDX-License-Identifier: Apache-2.0
#pragma once

// A queue that reads and writes objects of a store, such as files on a web server. The store works
// in its own threads. Completions run in the thread of the event loop.

#include <boost/asio/io_context.hpp>
#include <memory>
#include <mutex>

#include "io/io_queue.hpp"

namespace ringload::inline v0 {

class object_queue final : public io_queue {
 public:
  // `loop` must outlive the queue and its operations.
  explicit object_queue(boost::asio::io_context& loop) : loop_(loop) {}
  object_queue(const object_queue&) = delete;
  object_queue& operator=(const object_queue&) = delete;
  // Waits for threads of a store that are still inside boost::asio::post(). All operations must
  // have completed.
  ~object_queue() override;

  void start(operation& op) override;
  bool populates() const noexcept override { return false; }

 private:
  void begin(operation& op);

  boost::asio::io_context& loop_;
  // A thread of a store locks the mutex while the thread calls post(). The engine thread may
  // receive the completion before post() returns, and post() still uses the event loop until then.
  std::shared_ptr<std::mutex> posting_ = std::make_shared<std::mutex>();
};

}  // namespace ringload::inline v0
