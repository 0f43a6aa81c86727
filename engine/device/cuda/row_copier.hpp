// SPDX-License-Identifier: Apache-2.0
#pragma once

// Makes the copies of backend::copy_rows() on a stream of its own, because a copy in the default
// stream would wait for the work of the program.

#include <boost/system/error_code.hpp>
#include <cstdint>
#include <span>

#include "device/cuda/raii.hpp"
#include "device/row_copy.hpp"

namespace ringload::inline v0::cuda {

// cudaMemcpy2DAsync refuses larger strides: cudaDeviceProp::memPitch has this value on all devices.
inline constexpr std::uint64_t stride_max = 0x7fffffff;

class row_copier {
 public:
  // Rows with a stride of more than `large_stride` bytes are copied by a call for each row.
  explicit row_copier(std::uint64_t large_stride = stride_max) noexcept
      : large_stride_(large_stride) {}

  // The device must be the current device.
  boost::system::error_code open();

  // Returns when all copies are complete. The device of open() must be the current device.
  boost::system::error_code copy(std::span<const row_copy> copies);

 private:
  boost::system::error_code start(const row_copy& copy);

  const std::uint64_t large_stride_;
  stream stream_;
  event end_;
};

}  // namespace ringload::inline v0::cuda
