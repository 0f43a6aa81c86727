// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where tensors go: the memory of the host, or of a CUDA device (`ringload/cuda.hpp`).

#include <cstdint>
#include <memory>
#include <ringload/export.hpp>
#include <string>

namespace ringload::inline v0 {

class backend;

enum class device_kind : std::uint8_t { host, cuda };

/// Names a device: a small value. The device is not touched before a loader is made for it.
class device {
 public:
  using backend_maker = std::unique_ptr<backend> (*)(int index);

  /// For the functions that name a device: `host()`, `cuda_device()`.
  device(device_kind kind, int index, backend_maker make) noexcept
      : kind_(kind), index_(index), make_(make) {}

  device_kind kind() const noexcept { return kind_; }

  /// The index among devices of that kind; 0 for the host.
  int index() const noexcept { return index_; }

  /// "host", "cuda:0".
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

/// The memory of this machine. Tensors are aligned for their element type; most have the same
/// offset within a page as in the file.
RINGLOAD_EXPORT device host() noexcept;

/// The same, in memory that other processes can map once a `keeper` has it (`ringload/keeper.hpp`):
/// each allocation is a memfd. On huge pages where the administrator allows them for such memory
/// (transparent_hugepage/shmem_enabled), or, with `huge_pages::reserved`, on reserved ones where
/// enough are free. Nothing of it is kept for the next load. Equal to `host()`.
RINGLOAD_EXPORT device shared_host() noexcept;

}  // namespace ringload::inline v0
