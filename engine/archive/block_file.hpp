// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes a file from front to back, in blocks: what is appended is copied into the current block,
// and full blocks are on their way to the drive meanwhile, directly where the file system can.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/fault.hpp"
#include "core/mapping.hpp"
#include "core/unique_fd.hpp"
#include "readers/threads.hpp"

namespace ringload::inline v0 {

// Used by one thread; only the blocks are written by others.
class block_file {
 public:
  static constexpr std::size_t block_bytes = std::size_t{4} << 20;
  static constexpr std::uint32_t blocks = 6;  // One is filled, the others are in flight.

  // Goes on at `begin` of the file, which ends there, and which stays open. `path` is for messages.
  static result<std::unique_ptr<block_file>> make(int fd, std::string path, std::uint64_t begin);

  block_file(const block_file&) = delete;
  block_file& operator=(const block_file&) = delete;
  // Waits until nothing is in flight.
  ~block_file();

  // Allocates room for a file that will end there; ENOSPC where there is none. Without it room is
  // allocated in steps, and a full disk is found when it is.
  result<void> reserve(std::uint64_t end);
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

 private:
  struct write_job;

  block_file(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  result<void> take_up(std::uint64_t begin);
  result<void> next_block();
  bool allocate(std::uint64_t end);
  void write(std::size_t block, std::uint64_t offset, std::size_t bytes);
  int write_block(std::span<const std::byte> bytes, std::uint64_t offset);
  result<void> wait_for_all();
  fault failure(int code) const;

  const int fd_;
  const std::string path_;
  unique_fd direct_;  // Empty: all goes through the page cache.
  mapping memory_;    // Of all blocks.

  // Touched by the user's thread only.
  std::size_t block_ = 0;           // That is being filled.
  std::uint64_t block_offset_ = 0;  // In the file; a multiple of direct_unit.
  std::size_t filled_ = 0;
  std::uint64_t allocated_ = 0;  // Up to here: the file's size until it is finished.

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by the mutex.
  std::vector<bool> in_flight_ = std::vector<bool>(blocks);
  int error_ = 0;  // The first, of errno.
  std::uint64_t bytes_direct_ = 0;
  bool direct_works_ = true;

  threads writers_{2};  // Last: they use the above until they are joined.
};

}  // namespace ringload::inline v0
