// SPDX-License-Identifier: Apache-2.0
#pragma once

// A log of the memory that a loader allocates and frees. Use the log to find memory leaks.

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <ringload/detail/path_object.hpp>
#include <ringload/export.hpp>
#include <string_view>

namespace ringload::inline v0 {

namespace detail {
class allocation_sink;
}

/// A log in CSV. The log has one row for each time that a loader allocates or frees memory. The log
/// covers tensors, slots (pinned buffers) and auxiliary GPU memory. The log does not cover C++
/// objects such as handles and containers.
///
/// The columns are `timestamp` (seconds since 1970), `call`, `pointer`, `size` and `stack`. The row
/// of a release contains the size of the allocation. The column `call` has these values:
///
///   - `mmap`, `munmap`: host memory
///   - `new`, `delete`: small allocations in host memory
///   - `pin`, `unpin`: a slot
///   - `cudaMalloc`, `cudaFree`: GPU memory
///   - `cuMemCreate`, `cuMemRelease`: GPU memory of `shared_cuda_device()`
///
/// The column `stack` contains the stack frames of the calling thread, innermost first, separated
/// by semicolons. If the C library cannot provide the frames, the column is empty. Memory in the
/// free list of a loader (`loader_options::cached_bytes`) counts as allocated.
///
/// An allocation_log is a handle. Copies write to the same file or stream. The file is closed when
/// the last copy is destroyed and all logged memory is freed. Tensors may outlive their loader, so
/// the file may stay open after the loader is destroyed. All functions are thread-safe.
class RINGLOAD_EXPORT allocation_log {
 public:
  /// Creates an empty handle. An empty handle writes nothing.
  allocation_log() noexcept = default;
  /// Creates or replaces the file. Each row is written to the file immediately. Throws
  /// `ringload::error`. Fails with `errc::not_a_regular_file` if the path exists and is not a
  /// regular file, for example a FIFO.
  explicit allocation_log(std::string_view file);
  /// Creates or replaces the file at a `std::filesystem::path`.
  template <detail::path_object Path>
  explicit allocation_log(const Path& file) : allocation_log(std::string_view(file.native())) {}
  /// Writes to `sink`. The caller must keep `sink` alive until all copies of the log are destroyed
  /// and all memory of the loader is freed. All threads of the loader may write to `sink`, but only
  /// one thread writes at a time.
  explicit allocation_log(std::ostream& sink);

  /// Returns false for an empty handle.
  explicit operator bool() const noexcept { return sink_ != nullptr; }

  /// Pauses a log while an object of this class exists. Memory that is allocated during the pause
  /// has no rows. All other memory has a row for its allocation and a row for its release, even if
  /// the release is during the pause.
  class [[nodiscard]] pause {
   public:
    /// Pauses `log` and its copies.
    explicit pause(const allocation_log& log) noexcept;
    pause(const pause&) = delete;
    pause& operator=(const pause&) = delete;
    ~pause();

   private:
    const std::shared_ptr<detail::allocation_sink> sink_;
  };

  /// Returns true if a row could not be written, for example because the disk is full.
  bool failed() const noexcept;

  /// Internal: called by the library only.
  const std::shared_ptr<detail::allocation_sink>& sink() const noexcept { return sink_; }

 private:
  std::shared_ptr<detail::allocation_sink> sink_;
};

}  // namespace ringload::inline v0
