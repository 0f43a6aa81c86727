// SPDX-License-Identifier: Apache-2.0
#pragma once

// The devices that can hold tensors: the host and CUDA devices (`ringload/cuda.hpp`).

#include <cstdint>
#include <memory>
#include <optional>
#include <ringload/export.hpp>
#include <string>

namespace ringload::inline v0 {

class backend;

/// The kinds of devices.
enum class device_kind : std::uint8_t { host, cuda };

/// Identifies a device. The object is small and cheap to copy. The library uses the device itself
/// only when a loader for the device is created.
class device {
 public:
  /// Internal: creates the implementation of a device.
  using backend_maker = std::unique_ptr<backend> (*)(int index);

  /// Internal: called only by functions that return a device, such as `host()` and `cuda_device()`.
  device(device_kind kind, int index, backend_maker make) noexcept
      : kind_(kind), index_(index), make_(make) {}

  /// Returns the kind of the device.
  device_kind kind() const noexcept { return kind_; }

  /// Returns the index among the devices of the same kind. Returns 0 for the host.
  int index() const noexcept { return index_; }

  /// Returns the name of the device, such as "host" or "cuda:0".
  RINGLOAD_EXPORT std::string name() const;

  /// Internal: called by the library only.
  backend_maker maker() const noexcept { return make_; }

  /// Two devices are equal if their kinds and indices are equal. Therefore `host()` is equal to
  /// `shared_host()`.
  friend bool operator==(const device& a, const device& b) noexcept {
    return a.kind_ == b.kind_ && a.index_ == b.index_;
  }

 private:
  device_kind kind_;
  int index_;
  backend_maker make_;
};

/// Returns the host device. Tensors on this device are in the memory of this machine, aligned for
/// their element type. Most tensors have the same offset in a page of memory as in a page of their
/// file, so that a direct read needs no copy.
RINGLOAD_EXPORT device host() noexcept;

/// Returns the number of bytes of host memory that this process can still allocate. The number is
/// the smallest of three amounts: the memory left in the machine, in the control group of the
/// process, and in the parents of this group. The page cache counts as available. Returns an empty
/// optional if the system does not provide the numbers.
///
/// If the process uses more memory than this number, the kernel may kill the process. The limit
/// `memory.high` of a group counts too, because the kernel slows the process down above this limit.
RINGLOAD_EXPORT std::optional<std::uint64_t> available_host_bytes();

/// Returns the host device with memory that other processes can map after a `keeper` has published
/// the memory (`ringload/keeper.hpp`). Each allocation is a memfd. Freed memory is not kept for
/// later loads. The returned device is equal to `host()`.
///
/// The memory uses transparent huge pages if the administrator allows them for shared memory
/// (transparent_hugepage/shmem_enabled). With `huge_pages::reserved`, the memory uses reserved
/// pages if enough pages are free.
RINGLOAD_EXPORT device shared_host() noexcept;

}  // namespace ringload::inline v0
