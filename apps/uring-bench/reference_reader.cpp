// SPDX-License-Identifier: Apache-2.0

// A thread that reads with its own rings, without the reader of the loader. Its rate is the
// reference for the loader.

#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <vector>

#include "failure.hpp"
#include "interrupts.hpp"
#include "io/ring/setup.hpp"
#include "reader_threads.hpp"

namespace ringload::bench {

namespace {

using clock = std::chrono::steady_clock;

// The limit of the kernel for one registered buffer.
constexpr std::uint64_t registered_bytes_max = std::uint64_t{1} << 30;
constexpr unsigned read_tries_max = 1000;
constexpr unsigned sqpoll_idle_ms = 1000;

class one_ring {
 public:
  one_ring(const course& on, std::uint64_t first_slot, measurement& measured)
      : on_(on), first_slot_(first_slot), measured_(measured) {}
  one_ring(const one_ring&) = delete;
  one_ring& operator=(const one_ring&) = delete;
  ~one_ring() {
    if (made_) ::io_uring_queue_exit(&ring_);
  }

  void set_up() {
    const cell& config = on_.config;
    if (config.sqpoll || config.iopoll) {
      set_up_polled();
    } else {
      const auto done = ringload::set_up(ring_, config.depth);
      if (!done) fail("io_uring", message_of(done.error()));
      measured_.ring_flags = done->flags;
    }
    made_ = true;
    if (config.registered_files) register_files();
    if (config.registered_buffers) register_buffers();
    slots_.resize(config.depth);
    for (std::uint32_t i = 0; i < config.depth; ++i) free_.push_back(i);
  }

  // Submits as many reads as the ring has room for, one by one. Small reads that are submitted in
  // groups keep the drive less busy (4 KiB at random: 0.93 of the rate of fio, and 1.0 one by one).
  void fill(clock::time_point now) {
    block one;
    while (!free_.empty() && on_.blocks.next(now, one)) {
      const std::uint32_t number = free_.back();
      free_.pop_back();
      slots_[number] = {one, on_.place(one, first_slot_ + number), now, 0, 0};
      prepare(number);
      submit();
    }
    submit();  // Submits reads that were prepared again or not accepted before.
  }

  void submit() {
    while (prepared_ > 0) {
      const clock::time_point begin = clock::now();
      const int taken = ::io_uring_submit(&ring_);
      measured_.longest_submit_seconds =
          std::max(measured_.longest_submit_seconds,
                   static_cast<double>(nanoseconds_between(begin, clock::now())) * 1e-9);
      if (taken >= 0) {
        prepared_ -= std::min(prepared_, static_cast<unsigned>(taken));
        continue;
      }
      // The submission is retried after some reads have completed. If the kernel has no read, a
      // wait would change nothing.
      if (taken != -EINTR && in_kernel() > 0) return;
      if (taken != -EINTR && taken != -EAGAIN) fail(-taken, "io_uring_enter");
    }
  }

  unsigned in_flight() const noexcept {
    return static_cast<unsigned>(slots_.size() - free_.size());
  }

  void wait() {
    ::io_uring_cqe* cqe = nullptr;
    // Even after an interruption, the caller reaps and waits again, because the memory may be freed
    // only when no read is in flight.
    static_cast<void>(::io_uring_wait_cqe(&ring_, &cqe));
  }

  // Reaps completions without waiting.
  void poll() { ::io_uring_get_events(&ring_); }

  // Returns true if a read had completed.
  bool reap(clock::time_point now) {
    unsigned head = 0;
    unsigned seen = 0;
    ::io_uring_cqe* cqe = nullptr;
    done_.clear();
    io_uring_for_each_cqe(&ring_, head, cqe) {
      done_.push_back({static_cast<std::uint32_t>(cqe->user_data), cqe->res});
      ++seen;
    }
    ::io_uring_cq_advance(&ring_, seen);
    for (const completed& one : done_) complete(one, now);
    return seen > 0;
  }

  // The first error, which is thrown when no read is in flight.
  std::exception_ptr failure;

 private:
  struct slot {
    block read_block;
    std::byte* into = nullptr;
    clock::time_point begin;
    std::uint32_t arrived = 0;
    unsigned tries = 0;
  };
  struct completed {
    std::uint32_t slot;
    int res;
  };

  unsigned in_kernel() const noexcept { return in_flight() - prepared_; }

  void set_up_polled() {
    const cell& config = on_.config;
    ::io_uring_params params = {};
    params.flags = IORING_SETUP_CLAMP;
    if (config.sqpoll) params.flags |= IORING_SETUP_SQPOLL;
    if (config.iopoll) params.flags |= IORING_SETUP_IOPOLL;
    params.sq_thread_idle = sqpoll_idle_ms;
    if (const int failed = ::io_uring_queue_init_params(config.depth, &ring_, &params);
        failed < 0) {
      fail(-failed, "io_uring_setup");
    }
    measured_.ring_flags = config.sqpoll ? config.iopoll ? "SQPOLL, IOPOLL" : "SQPOLL" : "IOPOLL";
  }

  void register_files() {
    std::vector<int> fds;
    for (const target::file& one : on_.source.files()) fds.push_back(one.fd.get());
    const int failed =
        ::io_uring_register_files(&ring_, fds.data(), static_cast<unsigned>(fds.size()));
    if (failed < 0) fail(-failed, "--registered-files");
  }

