// SPDX-License-Identifier: Apache-2.0
#pragma once

// A loaded tensor. It shares ownership of its memory, so it may outlive the model, the loading and
// the loader.

#include <cstdint>
#include <memory>
#include <ringload/device.hpp>
#include <ringload/dtype.hpp>
#include <ringload/export.hpp>
#include <span>
#include <string_view>

namespace ringload::inline v0 {

class arena;

namespace detail {
class tensor_storage;
}

/// A handle, cheap to copy; copies share the same bytes. Its functions may be called from any
/// thread. The tensors of one load share one allocation: it is freed when the last handle to any of
/// them is gone, and the `model` and `loading` too.
class RINGLOAD_EXPORT tensor {
 public:
  /// An empty handle: only operator bool, assignment and destruction are allowed.
  tensor() noexcept = default;
  tensor(std::shared_ptr<const detail::tensor_storage> storage, std::uint32_t index) noexcept;

  explicit operator bool() const noexcept { return storage_ != nullptr; }

  /// Valid as long as any handle to a tensor of the same load is.
  std::string_view name() const noexcept;
  ringload::dtype dtype() const noexcept;
  /// Row-major, outermost first; empty for a scalar.
  std::span<const std::uint64_t> shape() const noexcept;
  /// The number of bytes at `data()`.
  std::uint64_t bytes() const noexcept;

  /// The first byte, in the memory of `device()`; never null, also for a tensor of 0 bytes.
  void* data() const noexcept;
  ringload::device device() const noexcept;

  /// The memory that all tensors of the load lie in: opaque, for functions that are about one kind
  /// of device, as those of `ringload/cuda.hpp`.
  arena& memory() const noexcept;

 private:
  std::shared_ptr<const detail::tensor_storage> storage_;
  std::uint32_t index_ = 0;
};

}  // namespace ringload::inline v0
