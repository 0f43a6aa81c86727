// SPDX-License-Identifier: Apache-2.0

#include "io/writers/append_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/checked.hpp"
#include "base/file_io.hpp"
#include "base/io_unit.hpp"

namespace ringload::inline v0 {

namespace {

// The file is enlarged in steps of this many bytes, ahead of the writes. Direct writes to allocated
// space within the file size do not wait for each other.
constexpr std::uint64_t allocated_at_once = std::uint64_t{256} << 20;

// Addresses, offsets and lengths of direct writes must be multiples of this unit.
constexpr std::uint64_t direct_unit = ringload::block_bytes;

}  // namespace

// Counts one write as in flight until this object is destroyed, even if the coroutine of the write
// never starts.
class append_file::pending_write {
 public:
  pending_write(append_file& owner, std::optional<std::size_t> block) noexcept
      : owner_(&owner), block_(block) {
    ++owner.in_flight_;
    if (block) owner.in_use_[*block] = true;
  }
  pending_write(pending_write&& source) noexcept
      : outcome(std::move(source.outcome)),
        owner_(std::exchange(source.owner_, nullptr)),
        block_(source.block_) {}
  pending_write& operator=(pending_write&& source) = delete;
  ~pending_write() {
    if (owner_ == nullptr) return;
    --owner_->in_flight_;
    if (block_) owner_->in_use_[*block_] = false;
    if (owner_->failure_ && !outcome.status) owner_->failure_ = std::move(outcome.status);
  }

  append_file& owner() const noexcept { return *owner_; }

  write_outcome outcome = {fault(errc::memory_exceeded, {})};

 private:
  append_file* owner_;
  std::optional<std::size_t> block_;
};

append_file::append_file(written_file& file, const std::atomic<bool>& stop)
    : file_(file), stop_(stop) {}

result<std::unique_ptr<append_file>> append_file::make(written_file& file, std::uint64_t begin,
                                                       const std::atomic<bool>& stop) {
  std::unique_ptr<append_file> new_file(new append_file(file, stop));
  auto memory = mapping::make(block_bytes * blocks, page_kind::transparent);
  if (!memory) return memory.error();
  new_file->memory_ = std::move(*memory);
  new_file->open();
  if (auto status = new_file->load_partial_unit(begin); !status) return status.error();
  return new_file;
}

void append_file::open() {
  // Buffered writes use the thread pool, so a ring is created only for direct writes.
  if (file_.direct) {
    if (auto new_ring = ring::make(loop_, blocks + 2)) ring_ = std::move(*new_ring);
  }
  if (ring_) direct_ = std::make_unique<ring_io>(*ring_);
}

append_file::~append_file() {
  wait_until([this] { return in_flight_ == 0; });
  if (ring_) ring_->stop();
  work_guard_.reset();
  wait_until([this] { return loop_.stopped(); });
  pool_.join();  // A thread may still be in buffered_, which is destroyed before pool_.
}

// Runs the event loop until met() returns true. The wait ends even if memory is exhausted: if a
// write cannot be started or continued, the destructor of its pending_write marks the write as
// ended.
template <class Condition>
void append_file::wait_until(const Condition& met) noexcept {
  while (!met()) {
    try {
      loop_.run_one();
    } catch (const std::exception&) {
    }
  }
}

// A block must begin at a multiple of direct_unit. If `begin` is not a multiple, copies the bytes
// between the last multiple and `begin` from the file into the first block.
result<void> append_file::load_partial_unit(std::uint64_t begin) {
  block_offset_ = round_down(begin, direct_unit);
  const auto before = static_cast<std::size_t>(begin - block_offset_);
  const auto read = read_fully(file_.buffered.get(), block_offset_, memory_.span().first(before));
  if (!read) return read.error().in(file_.place);
  if (*read < before) return fault{system_code(EIO), file_.place};
  filled_ = before;
  return {};
}

boost::asio::awaitable<void> append_file::write_out(pending_write write, file_block extent) {
  append_file& owner = write.owner();
  const bool direct = can_be_direct(owner.file_, extent.file_offset, extent.bytes) &&
                      reinterpret_cast<std::uintptr_t>(extent.memory) % direct_unit == 0;
  io_queue& buffered = owner.buffered_;
  const write_queues queues = {owner.direct_ ? *owner.direct_ : buffered, buffered, owner.objects_};
  co_await write_fully(queues, owner.file_, extent, direct, owner.stop_, write.outcome);
  if (write.outcome.direct && write.outcome.is_complete) owner.bytes_direct_ += extent.bytes;
}

// Starts a write of the block with the index `block`. If `block` is empty, `extent` refers to other
// memory.
void append_file::start(const file_block& extent, std::optional<std::size_t> block) {
  pending_write write(*this, block);
  ++writes_;
  try {
    boost::asio::co_spawn(loop_, write_out(std::move(write), extent), boost::asio::detached);
    loop_.poll();
  } catch (const std::exception&) {
    // If memory is exhausted, the destructor of the pending_write reports the failure.
  }
}

result<void> append_file::write_status() const {
  if (failure_) return {};
  const fault& failure = failure_.error();
  return failure.where().empty() ? failure.in(file_.place) : failure;
}

result<void> append_file::next_block() {
  // A failure is not an error: if the drive has no space, the write below will fail. After a
  // failure the space is not allocated ahead any more, because the drive is nearly full.
  if (may_allocate_ && end() > file_.bytes) {
    may_allocate_ = allocate_up_to(file_, end() + allocated_at_once).has_value();
  }
  start({block_offset_, static_cast<std::uint32_t>(filled_), begin_of(block_)}, block_);
  block_offset_ += filled_;
  filled_ = 0;
  block_ = (block_ + 1) % blocks;
  wait_until([this] { return !in_use_[block_]; });
  return write_status();
}

result<void> append_file::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t step = std::min(bytes.size(), block_bytes - filled_);
    std::memcpy(begin_of(block_) + filled_, bytes.data(), step);
    filled_ += step;
    bytes = bytes.subspan(step);
    if (filled_ < block_bytes) continue;
    if (auto status = next_block(); !status) return status.error();
  }
  return {};
}

