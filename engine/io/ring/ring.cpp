// SPDX-License-Identifier: Apache-2.0

#include "io/ring/ring.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <new>

#include "base/retry_allocation.hpp"

namespace ringload::inline v0 {

namespace {

void prepare(::io_uring_sqe& sqe, const ring::transfer& request) noexcept {
  const bool is_fixed = request.registered_buffer >= 0;
  const int read_code = is_fixed ? IORING_OP_READ_FIXED : IORING_OP_READ;
  const int write_code = is_fixed ? IORING_OP_WRITE_FIXED : IORING_OP_WRITE;
  ::io_uring_prep_rw(request.is_write ? write_code : read_code, &sqe, request.fd, request.memory,
                     request.bytes, request.file_offset);
  if (is_fixed) sqe.buf_index = static_cast<__u16>(request.registered_buffer);
  if (request.by_kernel_worker) ::io_uring_sqe_set_flags(&sqe, IOSQE_ASYNC);
}

}  // namespace

ring::ring(boost::asio::io_context& loop, unsigned depth)
    : loop_(loop), depth_(depth), event_fd_(loop) {}

ring::~ring() {
  assert(in_kernel_ == 0 && prepared_ == 0);
  if (is_open_) ::io_uring_queue_exit(&ring_);
}

result<std::unique_ptr<ring>> ring::make(boost::asio::io_context& loop, unsigned depth) {
  std::unique_ptr<ring> new_ring(new ring(loop, depth));
  if (auto opened = new_ring->open(); !opened) return opened.error();
  return new_ring;
}

result<void> ring::open() {
  auto setup = set_up(ring_, depth_);
  if (!setup) return setup.error();
  is_open_ = true;
  setup_ = *setup;

  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) return fault{system_code(errno), "eventfd"};
  try {
    event_fd_.assign(fd);
  } catch (...) {
    ::close(fd);
    throw;
  }
  const int refused = ::io_uring_register_eventfd(&ring_, fd);
  if (refused < 0) {
    return fault{errc::engine_unavailable, "",
                 "io_uring_register_eventfd: " + system_code(-refused).message()};
  }
  wait();
  return {};
}

void ring::stop() { event_fd_.close(); }

void ring::wait() {
  const auto on_event = [this](boost::system::error_code failed) {
    if (failed) return;
    if (::read(event_fd_.native_handle(), &event_count_, sizeof event_count_) < 0) {
      // EAGAIN means that the counter was already read. In this case too, the completions are
      // reaped.
    }
    reap();
    if (event_fd_.is_open()) wait();
  };
  // The allocation is retried, because without this wait no later completion would be reaped.
  retry_allocation(
      [&] { event_fd_.async_wait(boost::asio::posix::stream_descriptor::wait_read, on_event); });
}

void ring::reap() {
  // With DEFER_TASKRUN, the kernel posts completions to the completion queue only on request.
  if (setup_.deferred) ::io_uring_get_events(&ring_);
  ::io_uring_cqe* cqe = nullptr;
  while (::io_uring_peek_cqe(&ring_, &cqe) == 0) {
    auto* op = static_cast<io_completion*>(::io_uring_cqe_get_data(cqe));
    const int res = cqe->res;
    ::io_uring_cqe_seen(&ring_, cqe);
    --in_kernel_;
    op->done(*op, res);
  }
  submit();
}

void ring::start(const transfer& request, io_completion& op) {
  ::io_uring_sqe* sqe = fatal_error_ == 0 ? ::io_uring_get_sqe(&ring_) : nullptr;
  while (!sqe && fatal_error_ == 0) {
    submit();
    sqe = ::io_uring_get_sqe(&ring_);
  }
  if (sqe) {
    prepare(*sqe, request);
    ::io_uring_sqe_set_data(sqe, &op);
  }
  op.next = nullptr;
  (last_prepared_ ? last_prepared_->next : first_prepared_) = &op;
  last_prepared_ = &op;
  ++prepared_;
  submit_soon();
}

void ring::submit_soon() {
  if (submit_posted_) return;
  // The allocation is retried, because otherwise the prepared entries would never be submitted.
  retry_allocation([this] {
    boost::asio::post(loop_, [this] {
      submit_posted_ = false;
      submit();
    });
  });
  submit_posted_ = true;
}

void ring::submit() {
  using clock = std::chrono::steady_clock;
  if (fatal_error_ != 0) fail_prepared();
  while (prepared_ > 0) {
    const clock::time_point begin = clock::now();
    const int taken = ::io_uring_submit(&ring_);
    const auto took = std::chrono::nanoseconds(clock::now() - begin).count();
    if (const auto ns = static_cast<std::uint64_t>(took); ns > longest_submit_.load()) {
      longest_submit_.store(ns);
    }
    if (taken > 0) {
      refused_since_ = {};
      prepared_ -= static_cast<unsigned>(taken);
      in_kernel_ += static_cast<unsigned>(taken);
      for (int i = 0; i < taken; ++i) first_prepared_ = first_prepared_->next;
      if (!first_prepared_) last_prepared_ = nullptr;
      continue;
    }
    if (taken == -EINTR) continue;
    // EAGAIN or EBUSY means that the kernel accepts no more entries until completions are reaped.
    // The next completion submits the prepared entries. If nothing is in flight, the submission is
    // retried, because no completion will follow.
    if (in_kernel_ > 0) return;
    if (refused_since_ == clock::time_point()) refused_since_ = begin;
    if (begin - refused_since_ < refusal_timeout) {
      submit_soon();
    } else {
      fatal_error_ = taken == 0 ? EAGAIN : -taken;
      submit_soon();  // The entries fail later, because this code may run inside start().
    }
    return;
  }
}

// Completes the prepared operations with the fatal error. Their entries stay in the submission
// queue, which is never submitted again.
void ring::fail_prepared() {
  while (first_prepared_) {
    io_completion* op = first_prepared_;
    first_prepared_ = op->next;
    if (!first_prepared_) last_prepared_ = nullptr;
    --prepared_;
    op->done(*op, -fatal_error_);
  }
}

boost::system::error_code ring::open_buffers(unsigned count) {
  const int refused = ::io_uring_register_buffers_sparse(&ring_, count);
  return refused < 0 ? system_code(-refused) : boost::system::error_code();
}

boost::system::error_code ring::register_buffer(unsigned index, const ::iovec& memory) {
  const __u64 no_tag = 0;
  const int registered = ::io_uring_register_buffers_update_tag(&ring_, index, &memory, &no_tag, 1);
  return registered < 0 ? system_code(-registered) : boost::system::error_code();
}

void ring::limit_workers(unsigned threads) {
  unsigned bounded_and_unbounded[2] = {threads, threads};
  // Before Linux 5.15, this call fails, and the default limit of the kernel applies.
  ::io_uring_register_iowq_max_workers(&ring_, bounded_and_unbounded);
}

}  // namespace ringload::inline v0
