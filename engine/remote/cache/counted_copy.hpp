// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ringload::inline v0::remote_http {

using copied_bytes = std::atomic<std::uint64_t>;

// Maximum total size of the copies for all files of a checkpoint. Received bytes are copied if the
// bytes cannot be hashed yet, because earlier bytes of the file are missing.
inline constexpr std::uint64_t copied_bytes_max = std::uint64_t{64} << 20;

// A copy of received bytes. One counter has the total size of all copies for a checkpoint.
class counted_copy {
 public:
  counted_copy() = default;
  counted_copy(counted_copy&&) noexcept = default;
  counted_copy& operator=(counted_copy&&) = delete;
  ~counted_copy() {
    if (total_) *total_ -= counted_;
  }

  // Returns false, without a copy, if `total` would exceed copied_bytes_max.
  bool assign(std::span<const std::byte> bytes, const std::shared_ptr<copied_bytes>& total) {
    if (total->fetch_add(bytes.size()) + bytes.size() > copied_bytes_max) {
      *total -= bytes.size();
      return false;
    }
    total_ = total;
    counted_ = bytes.size();
    bytes_.assign(bytes.begin(), bytes.end());
    return true;
  }
  std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
  std::shared_ptr<copied_bytes> total_;
  std::size_t counted_ = 0;
};

}  // namespace ringload::inline v0::remote_http
