// SPDX-License-Identifier: Apache-2.0
#pragma once

// Counts the bytes that are allocated or mapped for the tensors of a loader. An allocation is
// counted until the last tensor in this allocation is destroyed. All functions are thread-safe.

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace ringload::inline v0::detail {

class memory_account {
 public:
  void add(std::uint64_t bytes) noexcept {
    ++allocations_;
    const std::uint64_t current = bytes_ += bytes;
    std::uint64_t peak = peak_;
    while (current > peak && !peak_.compare_exchange_weak(peak, current)) {
    }
  }
  void remove(std::uint64_t bytes) noexcept {
    --allocations_;
    bytes_ -= bytes;
  }

  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t bytes_peak() const noexcept { return peak_; }
  std::uint64_t allocations() const noexcept { return allocations_; }

 private:
  std::atomic<std::uint64_t> bytes_ = 0;
  std::atomic<std::uint64_t> peak_ = 0;
  std::atomic<std::uint64_t> allocations_ = 0;
};

struct memory_accounts {
  std::shared_ptr<memory_account> tensors = std::make_shared<memory_account>();
  std::shared_ptr<memory_account> mapped = std::make_shared<memory_account>();
};

class accounted_bytes {
 public:
  accounted_bytes(std::shared_ptr<memory_account> account, std::uint64_t bytes) noexcept
      : account_(std::move(account)), bytes_(bytes) {
    if (account_) account_->add(bytes_);
  }
  accounted_bytes(const accounted_bytes&) = delete;
  accounted_bytes& operator=(const accounted_bytes&) = delete;
  ~accounted_bytes() {
    if (account_) account_->remove(bytes_);
  }

 private:
  const std::shared_ptr<memory_account> account_;
  const std::uint64_t bytes_;
};

}  // namespace ringload::inline v0::detail
