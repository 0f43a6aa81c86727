// SPDX-License-Identifier: Apache-2.0
#pragma once

// A log of the memory that a loader allocates and frees, for finding leaks.

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <ringload/export.hpp>

namespace ringload::inline v0 {

namespace detail {
class allocation_sink;
}

/// Writes a CSV row for each allocation and each release of a loader: memory for tensors, slots,
/// and auxiliary GPU memory. Small memory of C++ objects is not logged.
///
/// The columns are timestamp (seconds since 1970), call, pointer, size and stack. The calls are
/// `mmap` and `munmap` for host memory, `new` and `delete` for host memory of less than a few
/// pages, `pin` and `unpin` for a slot, `cudaMalloc` and `cudaFree` for GPU memory. A release has
/// the size of its allocation. The frames of the calling thread's stack are separated by
/// semicolons, innermost first. If the C library cannot provide the frames, the column is empty.
/// Memory in the free list (`loader_options::cached_bytes`) is not released.
///
/// A handle: copies write to the same destination. The destination is closed with the last copy and
/// the last logged memory. Tensors may outlive their loader. The functions may be called from any
/// thread.
class RINGLOAD_EXPORT allocation_log {
 public:
  /// An empty handle, which writes nothing.
  allocation_log() noexcept = default;
  /// Creates or replaces the file. Each row is written to the file at once. Throws
  /// `ringload::error`.
  explicit allocation_log(const std::filesystem::path& file);
  /// Writes to `sink`, which must outlive all copies and all memory of the loader. Any thread of
  /// the loader may write, one row at a time.
  explicit allocation_log(std::ostream& sink);

  explicit operator bool() const noexcept { return to_ != nullptr; }

  /// While an object of this class exists, allocations are not logged, and their later releases are
  /// not logged either. Releases of logged allocations are always logged, so the rows always
  /// balance.
  class [[nodiscard]] pause {
   public:
    explicit pause(const allocation_log& log) noexcept;
    pause(const pause&) = delete;
    pause& operator=(const pause&) = delete;
    ~pause();

   private:
    const std::shared_ptr<detail::allocation_sink> sink_;
  };

  /// Returns whether a row could not be written, because the disk is full or the sink failed.
  bool failed() const noexcept;

  const std::shared_ptr<detail::allocation_sink>& sink() const noexcept { return to_; }

 private:
  std::shared_ptr<detail::allocation_sink> to_;
};

}  // namespace ringload::inline v0
