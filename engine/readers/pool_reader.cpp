// SPDX-License-Identifier: Apache-2.0
#include "readers/pool_reader.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <new>

#include "core/mapping.hpp"
#include "core/retry_allocation.hpp"

namespace ringload::inline v0 {

namespace {

// One pread; fresh memory is populated first.
::ssize_t read_once(const read_request& what, std::uint32_t from, std::uint32_t bytes) noexcept {
  if (what.fresh) {
    if (auto failed = populate({what.into + from, bytes})) return -failed.value();
  }
  const std::uint64_t file_offset = what.file_offset + from;
  if (what.supply) {
    return (*what.supply)(what.fd, file_offset, {what.into + from, bytes}, *what.supply_failed);
  }
  const ::ssize_t got =
      ::pread(what.fd, what.into + from, bytes, static_cast<::off_t>(file_offset));
  return got < 0 ? -errno : got;
}

// Up to the end of the huge page in which it begins; a direct read must end with a block instead.
std::uint32_t piece_bytes(const read_request& what, std::uint32_t from) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(what.into + from);
  const std::uint64_t behind = what.direct ? 0 : address % huge_page_bytes;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(what.bytes - from, huge_page_bytes - behind));
}

// One huge page at a time, so that a page is filled while it is still in the CPU cache.
int read_all(const read_request& what) noexcept {
  std::uint32_t done = 0;
  while (done < what.bytes) {
    const std::uint32_t bytes = piece_bytes(what, done);
    const ::ssize_t got = read_once(what, done, bytes);
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
    if (op.what.times) op.what.times->begins();
    const int result = read_all(op.what);
    if (op.what.times) op.what.times->ends();
    end(op, result);
  };
  retry_allocation([&] { boost::asio::post(threads_.get_executor(), work); });
}

// Where a read still waits for a thread, its end comes, and then all are told at the latest.
void pool_reader::end(operation& op, int result) noexcept {
  bool now = op.what.awaited || op.what.direct;
  {
    const std::lock_guard lock(mutex_);
    op.result = result;
    op.next = nullptr;
    (last_ended_ ? last_ended_->next : first_ended_) = &op;
    last_ended_ = &op;
    now = ++ended_ >= told_together_max || waiting_ == 0 || now;
  }
  if (now) retry_allocation([this] { boost::asio::post(loop_, [this] { tell(); }); });
}

void pool_reader::tell() {
  operation* one = nullptr;
  {
    const std::lock_guard lock(mutex_);
    one = first_ended_;
    first_ended_ = last_ended_ = nullptr;
    ended_ = 0;
  }
  while (one) {
    operation* const next = one->next;
    try {
      one->done(*one, one->result);  // It is gone after this.
    } catch (const std::bad_alloc&) {
      // Lost with its handlers, as any command of the engine is; the others are told all the same.
    }
    one = next;
  }
}

}  // namespace ringload::inline v0
