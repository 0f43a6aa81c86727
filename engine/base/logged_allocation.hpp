// SPDX-License-Identifier: Apache-2.0
#pragma once

// Logs one allocation in an allocation_log: one row when the memory is allocated, and one row when
// the memory is freed. The owner must call release() before freeing the memory. Otherwise another
// thread could allocate the same address, and log the new allocation before this release.

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
  // Writes the row of the allocation. Writes nothing if the log has no sink or is paused.
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

  // Writes the row of the release. Only the first call writes a row.
  void release() noexcept;
  // Must be called if the memory is never freed. A later release() writes no row.
  void forget() noexcept { log_ = nullptr; }

 private:
  std::shared_ptr<detail::allocation_sink> log_;  // Null if release() must not write a row.
  calls names_ = {};
  const void* address_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace ringload::inline v0
