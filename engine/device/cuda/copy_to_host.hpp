// SPDX-License-Identifier: Apache-2.0
#pragma once

// Copies from device memory to host memory through pinned buffers. Used to check tensors and to
// read small tensors. The copies have their own streams, because a copy in the default stream would
// wait for the work of the program.

#include <array>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/mapping.hpp"
#include "device/cuda/pinned.hpp"
#include "device/cuda/raii.hpp"

namespace ringload::inline v0::cuda {

// The two pinned buffers, called rooms, of one copying thread. The device fills one room while the
// thread copies bytes out of the other room.
class reader_rooms {
 public:
  static constexpr std::size_t room_bytes = std::size_t{1} << 20;

  boost::system::error_code open(const allocation_log& log);

  // Returns when all bytes are in `into`. If `is_pinned` is set, `into` is pinned memory and the
  // device writes to `into` directly. After a failure, no copy is running.
  boost::system::error_code copy(const std::byte* from, std::span<std::byte> into, bool is_pinned);

 private:
  static constexpr std::size_t rooms_count = 2;

  struct piece {
    const std::byte* from;
    std::span<std::byte> into;
    std::size_t room;
  };

  boost::system::error_code copy_directly(const std::byte* from, std::span<std::byte> into);
  boost::system::error_code copy_pieces(const std::byte* from, std::span<std::byte> into);
  boost::system::error_code begin(const piece& part);
  boost::system::error_code finish(const piece& part);
  std::byte* room(std::size_t index) const noexcept { return memory_.data() + index * room_bytes; }

  mapping memory_;
  std::optional<pinned> pinned_;
  stream stream_;
  std::array<event, rooms_count> filled_;
};

// A pool of reader_rooms objects. Each copy uses one object. The pool has at most as many objects
// as the largest number of copies that ran at the same time. Thread-safe. The device of
// the copied memory must be the current device of the calling thread.
class read_back_pool {
 public:
  // Must be called before the first copy.
  void log_to(const allocation_log& log) { log_ = log; }

  boost::system::error_code copy(const std::byte* from, std::span<std::byte> into,
                                 bool is_pinned = false) noexcept;

  bool has_rooms() noexcept {
    const std::lock_guard lock(mutex_);
    return !idle_.empty();
  }

 private:
  std::unique_ptr<reader_rooms> take_idle();
  // Keeps the rooms for the next copy. If there is no memory for the list, frees the rooms.
  void keep(std::unique_ptr<reader_rooms> rooms) noexcept;

  allocation_log log_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<reader_rooms>> idle_;  // Guarded by the mutex.
};

}  // namespace ringload::inline v0::cuda
