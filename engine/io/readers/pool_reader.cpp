// SPDX-License-Identifier: Apache-2.0
#include "io/readers/pool_reader.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <new>

#include "base/mapping.hpp"
#include "base/retry_allocation.hpp"

namespace ringload::inline v0 {

namespace {

// One pread. Unpopulated memory is populated first.
::ssize_t read_once(const read_request& request, std::uint32_t from, std::uint32_t bytes) noexcept {
  if (request.fresh) {
    if (auto failed = populate({request.into + from, bytes})) return -failed.value();
  }
  const std::uint64_t file_offset = request.file_offset + from;
  if (request.supply) {
    return (*request.supply)(request.fd, file_offset, {request.into + from, bytes},
                             *request.supply_failed);
  }
  const ::ssize_t got =
      ::pread(request.fd, request.into + from, bytes, static_cast<::off_t>(file_offset));
  return got < 0 ? -errno : got;
}

// Ends at the end of the huge page in which the piece begins. A direct read must end at a block
// instead.
std::uint32_t piece_bytes(const read_request& request, std::uint32_t from) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(request.into + from);
  const std::uint64_t page_offset = request.direct ? 0 : address % huge_page_bytes;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(request.bytes - from, huge_page_bytes - page_offset));
}

// Reads one huge page at a time, so that a page is filled while it is still in the CPU cache.
int read_all(const read_request& request) noexcept {
  std::uint32_t done = 0;
  while (done < request.bytes) {
    const std::uint32_t bytes = piece_bytes(request, done);
    const ::ssize_t got = read_once(request, done, bytes);
    if (got < 0) return done > 0 ? static_cast<int>(done) : static_cast<int>(got);
    done += static_cast<std::uint32_t>(got);
    if (got < static_cast<::ssize_t>(bytes)) break;
  }
  return static_cast<int>(done);
}

}  // namespace

void pool_reader::start(operation& op) {
  ++waiting_;
  const auto work = [this, &op] {
    --waiting_;
    if (op.request.times) op.request.times->begins();
    const int result = read_all(op.request);
    if (op.request.times) op.request.times->ends();
    end(op, result);
  };
  retry_allocation([&] { boost::asio::post(threads_.get_executor(), work); });
}

// Posts a batch of completions. If a read still waits for a thread, its own end will report the
// batch.
void pool_reader::end(operation& op, int result) noexcept {
  bool now = op.request.awaited || op.request.direct;
  {
    const std::lock_guard lock(mutex_);
    op.result = result;
    op.next = nullptr;
    (last_ended_ ? last_ended_->next : first_ended_) = &op;
    last_ended_ = &op;
    now = ++ended_ >= batch_max || waiting_ == 0 || now;
  }
  if (now) retry_allocation([this] { boost::asio::post(loop_, [this] { complete_batch(); }); });
}

void pool_reader::complete_batch() {
  operation* op = nullptr;
  {
    const std::lock_guard lock(mutex_);
    op = first_ended_;
    first_ended_ = last_ended_ = nullptr;
    ended_ = 0;
  }
  while (op) {
    operation* const next = op->next;
    try {
      op->done(*op, op->result);  // The operation may be freed after this call.
    } catch (const std::bad_alloc&) {
      // The operation is lost with its handlers, like any command of the engine. The others must
      // still complete.
    }
    op = next;
  }
}

}  // namespace ringload::inline v0
