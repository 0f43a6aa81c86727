// SPDX-License-Identifier: Apache-2.0
#pragma once

// A record of the memory that a loader takes and gives back, for who looks for what holds it.

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <ringload/export.hpp>

namespace ringload::inline v0 {

namespace detail {
class allocation_sink;
}

/// Writes a row of CSV for each allocation and each release of a loader that is made with it:
/// memory for tensors, slots, and what a GPU needs besides. Not the small memory of C++ objects.
///
/// The columns are timestamp (seconds since 1970), call, pointer, size and stack. The calls are
/// `mmap` and `munmap` for memory of the host, `new` and `delete` for less than a few pages of it,
/// `pin` and `unpin` for a slot, `cudaMalloc` and
/// `cudaFree` for memory of a GPU. A release has the size of its allocation. The frames of the
/// calling thread's stack are separated by semicolons, innermost first; where the C library cannot
/// tell them the column is empty. Memory that is kept for the next load
/// (`loader_options::cached_bytes`) is not released.
///
/// A handle: copies write to the same place, which is closed with the last of them and with the
/// last memory that is in it; tensors may outlive their loader. Any thread.
class RINGLOAD_EXPORT allocation_log {
 public:
  /// Writes nothing.
  allocation_log() noexcept = default;
  /// Creates the file, or replaces it. Each row is in it as soon as it is written. Throws
  /// `ringload::error`.
  explicit allocation_log(const std::filesystem::path& file);
  /// Writes to `sink`, which must outlive all copies and all memory of the loader, in any of its
  /// threads, one row at a time.
  explicit allocation_log(std::ostream& sink);

  explicit operator bool() const noexcept { return to_ != nullptr; }

  /// As long as one of these lives, allocations are not written, and later their releases neither.
  /// The release of what was written is, so that the rows always balance.
  class [[nodiscard]] pause {
   public:
    explicit pause(const allocation_log& what) noexcept;
    pause(const pause&) = delete;
    pause& operator=(const pause&) = delete;
    ~pause();

   private:
    const std::shared_ptr<detail::allocation_sink> of_;
  };

  /// Whether a row could not be written: the disk is full, or the sink has failed.
  bool failed() const noexcept;

  const std::shared_ptr<detail::allocation_sink>& sink() const noexcept { return to_; }

 private:
  std::shared_ptr<detail::allocation_sink> to_;
};

}  // namespace ringload::inline v0
