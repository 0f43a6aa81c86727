// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes the two rows of an allocation_log for one allocation. The owner of the memory must
// release() it just before freeing the memory, because another thread may then get the same
// address.

#include <cstdint>
#include <memory>
#include <ringload/allocation_log.hpp>
#include <ringload/export.hpp>
#include <utility>

namespace ringload::inline v0 {

// Exported for ringload_cuda.
class RINGLOAD_EXPORT logged_allocation {
 public:
  struct calls {
    const char* taken;
    const char* released;
  };

  logged_allocation() noexcept = default;
  // Writes the row of the allocation, unless the log is empty or paused.
  logged_allocation(const allocation_log& log, calls names, const void* address,
                    std::uint64_t bytes) noexcept;
  logged_allocation(logged_allocation&& source) noexcept
      : log_(std::move(source.log_)),
        names_(source.names_),
        address_(source.address_),
        bytes_(source.bytes_) {}
  logged_allocation& operator=(logged_allocation&& source) noexcept {
    std::swap(log_, source.log_);
    std::swap(names_, source.names_);
    std::swap(address_, source.address_);
    std::swap(bytes_, source.bytes_);
    return *this;
  }
  ~logged_allocation() { release(); }

  // Writes the row of the release. Further calls do nothing.
  void release() noexcept;

 private:
  std::shared_ptr<detail::allocation_sink> log_;  // Null: no release row is due.
  calls names_ = {};
  const void* address_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace ringload::inline v0
