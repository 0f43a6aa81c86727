// SPDX-License-Identifier: Apache-2.0
#pragma once

// A queue that reads objects of a store, such as files on a web server. The store reads in its own
// threads. Completions run in the engine thread.

#include <boost/asio/io_context.hpp>
#include <memory>
#include <mutex>

#include "io/io_queue.hpp"

namespace ringload::inline v0 {

class object_reader final : public io_queue {
 public:
  // `loop` must outlive the reader and its reads.
  explicit object_reader(boost::asio::io_context& loop) : loop_(loop) {}
  object_reader(const object_reader&) = delete;
  object_reader& operator=(const object_reader&) = delete;
  // Waits for threads of a store that are still inside post(). All reads must have completed.
  ~object_reader() override;

  void start(operation& op) override;
  bool populates() const noexcept override { return false; }

 private:
  boost::asio::io_context& loop_;
  // A thread of a store locks the mutex while the thread calls post(). The engine thread may
  // receive the completion before post() returns, and post() still uses the event loop until then.
  std::shared_ptr<std::mutex> posting_ = std::make_shared<std::mutex>();
};

}  // namespace ringload::inline v0
