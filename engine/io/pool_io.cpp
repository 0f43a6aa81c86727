// SPDX-License-Identifier: Apache-2.0

#include "io/pool_io.hpp"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <new>

#include "base/mapping.hpp"
#include "base/retry_allocation.hpp"

namespace ringload::inline v0 {

namespace {

// RWF_DONTCACHE of Linux 6.14, which the headers of Debian 12 lack.
constexpr int rwf_dontcache = 0x80;

// Reads, and drops the pages that the read has added to the page cache. If the file system does not
// support RWF_DONTCACHE, also drops pages that were in the page cache before.
::ssize_t read_uncached(int fd, std::byte* memory, std::uint32_t bytes, ::off_t offset) noexcept {
  const ::iovec into = {memory, bytes};
  ::ssize_t count = ::preadv2(fd, &into, 1, offset, rwf_dontcache);
  if (count >= 0 || (errno != EOPNOTSUPP && errno != EINVAL)) return count;
  count = ::pread(fd, memory, bytes, offset);
  if (count > 0) (void)::posix_fadvise(fd, offset, count, POSIX_FADV_DONTNEED);
  return count;
}

// Calls pread, pwrite or the byte_supply once. Populates the memory of a `fresh` request first.
::ssize_t transfer_once(const io_request& request, std::uint32_t from,
                        std::uint32_t bytes) noexcept {
  if (request.fresh) {
    if (auto failed = populate({request.memory + from, bytes})) return -failed.value();
  }
  const std::uint64_t file_offset = request.file_offset + from;
  if (request.supply) {
    return (*request.supply)(request.fd, file_offset, {request.memory + from, bytes},
                             *request.supply_failed);
  }
  std::byte* const memory = request.memory + from;
  const auto offset = static_cast<::off_t>(file_offset);
  const ::ssize_t count = request.is_write   ? ::pwrite(request.fd, memory, bytes, offset)
                          : request.uncached ? read_uncached(request.fd, memory, bytes, offset)
                                             : ::pread(request.fd, memory, bytes, offset);
  return count < 0 ? -errno : count;
}

// Returns the number of bytes to transfer in one call. A buffered read is divided at the boundaries
// of huge pages of the memory. A direct read is divided into pieces of the size of a huge page,
// because their size must be a multiple of block_bytes. Two kinds of requests are not divided: a
// write, and a direct read by a `supply`, which does not write to host memory.
std::uint32_t piece_bytes(const io_request& request, std::uint32_t from) noexcept {
  if (request.is_write || (request.direct && request.supply != nullptr)) {
    return request.bytes - from;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(request.memory + from);
  const std::uint64_t page_offset = request.direct ? 0 : address % huge_page_bytes;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(request.bytes - from, huge_page_bytes - page_offset));
}

// Carries out the request. Each call of pread reads at most one huge page. If transfer_once() has
// just populated the page, the page is still in the CPU cache when pread fills the page.
int transfer_all(const io_request& request) noexcept {
  std::uint32_t position = 0;
  while (position < request.bytes) {
    const std::uint32_t bytes = piece_bytes(request, position);
    const ::ssize_t got = transfer_once(request, position, bytes);
    if (got < 0) return position > 0 ? static_cast<int>(position) : static_cast<int>(got);
    position += static_cast<std::uint32_t>(got);
    if (got < static_cast<::ssize_t>(bytes)) break;
  }
  return static_cast<int>(position);
}

}  // namespace

void pool_io::start(operation& op) {
  ++waiting_;
  const auto work = [this, &op] {
    --waiting_;
    post_other_files(op);
    if (op.request.times) op.request.times->record_begin();
    const int result = transfer_all(op.request);
    if (op.request.times) op.request.times->record_end();
    end(op, result);
  };
  retry_allocation([&] { boost::asio::post(threads_.get_executor(), work); });
}

// Posts the batch if it has operations of other files than `op`. The thread may wait for `op` for
// any time, and a slow drive must delay only the loads that read from this drive.
void pool_io::post_other_files(const operation& op) noexcept {
  bool has_others = false;
  {
    const std::lock_guard lock(mutex_);
    for (const io_completion* ended = first_ended_; ended; ended = ended->next) {
      const io_request& request = static_cast<const operation*>(ended)->request;
      if (request.fd != op.request.fd || request.supply != op.request.supply) has_others = true;
    }
  }
  if (has_others) post_batch();
}

void pool_io::post_batch() noexcept {
  retry_allocation([this] { boost::asio::post(loop_, [this] { complete_batch(); }); });
}

// Adds the operation to the batch of completions. Posts the batch if the batch is full, if no
// operation waits for a thread, or if the completion must not be delayed.
void pool_io::end(operation& op, int result) noexcept {
  bool must_post = op.request.awaited || op.request.direct;
  {
    const std::lock_guard lock(mutex_);
    op.result = result;
    op.next = nullptr;
    (last_ended_ ? last_ended_->next : first_ended_) = &op;
    last_ended_ = &op;
    must_post = ++ended_count_ >= batch_max || waiting_ == 0 || must_post;
  }
  if (must_post) post_batch();
}

void pool_io::complete_batch() {
  io_completion* ended = nullptr;
  {
    const std::lock_guard lock(mutex_);
    ended = first_ended_;
    first_ended_ = last_ended_ = nullptr;
    ended_count_ = 0;
  }
  while (ended) {
    operation& op = static_cast<operation&>(*ended);
    ended = op.next;
    try {
      op.done(op, op.result);  // The operation may be freed after this call.
    } catch (const std::bad_alloc&) {
      // The operation is lost with its handlers, as after an exception in any other command of the
      // engine. The other operations must still complete.
    }
  }
}

}  // namespace ringload::inline v0
