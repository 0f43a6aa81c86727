// SPDX-License-Identifier: Apache-2.0
#pragma once

// Anonymous memory of small or huge pages. In measurements, huge pages made direct reads 2.6 times
// as fast. No other property of the memory changed the speed.

#include <atomic>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ringload/export.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "base/fault.hpp"
#include "base/logged_allocation.hpp"

namespace ringload::inline v0 {

inline constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20;

// Returns the size of the kernel's pages: 4, 16 or 64 KiB.
std::uint64_t system_page_bytes() noexcept;

enum class page_kind : std::uint8_t { small, transparent, hugetlb };

std::string_view name(page_kind kind) noexcept;

// A registration of mapped memory with the driver of a device. The registration must end before the
// memory is unmapped.
class memory_registration {
 public:
  virtual ~memory_registration() = default;

  // Returns true if a device can copy the whole range from the memory with one copy. Thread-safe.
  virtual bool covers(std::span<const std::byte> range) const noexcept = 0;

  // Ends the registration, unmaps `memory`, and deletes this object. The driver may take long, so
  // another thread may do this work after the function has returned.
  virtual void end(std::span<std::byte> memory) noexcept = 0;
};

// Exported for ringload_cuda.
class RINGLOAD_EXPORT mapping {
 public:
  mapping() = default;
  mapping(mapping&& source) noexcept
      : memory_(std::exchange(source.memory_, {})),
        registration_(source.registration_.exchange(nullptr)),
        logged_(std::move(source.logged_)) {}
  mapping& operator=(mapping&& source) noexcept;
  ~mapping();

  // Creates zeroed memory without populating pages. Rounds the size up to whole small pages, or to
  // whole huge pages for `hugetlb`. Memory of 2 MiB or more is aligned to 2 MiB. `hugetlb` fails if
  // too few reserved pages are free. `transparent` is only a hint to the kernel.
  static result<mapping> make(std::uint64_t bytes, page_kind kind);

  // Takes ownership of an existing mapping.
  static mapping adopt(std::span<std::byte> mapped) noexcept { return mapping(mapped); }

  // Writes a log row for the allocation now, and a row for the release when the memory is unmapped.
  void note_in(const allocation_log& log) noexcept {
    logged_ = logged_allocation(log, {"mmap", "munmap"}, data(), bytes());
  }

  // Returns null if the memory is not registered. Thread-safe.
  const memory_registration* registration() const noexcept { return registration_; }
  // Must be called at most once.
  void add_registration(std::unique_ptr<memory_registration> added) noexcept {
    registration_ = added.release();
  }

  std::byte* data() const noexcept { return memory_.data(); }
  std::uint64_t bytes() const noexcept { return memory_.size(); }
  std::span<std::byte> span() const noexcept { return memory_; }

 private:
  explicit mapping(std::span<std::byte> memory) noexcept : memory_(memory) {}

  std::span<std::byte> memory_;
  std::atomic<memory_registration*> registration_ = nullptr;  // Owned by this object.
  logged_allocation logged_;
};

// Returns the kind of the pages of `memory` that are present. The result is `transparent` if at
// least half of the present bytes are on transparent huge pages.
page_kind kind_of(std::span<const std::byte> memory);

// kind_of() for kernels before Linux 6.11. The kernel visits all pages of the process, which takes
// 12 ms for each GiB of small pages.
page_kind kind_by_smaps(std::span<const std::byte> memory);

// Replaces the pages of `memory` with new, zeroed pages at the same addresses. `kind` must be
// `small` or `transparent`. `memory` must consist of whole huge pages.
boost::system::error_code map_again(std::span<std::byte> memory, page_kind kind) noexcept;

// Makes the pages of `memory` present and writable (MADV_POPULATE_WRITE), so that later writes
// cause no page faults. Does nothing before Linux 5.14. Thread-safe. Exported for ringload_cuda.
RINGLOAD_EXPORT boost::system::error_code populate(std::span<std::byte> memory) noexcept;

// Returns the number of bytes of `memory` that are not present, because they were never written or
// are swapped out. `memory` must be anonymous memory. The result is an estimate: the function
// checks one small page in each 2 MiB.
std::uint64_t absent_bytes(std::span<const std::byte> memory) noexcept;

}  // namespace ringload::inline v0
