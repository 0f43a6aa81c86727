// SPDX-License-Identifier: Apache-2.0
#pragma once

// The two rows of an allocation_log that one piece of memory gets. Whoever owns the memory has one
// of these, and releases it just before the memory: afterwards its address may be somebody else's.

#include <cstdint>
#include <memory>
#include <ringload/allocation_log.hpp>
#include <ringload/export.hpp>
#include <utility>

namespace ringload::inline v0 {

// Shown to ringload_cuda too.
class RINGLOAD_EXPORT logged_allocation {
 public:
  struct calls {
    const char* taken;
    const char* released;
  };

  logged_allocation() noexcept = default;
  // Writes the row of the allocation, unless the log is empty or paused.
  logged_allocation(const allocation_log& in, calls by, const void* address,
                    std::uint64_t bytes) noexcept;
  logged_allocation(logged_allocation&& other) noexcept
      : in_(std::move(other.in_)), by_(other.by_), address_(other.address_), bytes_(other.bytes_) {}
  logged_allocation& operator=(logged_allocation&& other) noexcept {
    std::swap(in_, other.in_);
    std::swap(by_, other.by_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~logged_allocation() { release(); }

  // Writes the other row, once.
  void release() noexcept;

 private:
  std::shared_ptr<detail::allocation_sink> in_;  // Null: there is no row to follow.
  calls by_ = {};
  const void* address_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace ringload::inline v0