  void register_buffers() {
    // No block may cross the border between two buffers.
    buffer_bytes_ = registered_bytes_max / on_.config.block_bytes * on_.config.block_bytes;
    std::vector<::iovec> buffers;
    for (std::uint64_t at = 0; at < on_.memory_bytes; at += buffer_bytes_) {
      buffers.push_back({on_.memory + at, std::min(buffer_bytes_, on_.memory_bytes - at)});
    }
    const int failed =
        ::io_uring_register_buffers(&ring_, buffers.data(), static_cast<unsigned>(buffers.size()));
    if (failed == -ENOMEM) fail("--registered-buffers", "RLIMIT_MEMLOCK is too low for them");
    if (failed < 0) fail(-failed, "--registered-buffers");
  }

  void prepare(std::uint32_t number) {
    const slot& s = slots_[number];
    ::io_uring_sqe* sqe = ::io_uring_get_sqe(&ring_);
    while (sqe == nullptr) {  // The SQPOLL thread has not taken earlier entries yet.
      submit();
      sqe = ::io_uring_get_sqe(&ring_);
    }
    const int fd = on_.config.registered_files ? static_cast<int>(s.read_block.file)
                                               : on_.source.files()[s.read_block.file].fd.get();
    const std::uint32_t bytes = bytes_to_ask(on_.config, s.read_block.bytes - s.arrived);
    const std::uint64_t offset = s.read_block.file_offset + s.arrived;
    if (on_.config.registered_buffers) {
      const auto buffer = static_cast<std::uint64_t>(s.into - on_.memory) / buffer_bytes_;
      ::io_uring_prep_read_fixed(sqe, fd, s.into + s.arrived, bytes, offset,
                                 static_cast<int>(buffer));
    } else {
      ::io_uring_prep_read(sqe, fd, s.into + s.arrived, bytes, offset);
    }
    if (on_.config.registered_files) sqe->flags |= IOSQE_FIXED_FILE;
    sqe->user_data = number;
    ++prepared_;
  }

  void complete(const completed& one, clock::time_point now) {
    slot& s = slots_[one.slot];
    const bool again = one.res == -EINTR || one.res == -EAGAIN;
    if (one.res > 0 && s.arrived + static_cast<std::uint64_t>(one.res) >= s.read_block.bytes) {
      if (now >= on_.blocks.counted_from()) {
        measured_.latency.add(nanoseconds_between(s.begin, now));
        measured_.bytes += s.read_block.bytes;
        ++measured_.reads;
      }
      free_.push_back(one.slot);
      return;
    }
    if (one.res > 0) {
      ++measured_.short_reads;
      s.arrived = resumed_from(on_.config, s.arrived + static_cast<std::uint32_t>(one.res));
    }
    if ((one.res > 0 || again) && ++s.tries < read_tries_max && !failure) {
      ++measured_.resubmits;
      prepare(one.slot);
      return;
    }
    free_.push_back(one.slot);
    on_.blocks.stop();
    if (failure) return;
    try {
      if (one.res == -EOPNOTSUPP && on_.config.iopoll) {
        fail("--iopoll",
             "the drive has no queues to poll: its io_poll is 0 (for NVMe: the module "
             "parameter nvme.poll_queues)");
      }
      fail_read(on_.source, s.read_block, s.arrived, one.res);
    } catch (...) {
      failure = std::current_exception();
    }
  }

  const course& on_;
  const std::uint64_t first_slot_;
  measurement& measured_;
  ::io_uring ring_ = {};
  bool made_ = false;
  std::uint64_t buffer_bytes_ = 0;
  unsigned prepared_ = 0;  // Entries that the kernel has not taken yet.
  std::vector<slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<completed> done_;
};

class ring_member final : public team_member {
 public:
  ring_member(const course& on, std::uint32_t index) : on_(on), index_(index) {}

  void prepare() override {
    for (std::uint32_t i = 0; i < on_.config.rings; ++i) {
      const std::uint64_t first = (std::uint64_t{index_} * on_.config.rings + i) * on_.config.depth;
      rings_.push_back(std::make_unique<one_ring>(on_, first, measured));
      rings_.back()->set_up();
    }
  }

  void read() override {
    for (clock::time_point now = clock::now();; now = clock::now()) {
      if (tool::interrupt_signal() != 0) on_.blocks.stop();
      one_ring* busiest = nullptr;
      for (const auto& one : rings_) {
        one->fill(now);
        if (one->in_flight() > 0 && (!busiest || one->in_flight() > busiest->in_flight())) {
          busiest = one.get();
        }
      }
      if (!busiest) break;
      reap_some(*busiest);
    }
    for (const auto& one : rings_) {
      if (one->failure) std::rethrow_exception(one->failure);
    }
  }

 private:
  void reap_some(one_ring& busiest) {
    bool found_some = false;
    if (rings_.size() > 1) {
      for (const auto& one : rings_) {
        one->poll();
        if (one->reap(clock::now())) found_some = true;
      }
    }
    if (found_some) return;
    busiest.wait();
    busiest.reap(clock::now());
  }

  const course& on_;
  const std::uint32_t index_;
  std::vector<std::unique_ptr<one_ring>> rings_;
};

}  // namespace

std::unique_ptr<team_member> make_ring_member(const course& on, std::uint32_t index) {
  return std::make_unique<ring_member>(on, index);
}

}  // namespace ringload::bench
