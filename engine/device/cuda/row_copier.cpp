// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/row_copier.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ringload::inline v0::cuda {

using boost::system::error_code;

namespace {

cudaError_t copy_row(const row_copy& copy, std::uint64_t row, cudaStream_t on) {
  return cudaMemcpyAsync(copy.into + row * copy.into_stride, copy.from + row * copy.from_stride,
                         copy.row_bytes, cudaMemcpyDeviceToDevice, on);
}

}  // namespace

error_code row_copier::open() {
  if (auto failed = end_.make()) return failed;
  return stream_.open();
}

error_code row_copier::copy(std::span<const row_copy> copies) {
  error_code failed;
  for (const row_copy& each : copies) {
    if (!failed && !each.is_empty()) failed = start(each);
  }
  if (!failed) failed = end_.record(stream_.get());
  if (!failed) failed = end_.wait();
  // Waits for the copies in flight, because the caller may free the memory after an error.
  if (failed) (void)code_of(cudaStreamSynchronize(stream_.get()));
  return failed;
}

error_code row_copier::start(const row_copy& copy) {
  if (copy.from == nullptr) {
    return code_of(cudaMemsetAsync(copy.into, 0, copy.row_bytes, stream_.get()));
  }
  if (copy.rows > 1 && std::max(copy.from_stride, copy.into_stride) <= large_stride_) {
    return code_of(cudaMemcpy2DAsync(copy.into, copy.into_stride, copy.from, copy.from_stride,
                                     copy.row_bytes, copy.rows, cudaMemcpyDeviceToDevice,
                                     stream_.get()));
  }
  error_code failed;
  for (std::uint64_t row = 0; row < copy.rows && !failed; ++row) {
    failed = code_of(copy_row(copy, row, stream_.get()));
  }
  return failed;
}

}  // namespace ringload::inline v0::cuda
