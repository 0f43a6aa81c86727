// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes a file sequentially in blocks. Appended bytes are copied into the current block while full
// blocks are being written to the drive. Used by the public class `writer`.
//
// Saves have another mechanism: a save plans all its writes before the first write, and uses the
// workers and slots (I/O buffers) of a loader. A writer has no loader, receives its tensors one
// after another, and knows the size of a compressed component only after writing the component.
// Both mechanisms share write_fully().

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

#include "base/fault.hpp"
#include "base/mapping.hpp"
#include "io/object_io.hpp"
#include "io/pool_io.hpp"
#include "io/ring_io.hpp"
#include "io/threads.hpp"
#include "io/writers/write_fully.hpp"
#include "io/writers/written_file.hpp"

namespace ringload::inline v0 {

// One thread must create, use and destroy the object. The thread runs the event loop while waiting.
class append_file {
 public:
  static constexpr std::size_t block_bytes = std::size_t{4} << 20;
  // One block is filled while the other blocks are in flight.
  static constexpr std::uint32_t blocks = 6;

  // The object continues the file at `begin`, which must be the end of the file's contents. After
  // `stop` is set, the object writes nothing more, and reports no fault for the missing bytes.
  // `file` and `stop` must outlive this object.
  static result<std::unique_ptr<append_file>> make(written_file& file, std::uint64_t begin,
                                                   const std::atomic<bool>& stop);

  append_file(const append_file&) = delete;
  append_file& operator=(const append_file&) = delete;
  // Waits until no write is in flight.
  ~append_file();

  // Waits while all blocks are in flight. Returns the fault of any earlier write.
  result<void> append(std::span<const std::byte> bytes);
  result<void> pad_to(std::uint64_t offset);
  result<void> overwrite(std::uint64_t offset, std::span<const std::byte> bytes);
  // Writes the remaining bytes and waits for all writes. The file then ends at end().
  result<void> finish();

  std::uint64_t end() const noexcept { return block_offset_ + filled_; }
  // Number of bytes that were written with O_DIRECT. The number is final after finish().
  std::uint64_t bytes_direct() const noexcept { return bytes_direct_; }
  std::uint64_t writes() const noexcept { return writes_; }

 private:
  class pending_write;

  append_file(written_file& file, const std::atomic<bool>& stop);

  void open();
  result<void> load_partial_unit(std::uint64_t begin);
  result<void> next_block();
  void start(const file_block& extent, std::optional<std::size_t> block);
  static boost::asio::awaitable<void> write_out(pending_write write, file_block extent);
  template <class Condition>
  void wait_until(const Condition& met) noexcept;
  result<void> wait_for_all();
  result<void> write_status() const;
  std::byte* begin_of(std::size_t block) const noexcept {
    return memory_.data() + block * block_bytes;
  }

  written_file& file_;
  const std::atomic<bool>& stop_;
  mapping memory_;         // Memory of all blocks.
  std::size_t block_ = 0;  // The block that is being filled.
  // Offset of the current block in the file. A multiple of the unit of direct writes.
  std::uint64_t block_offset_ = 0;
  std::size_t filled_ = 0;
  std::array<bool, blocks> in_use_ = {};  // Blocks that are being written.
  std::uint32_t in_flight_ = 0;
  bool may_allocate_ = true;  // False after an allocation has failed.
  result<void> failure_;      // The first failure.
  std::uint64_t bytes_direct_ = 0;
  std::uint64_t writes_ = 0;

  boost::asio::io_context loop_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_guard_{
      loop_.get_executor()};
  threads pool_{2};
  pool_io buffered_{loop_, pool_};
  object_queue objects_{loop_};
  // Null if the kernel refuses io_uring or the file is not open with O_DIRECT.
  std::unique_ptr<ring> ring_;
  std::unique_ptr<ring_io> direct_;
};

}  // namespace ringload::inline v0
