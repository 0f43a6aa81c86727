// SPDX-License-Identifier: Apache-2.0
#pragma once

// From the device to the host, for checks and for small tensors: on streams that wait for no other,
// for what is put on the default stream waits for the program's work, and through pinned memory.

#include <array>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/mapping.hpp"
#include "device/cuda/handles.hpp"
#include "device/cuda/pinned.hpp"

namespace ringload::inline v0::cuda {

// What one thread copies with: while one room is emptied, the other is filled.
class reader_rooms {
 public:
  static constexpr std::size_t room_bytes = std::size_t{1} << 20;

  boost::system::error_code open(const allocation_log& log);

  // Returns when the bytes are there; after a failure nothing is under way any more.
  boost::system::error_code copy(const std::byte* from, std::span<std::byte> into);

 private:
  static constexpr std::size_t rooms_count = 2;

  struct piece {
    const std::byte* from;
    std::span<std::byte> into;
    std::size_t room;
  };

  boost::system::error_code copy_pieces(const std::byte* from, std::span<std::byte> into);
  boost::system::error_code begin(const piece& one);
  boost::system::error_code finish(const piece& one);
  std::byte* room(std::size_t which) const noexcept { return memory_.data() + which * room_bytes; }

  mapping memory_;
  std::optional<pinned> pinned_;
  stream on_;
  std::array<event, rooms_count> filled_;
};

// As many of them as there are threads that read at once. Any thread for which the device is the
// current one.
class read_back_pool {
 public:
  // Before the first copy.
  void log_to(const allocation_log& log) { log_ = log; }

  boost::system::error_code copy(const std::byte* from, std::span<std::byte> into) noexcept;

 private:
  std::unique_ptr<reader_rooms> take_idle();

  allocation_log log_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<reader_rooms>> idle_;  // Guarded by the mutex.
};

}  // namespace ringload::inline v0::cuda
