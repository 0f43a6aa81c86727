// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs kernels that change elements in device memory, or compute the CRC-32C of device memory. The
// values of an element_change are uploaded to a buffer on the device, slice by slice. A slice
// consists of whole tiles: see element_change::tile_elements.

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/crc32c_join.hpp"
#include "device/backend.hpp"
#include "device/cuda/copy_to_host.hpp"
#include "device/cuda/raii.hpp"
#include "device/cuda/upload_rooms.hpp"
#include "device/element_change.hpp"

namespace ringload::inline v0::cuda {

// Only one thread at a time may use the object. The device that was current in open() must be the
// current device in each call.
class element_changer {
 public:
  static constexpr std::size_t buffer_bytes = std::size_t{8} << 20;

  element_changer() noexcept;

  // Fails with cudaErrorMemoryAllocation if the device has no memory for the buffer.
  boost::system::error_code open(const allocation_log& log);

  // Changes the elements of the tiles before `tiles_end`. `tiles_changed` receives the number of
  // tiles that are changed, also after a failure. When the function returns, no work is running.
  boost::system::error_code change(const element_change& change, std::uint64_t tiles_end,
                                   uploader& upload, std::uint64_t& tiles_changed);

  // Sets `crc` to the CRC-32C of `bytes`.
  boost::system::error_code sum(std::span<const std::byte> bytes, read_back_pool& readers,
                                std::uint32_t& crc);

 private:
  struct slice;

  boost::system::error_code change_slice(const element_change& change, const slice& tiles,
                                         uploader& upload, bool& is_changed);
  boost::system::error_code upload_slice(const element_change& change, const slice& tiles,
                                         uploader& upload);
  // Waits for all work of the stream. Returns `failed`, or the failure of the wait.
  boost::system::error_code finish(boost::system::error_code failed);

  stream stream_;
  event end_;
  device_buffer buffer_;
  const crc32c_join join_chunk_;
  // Temporary lists. These lists are members, so that their memory is reused.
  std::vector<std::uint32_t> begins_;
  std::vector<std::uint32_t> chunk_crcs_;
};

// Owns the element_changer of a device, and opens it at the first change or sum. These functions
// make `device` the current device. Thread-safe.
class shared_element_changer {
 public:
  // Implements backend::change_elements().
  result<bool> change(int device, const element_change& change, upload_pool& uploaders,
                      const allocation_log& log);
  // Implements backend::crc32c_of().
  result<std::optional<std::uint32_t>> crc32c_of(int device, std::span<const std::byte> bytes,
                                                 read_back_pool& readers,
                                                 const allocation_log& log);
  bool is_open() const noexcept { return changer_ != nullptr; }

 private:
  // Returns false if the device has no memory for the buffer.
  result<bool> open(int device, const allocation_log& log);
  boost::system::error_code change_tiles(int device, const element_change& change,
                                         std::uint64_t tiles_end, upload_pool& uploaders,
                                         const allocation_log& log, std::uint64_t& tiles_changed);

  std::mutex mutex_;
  std::unique_ptr<element_changer> changer_;  // Guarded by the mutex.
};

}  // namespace ringload::inline v0::cuda
