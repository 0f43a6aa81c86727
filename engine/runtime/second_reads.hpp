// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads of a distant mount that are issued again if they are late (see read_pace.hpp), at most two
// times. Each further read writes into a spare slot. The operation completes when one of the reads
// succeeds. The worker then owns the slot of the successful read. The slot of each other read
// becomes a spare slot when that read ends, because until then the kernel may write to the slot.
//
// The number of spare slots limits the further reads. Engine thread only.

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <utility>
#include <vector>

#include "base/retry_allocation.hpp"
#include "io/header_reader.hpp"
#include "io/io_queue.hpp"
#include "runtime/admission_control.hpp"

namespace ringload::inline v0::detail {

class engine;

// Returns a read of the same bytes that uses no object of the caller except the file.
io_request repeatable(const io_request& request) noexcept;

// A read into the slot of a worker. The queue must outlive all issued reads. The other pointers
// must be valid until the read completes.
struct raced_read {
  raced_read() = default;

  io_queue* queue = nullptr;
  // The result of repeatable(), because a slower read can outlive the caller's objects. `memory`
  // and `registered_buffer` are ignored.
  io_request request;
  std::uint32_t slot = 0;
  // The admission control of this guard must find late reads. second_reads::read() passes the
  // fastest of the issued reads to set_measured().
  admission_guard* admitted = nullptr;
  // Keeps the file open until all issued reads have ended.
  std::shared_ptr<const void> file_owner;
  second_read_counts* counts = nullptr;
  const std::stop_token* stop = nullptr;  // After a stop request, no further read is issued.
};

struct raced_result {
  int result = 0;  // A number of bytes, or -errno.
  // The slot that contains the bytes. The worker owns this slot from now on.
  std::uint32_t slot = 0;
  bool was_repeated = false;  // True if the read was issued again.
};

class second_reads {
 public:
  explicit second_reads(engine& owner) noexcept : engine_(owner) {}
  second_reads(const second_reads&) = delete;
  second_reads& operator=(const second_reads&) = delete;

  // Adds the spare slots. Must be called once, before the first read.
  void open(std::uint32_t first_slot, std::uint32_t count);

  // Carries out a read, and issues the read again if the read is late and a slot is spare. Returns
  // when one of the issued reads has succeeded. If all issued reads have failed, returns the error
  // of the first read. The caller must keep `read` valid until the coroutine returns.
  boost::asio::awaitable<raced_result> read(const raced_read& read);

  // Returns false while the kernel may write to a spare slot.
  bool is_idle() const noexcept { return spare_.size() == count_; }

 private:
  friend class read_race;

  engine& engine_;
  std::uint32_t count_ = 0;
  std::vector<std::uint32_t> spare_;  // Has the capacity of all spare slots.
};

}  // namespace ringload::inline v0::detail
