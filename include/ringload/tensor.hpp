// SPDX-License-Identifier: Apache-2.0
#pragma once

// A tensor that has landed. It shares ownership of the memory that it lies in, so it may outlive
// the model, the loading and the loader.

#include <cstdint>
#include <memory>
#include <ringload/device.hpp>
#include <ringload/dtype.hpp>
#include <ringload/export.hpp>
#include <span>
#include <string_view>

namespace ringload::inline v0 {

namespace detail {
class tensor_storage;
}

/// A handle, free to copy; copies name the same bytes. Its functions may be called from any thread.
/// The memory of all tensors of one load is given back when the last handle to any of them is gone,
/// with the `model` and the `loading`, which hold it too.
class RINGLOAD_EXPORT tensor {
 public:
  /// Names no tensor. Nothing but a test for that, assignment and destruction may be done with it.
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

 private:
  std::shared_ptr<const detail::tensor_storage> storage_;
  std::uint32_t index_ = 0;
};

}  // namespace ringload::inline v0
