// SPDX-License-Identifier: Apache-2.0
#pragma once

// Copies from the device to the host for checks and small tensors, through pinned memory. The
// streams wait for no other stream: work on the default stream would wait for the program's work.

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

// The buffers of one copying thread: one room is filled while the other is emptied.
class reader_rooms {
 public:
  static constexpr std::size_t room_bytes = std::size_t{1} << 20;

  boost::system::error_code open(const allocation_log& log);

  // Returns when the bytes have arrived. After a failure no copy is running.
  boost::system::error_code copy(const std::byte* from, std::span<std::byte> into);

 private:
  static constexpr std::size_t rooms_count = 2;

  struct piece {
    const std::byte* from;
    std::span<std::byte> into;
    std::size_t room;
  };

  boost::system::error_code copy_pieces(const std::byte* from, std::span<std::byte> into);
  boost::system::error_code begin(const piece& part);
  boost::system::error_code finish(const piece& part);
  std::byte* room(std::size_t index) const noexcept { return memory_.data() + index * room_bytes; }

  mapping memory_;
  std::optional<pinned> pinned_;
  stream stream_;
  std::array<event, rooms_count> filled_;
};

// Has as many entries as threads that copy at once. Thread-safe; the device must be the current one
// of the thread.
class read_back_pool {
 public:
  // Must be called before the first copy.
  void log_to(const allocation_log& log) { log_ = log; }

  boost::system::error_code copy(const std::byte* from, std::span<std::byte> into) noexcept;

 private:
  std::unique_ptr<reader_rooms> take_idle();

  allocation_log log_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<reader_rooms>> idle_;  // Guarded by the mutex.
};

}  // namespace ringload::inline v0::cuda
