// SPDX-License-Identifier: Apache-2.0
#pragma once

// A loaded tensor. It shares ownership of its memory, so it may outlive the model, the
// load_operation and the loader.

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ringload/device.hpp>
#include <ringload/dtype.hpp>
#include <ringload/export.hpp>
#include <span>
#include <string_view>
#include <type_traits>

namespace ringload::inline v0 {

class arena;

namespace detail {
class tensor_storage;

// The dtype for a C++ element type; empty if no dtype matches.
template <class T>
constexpr std::optional<ringload::dtype> dtype_of_elements() noexcept {
  using enum ringload::dtype;
  if constexpr (std::is_same_v<T, bool>) return boolean;
  if constexpr (std::is_same_v<T, float>) return f32;
  if constexpr (std::is_same_v<T, double>) return f64;
  if constexpr (std::is_same_v<T, std::complex<float>>) return c64;
  if constexpr (std::is_same_v<T, std::complex<double>>) return c128;
  if constexpr (std::is_integral_v<T>) {
    constexpr ringload::dtype by_bytes[2][4] = {{u8, u16, u32, u64}, {i8, i16, i32, i64}};
    const int size = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return by_bytes[std::is_signed_v<T> ? 1 : 0][size];
  }
  return std::nullopt;
}
}  // namespace detail

/// A handle, cheap to copy. Copies share the same bytes. The functions may be called from any
/// thread. Tensors of a load share allocations, as `load_options::allocation` describes. An
/// allocation is freed when the last handle to its tensors, the `model` and the `load_operation`
/// are destroyed.
class RINGLOAD_EXPORT tensor {
 public:
  /// An empty handle: only operator bool, assignment and destruction are allowed.
  tensor() noexcept = default;
  tensor(std::shared_ptr<const detail::tensor_storage> storage, std::uint32_t index) noexcept;

  explicit operator bool() const noexcept { return storage_ != nullptr; }

  /// Valid as long as any handle to a tensor of the same load.
  std::string_view name() const noexcept;
  ringload::dtype dtype() const noexcept;
  /// Row-major, outermost first; empty for a scalar.
  std::span<const std::uint64_t> shape() const noexcept;
  /// Returns the number of bytes at `data()`.
  std::uint64_t size_bytes() const noexcept;

  /// Returns the first byte, in the memory of `device()`. Never null, even for a tensor of 0 bytes.
  void* data() const noexcept;
  ringload::device device() const noexcept;
  /// Returns the position of the device in loader::devices(), which may list a device twice.
  std::uint32_t device_position() const noexcept;
  /// Returns whether the memory must not be written to. A write to such host memory is an access
  /// violation. A write to such GPU memory changes the tensors of other processes. A tensor is
  /// read-only if it is mapped from its file without copy on write (`tensor_memory`), or if a
  /// keeper holds its memory.
  bool read_only() const noexcept;

  /// The allocation of the tensor: an opaque object for functions of one device kind, such as the
  /// functions of `ringload/cuda.hpp`.
  arena& memory() const noexcept;

  /// Returns the elements, in host memory. T is bool, an integer of 8 to 64 bits, float, double or
  /// a std::complex of float or double. T must match `dtype()`, else `errc::wrong_dtype`. std::byte
  /// matches every type and returns the bytes. Throws `errc::device_unavailable` for another
  /// device.
  template <class T>
  std::span<T> as() const {
    using element = std::remove_const_t<T>;
    if constexpr (std::is_same_v<element, std::byte>) {
      return {static_cast<T*>(host_data(dtype())), static_cast<std::size_t>(size_bytes())};
    } else {
      constexpr auto wanted = detail::dtype_of_elements<element>();
      static_assert(wanted.has_value(), "no dtype has elements of this type");
      T* const first = static_cast<T*>(host_data(*wanted));
      return {first, static_cast<std::size_t>(size_bytes() / sizeof(T))};
    }
  }

 private:
  // Returns data() if the tensor is in host memory and has this dtype; else throws.
  void* host_data(ringload::dtype wanted) const;

  std::shared_ptr<const detail::tensor_storage> storage_;
  std::uint32_t index_ = 0;
};

}  // namespace ringload::inline v0
