// SPDX-License-Identifier: Apache-2.0
#include "writers/block_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "core/block.hpp"
#include "core/checked.hpp"

namespace ringload::inline v0 {

namespace {

// Allocated at once. Direct writes to what is allocated, and within the file's size, do not wait
// for each other.
constexpr std::uint64_t allocated_at_once = std::uint64_t{256} << 20;

// What direct writes are multiples of, in memory and in the file.
constexpr std::uint64_t direct_unit = ringload::block_bytes;

}  // namespace

// One write. Its end is counted however its coroutine ends, also if that is never begun.
class block_file::flight {
 public:
  flight(block_file& of, std::optional<std::size_t> block) noexcept : of_(&of), block_(block) {
    ++of.in_flight_;
    if (block) of.in_use_[*block] = true;
  }
  flight(flight&& other) noexcept
      : end(std::move(other.end)), of_(std::exchange(other.of_, nullptr)), block_(other.block_) {}
  flight& operator=(flight&& other) = delete;
  ~flight() {
    if (of_ == nullptr) return;
    --of_->in_flight_;
    if (block_) of_->in_use_[*block_] = false;
    if (of_->failure_ && !end.outcome) of_->failure_ = std::move(end.outcome);
  }

  block_file& of() const noexcept { return *of_; }

  write_end end = {fault(errc::memory_exceeded, {})};

 private:
  block_file* of_;
  std::optional<std::size_t> block_;
};

block_file::block_file(written_file& file, const std::atomic<bool>& stop)
    : file_(file), stop_(stop) {}

result<std::unique_ptr<block_file>> block_file::make(written_file& file, std::uint64_t begin,
                                                     const std::atomic<bool>& stop) {
  std::unique_ptr<block_file> made(new block_file(file, stop));
  auto memory = mapping::make(block_bytes * blocks, page_kind::transparent);
  if (!memory) return memory.error();
  made->memory_ = std::move(*memory);
  made->open();
  if (auto good = made->take_up(begin); !good) return good.error();
  return made;
}

void block_file::open() {
  // Of what is not written directly the ring would have nothing to do.
  if (file_.direct) {
    if (auto made = ring::make(loop_, blocks + 2)) ring_ = std::move(*made);
  }
  writers_ = make_block_writers(loop_, ring_.get(), pool_);
}

block_file::~block_file() {
  wait_until([this] { return in_flight_ == 0; });
  if (ring_) ring_->stop();
  stay_.reset();
  wait_until([this] { return loop_.stopped(); });
}

// Also without memory: what is lost then is said by its flight.
template <class Condition>
void block_file::wait_until(const Condition& met) noexcept {
  while (!met()) {
    try {
      loop_.run_one();
    } catch (const std::exception&) {
    }
  }
}

// The first block begins where direct writes may, so it holds what the file has before `begin`.
result<void> block_file::take_up(std::uint64_t begin) {
  block_offset_ = round_down(begin, direct_unit);
  const auto before = static_cast<std::size_t>(begin - block_offset_);
  while (filled_ < before) {
    const ::ssize_t n = ::pread(file_.buffered.get(), memory_.data() + filled_, before - filled_,
                                static_cast<::off_t>(block_offset_ + filled_));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fault{system_code(n < 0 ? errno : EIO), file_.place};
    filled_ += static_cast<std::size_t>(n);
  }
  return {};
}

boost::asio::awaitable<void> block_file::write_out(flight one, block_of_file what) {
  block_file& of = one.of();
  const bool direct = can_be_direct(of.file_, what.file_offset, what.bytes) &&
                      reinterpret_cast<std::uintptr_t>(what.from) % direct_unit == 0;
  co_await write_whole(of.writers_, of.file_, what, direct, of.stop_, one.end);
  if (one.end.direct && one.end.whole) of.bytes_direct_ += what.bytes;
}

// Begins a write, of a block or of other memory.
void block_file::start(const block_of_file& what, std::optional<std::size_t> block) {
  flight one(*this, block);
  ++writes_;
  try {
    boost::asio::co_spawn(loop_, write_out(std::move(one), what), boost::asio::detached);
    loop_.poll();
  } catch (const std::exception&) {
    // Without memory: the flight has said so.
  }
}

result<void> block_file::answer() const {
  if (failure_) return {};
  const fault& why = failure_.error();
  return why.where.empty() ? why.in(file_.place) : why;
}

result<void> block_file::next_block() {
  // Where it cannot be done, the write that finds no room says so.
  if (end() > file_.bytes) (void)allocate_up_to(file_, end() + allocated_at_once);
  start({block_offset_, static_cast<std::uint32_t>(filled_), begin_of(block_)}, block_);
  block_offset_ += filled_;
  filled_ = 0;
  block_ = (block_ + 1) % blocks;
  wait_until([this] { return !in_use_[block_]; });
  return answer();
}

result<void> block_file::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t step = std::min(bytes.size(), block_bytes - filled_);
    std::memcpy(begin_of(block_) + filled_, bytes.data(), step);
    filled_ += step;
    bytes = bytes.subspan(step);
    if (filled_ < block_bytes) continue;
    if (auto good = next_block(); !good) return good.error();
  }
  return {};
}

result<void> block_file::pad_to(std::uint64_t offset) {
  while (end() < offset) {
    const auto step =
        static_cast<std::size_t>(std::min<std::uint64_t>(offset - end(), block_bytes - filled_));
    std::memset(begin_of(block_) + filled_, 0, step);
    filled_ += step;
    if (filled_ < block_bytes) continue;
    if (auto good = next_block(); !good) return good.error();
  }
  return {};
}

result<void> block_file::finish() {
  // Whole units go directly; what is left beyond them may not.
  const auto whole = static_cast<std::uint32_t>(round_down<std::uint64_t>(filled_, direct_unit));
  const auto rest = static_cast<std::uint32_t>(filled_ - whole);
  if (whole > 0) start({block_offset_, whole, begin_of(block_)}, block_);
  if (rest > 0) start({block_offset_ + whole, rest, begin_of(block_) + whole}, block_);
  if (auto good = wait_for_all(); !good) return good.error();
  if (file_.bytes > end()) {
    if (::ftruncate(file_.buffered.get(), static_cast<::off_t>(end())) != 0) {
      return fault{system_code(errno), file_.place};
    }
  }
  file_.bytes = end();
  return {};
}

result<void> block_file::wait_for_all() {
  wait_until([this] { return in_flight_ == 0; });
  return answer();
}

result<void> block_file::overwrite(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (auto good = wait_for_all(); !good) return good.error();
  // What lies in the current block is written with it.
  const std::uint64_t here = std::min(offset + bytes.size(), std::max(offset, block_offset_));
  const auto before = static_cast<std::size_t>(here - offset);
  if (before > 0) {
    start({offset, static_cast<std::uint32_t>(before), bytes.data()}, std::nullopt);
    if (auto good = wait_for_all(); !good) return good.error();
  }
  const std::span<const std::byte> rest = bytes.subspan(before);
  if (rest.empty()) return {};
  std::memcpy(begin_of(block_) + (here - block_offset_), rest.data(), rest.size());
  return {};
}

}  // namespace ringload::inline v0
