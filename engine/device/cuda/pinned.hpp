// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory of the host that the device can copy from by itself, and that its kernels can read.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <span>
#include <vector>

#include "device/cuda/runtime.hpp"

namespace ringload::inline v0::cuda {

class pinned {
 public:
  explicit pinned(std::span<std::byte> memory) noexcept : memory_(memory) {}
  pinned(const pinned&) = delete;
  pinned& operator=(const pinned&) = delete;
  ~pinned() {
    for (std::size_t at = 0; at < pinned_bytes_; at += piece_bytes) {
      (void)code_of(cudaHostUnregister(memory_.data() + at));
    }
  }

  boost::system::error_code pin() {
    on_device_.reserve(memory_.size() / piece_bytes + 1);
    while (pinned_bytes_ < memory_.size()) {
      std::byte* const piece = memory_.data() + pinned_bytes_;
      const std::size_t bytes = std::min(memory_.size() - pinned_bytes_, piece_bytes);
      if (auto failed = code_of(cudaHostRegister(piece, bytes, cudaHostRegisterMapped))) {
        return failed;
      }
      pinned_bytes_ += bytes;
      void* there = nullptr;
      if (auto failed = code_of(cudaHostGetDevicePointer(&there, piece, 0))) return failed;
      on_device_.push_back(static_cast<const std::byte*>(there));
    }
    return {};
  }

  // The address by which kernels know a slot, which need not be the host's. A slot lies in one
  // piece: both sizes are powers of two.
  const std::byte* on_device(const std::byte* slot) const noexcept {
    const auto at = static_cast<std::size_t>(slot - memory_.data());
    return on_device_[at / piece_bytes] + at % piece_bytes;
  }

 private:
  // Registered in pieces: some kernels refuse to pin more than 2 GB in one call.
  static constexpr std::size_t piece_bytes = std::size_t{1} << 30;

  const std::span<std::byte> memory_;
  std::size_t pinned_bytes_ = 0;
  std::vector<const std::byte*> on_device_;  // By piece.
};

}  // namespace ringload::inline v0::cuda
