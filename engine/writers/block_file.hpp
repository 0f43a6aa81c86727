// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes a file from front to back, in blocks: what is appended is copied into the current block,
// and full blocks are on their way to the drive meanwhile.

#include <array>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "core/fault.hpp"
#include "core/mapping.hpp"
#include "readers/threads.hpp"
#include "ring/ring.hpp"
#include "writers/write_whole.hpp"
#include "writers/written_file.hpp"

namespace ringload::inline v0 {

// Made, used and destroyed by one thread, in which its loop runs while it waits.
class block_file {
 public:
  static constexpr std::size_t block_bytes = std::size_t{4} << 20;
  static constexpr std::uint32_t blocks = 6;  // One is filled, the others are in flight.

  // Goes on at `begin` of the file, which has nothing behind it. Once `stop` is set, nothing more
  // is written. Both outlive this.
  static result<std::unique_ptr<block_file>> make(written_file& file, std::uint64_t begin,
                                                  const std::atomic<bool>& stop);

  block_file(const block_file&) = delete;
  block_file& operator=(const block_file&) = delete;
  // Waits until nothing is in flight.
  ~block_file();

  // Blocks while all blocks are in flight. Fails with what a write before failed with.
  result<void> append(std::span<const std::byte> bytes);
  // Zeros, up to there.
  result<void> pad_to(std::uint64_t offset);
  // Writes over bytes that are before end() already.
  result<void> overwrite(std::uint64_t offset, std::span<const std::byte> bytes);
  // Writes what is left, and waits until all is written. The file then ends at end().
  result<void> finish();

  std::uint64_t end() const noexcept { return block_offset_ + filled_; }
  // That were written past the page cache. Once it is finished.
  std::uint64_t bytes_direct() const noexcept { return bytes_direct_; }
  std::uint64_t writes() const noexcept { return writes_; }

 private:
  class flight;

  block_file(written_file& file, const std::atomic<bool>& stop);

  void open();
  result<void> take_up(std::uint64_t begin);
  result<void> next_block();
  void start(const block_of_file& what, std::optional<std::size_t> block);
  static boost::asio::awaitable<void> write_out(flight one, block_of_file what);
  template <class Condition>
  void wait_until(const Condition& met) noexcept;
  result<void> wait_for_all();
  result<void> answer() const;
  std::byte* begin_of(std::size_t block) const noexcept {
    return memory_.data() + block * block_bytes;
  }

  written_file& file_;
  const std::atomic<bool>& stop_;
  mapping memory_;                  // Of all blocks.
  std::size_t block_ = 0;           // That is being filled.
  std::uint64_t block_offset_ = 0;  // In the file; a multiple of what direct writes are.
  std::size_t filled_ = 0;
  std::array<bool, blocks> in_use_ = {};  // By a write.
  std::uint32_t in_flight_ = 0;
  result<void> failure_;  // The first.
  std::uint64_t bytes_direct_ = 0;
  std::uint64_t writes_ = 0;

  boost::asio::io_context loop_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> stay_{
      loop_.get_executor()};
  threads pool_{2};
  std::unique_ptr<ring> ring_;  // Null: it is refused, and the pool writes everything.
  block_writers writers_;
};

}  // namespace ringload::inline v0
