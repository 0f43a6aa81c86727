// SPDX-License-Identifier: Apache-2.0
#pragma once

// The devices of tensors: the host, or a CUDA device (`ringload/cuda.hpp`).

#include <cstdint>
#include <memory>
#include <ringload/export.hpp>
#include <string>

namespace ringload::inline v0 {

class backend;

enum class device_kind : std::uint8_t { host, cuda };

/// Names a device: a small value. The device is not used before a loader is created for it.
class device {
 public:
  using backend_maker = std::unique_ptr<backend> (*)(int index);

  /// For functions that return a device: `host()`, `cuda_device()`.
  device(device_kind kind, int index, backend_maker make) noexcept
      : kind_(kind), index_(index), make_(make) {}

  device_kind kind() const noexcept { return kind_; }

  /// The index among devices of the same kind; 0 for the host.
  int index() const noexcept { return index_; }

  /// Returns the device's name: "host", "cuda:0".
  RINGLOAD_EXPORT std::string name() const;

  backend_maker maker() const noexcept { return make_; }

  friend bool operator==(const device& a, const device& b) noexcept {
    return a.kind_ == b.kind_ && a.index_ == b.index_;
  }

 private:
  device_kind kind_;
  int index_;
  backend_maker make_;
};

/// Returns the host device: the memory of this machine. Tensors are aligned for their element type.
/// Most tensors have the same offset within a page as in the file.
RINGLOAD_EXPORT device host() noexcept;

/// Returns the host device with memory that other processes can map when a `keeper` has published
/// it (`ringload/keeper.hpp`). Each allocation is a memfd. The memory uses huge pages if the
/// administrator allows them for shared memory (transparent_hugepage/shmem_enabled). With
/// `huge_pages::reserved`, it uses reserved pages if enough are free. The memory is never cached
/// for the next load. Equal to `host()`.
RINGLOAD_EXPORT device shared_host() noexcept;

}  // namespace ringload::inline v0