result<void> append_file::pad_to(std::uint64_t offset) {
  while (end() < offset) {
    const auto step =
        static_cast<std::size_t>(std::min<std::uint64_t>(offset - end(), block_bytes - filled_));
    std::memset(begin_of(block_) + filled_, 0, step);
    filled_ += step;
    if (filled_ < block_bytes) continue;
    if (auto status = next_block(); !status) return status.error();
  }
  return {};
}

result<void> append_file::finish() {
  // Whole units may be written directly. The rest is written through the page cache.
  const auto whole = static_cast<std::uint32_t>(round_down<std::uint64_t>(filled_, direct_unit));
  const auto tail = static_cast<std::uint32_t>(filled_ - whole);
  if (whole > 0) start({block_offset_, whole, begin_of(block_)}, block_);
  if (tail > 0) start({block_offset_ + whole, tail, begin_of(block_) + whole}, block_);
  if (auto status = wait_for_all(); !status) return status.error();
  // The file may be larger than file_.bytes: a failed allocation can enlarge the file.
  const int fd = file_.buffered.get();
  const auto size = static_cast<::off_t>(end());
  struct ::stat status = {};
  const bool is_larger = !file_.object && ::fstat(fd, &status) == 0 && status.st_size > size;
  if (is_larger && ::ftruncate(fd, size) != 0) return fault{system_code(errno), file_.place};
  file_.bytes = end();
  return {};
}

result<void> append_file::wait_for_all() {
  wait_until([this] { return in_flight_ == 0; });
  return write_status();
}

result<void> append_file::overwrite(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (auto status = wait_for_all(); !status) return status.error();
  // Bytes in the current block are changed only in memory, and are written with the block.
  const std::uint64_t in_block = std::min(offset + bytes.size(), std::max(offset, block_offset_));
  const auto before = static_cast<std::size_t>(in_block - offset);
  if (before > 0) {
    start({offset, static_cast<std::uint32_t>(before), bytes.data()}, std::nullopt);
    if (auto status = wait_for_all(); !status) return status.error();
  }
  const std::span<const std::byte> tail = bytes.subspan(before);
  if (tail.empty()) return {};
  std::memcpy(begin_of(block_) + (in_block - block_offset_), tail.data(), tail.size());
  return {};
}

}  // namespace ringload::inline v0
