// SPDX-License-Identifier: Apache-2.0
#pragma once

// Copies bytes that are not in a slot (I/O buffer) to the device, such as decoded bytes. Each
// object has two pinned buffers, called rooms: the calling thread fills one room while the device
// copies from the other room. Each object also has its own stream, so that its copies do not
// involve the engine thread.
//
// The device must be current for open() and the destructor. start() and finish() select the device.

#include <array>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/mapping.hpp"
#include "device/backend.hpp"
#include "device/cuda/pinned.hpp"
#include "device/cuda/raii.hpp"
#include "device/cuda/scatter_plan.hpp"
#include "device/cuda/stream_slot.hpp"

namespace ringload::inline v0::cuda {

class upload_rooms final : public uploader {
 public:
  static constexpr std::size_t room_bytes = std::size_t{1} << 20;

  // If the kernels cannot run on the device, `no_kernels` is the reason.
  upload_rooms(int device, boost::system::error_code no_kernels, const allocation_log& log)
      : device_(device), no_kernels_(no_kernels), log_(log) {}

  boost::system::error_code open();

  boost::system::error_code start(const copy_operation& op) override;
  boost::system::error_code finish() override;

  int device() const noexcept { return device_; }
  bool has_failed() const noexcept { return static_cast<bool>(failed_); }

 private:
  static constexpr std::size_t rooms_count = 2;

  boost::system::error_code start_split(const copy_operation& op, const copy_op& copy);
  boost::system::error_code start_in_room(const copy_operation& op);
  boost::system::error_code empty_room(std::size_t room);
  boost::system::error_code launch(const copy_operation& op, std::size_t room);
  std::byte* room_at(std::size_t room) const noexcept { return memory_.data() + room * room_bytes; }

  const int device_;
  const boost::system::error_code no_kernels_;
  const allocation_log log_;
  mapping memory_;
  std::optional<pinned> pinned_;
  copy_stream stream_;
  bool has_staging_ = false;  // True if the allocation of the staging buffer was tried.
  std::array<event, rooms_count> ended_;
  std::array<bool, rooms_count> running_ = {};
  std::size_t next_room_ = 0;
  boost::system::error_code failed_;  // The first failure.
  // Temporary lists. These lists are members, so that their memory is reused.
  std::vector<copy_op> copies_;
  transfer transfer_;
  std::vector<box_piece> boxes_;
};

// The idle upload_rooms objects of a device. take() and put() are thread-safe.
class upload_pool {
 public:
  // Returns an idle object. If no object is idle, selects the device and creates an object.
  result<std::unique_ptr<upload_rooms>> take(int device, boost::system::error_code no_kernels,
                                             const allocation_log& log);
  // Keeps `rooms` for the next take(). If has_failed() is true, a thread of the library frees
  // `rooms` instead.
  void put(std::unique_ptr<upload_rooms> rooms) noexcept;
  // A thread of the library frees the idle objects of the device. Must not be called at the same
  // time as take() or put().
  void clear(int device) noexcept;

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<upload_rooms>> idle_;  // Guarded by the mutex.
};

}  // namespace ringload::inline v0::cuda
