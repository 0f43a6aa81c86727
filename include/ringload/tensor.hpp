// SPDX-License-Identifier: Apache-2.0
#pragma once

// A loaded tensor. Tensors share the ownership of their memory. A tensor may be used after the
// model, the load_operation and the loader are destroyed.

#include <concepts>
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

// Matches std::complex<T>. Does not require the header <complex>.
template <class C, class T>
concept complex_of = sizeof(C) == 2 * sizeof(T) && requires(const C& number) {
  requires std::is_same_v<typename C::value_type, T>;
  { number.real() } -> std::same_as<T>;
  { number.imag() } -> std::same_as<T>;
};

// Returns the dtype of a C++ element type. Returns an empty optional if no dtype matches.
template <class T>
constexpr std::optional<ringload::dtype> dtype_of_elements() noexcept {
  using enum ringload::dtype;
  if constexpr (std::is_same_v<T, bool>) return boolean;
  if constexpr (std::is_same_v<T, float>) return f32;
  if constexpr (std::is_same_v<T, double>) return f64;
  if constexpr (complex_of<T, float>) return c64;
  if constexpr (complex_of<T, double>) return c128;
  if constexpr (std::is_integral_v<T>) {
    constexpr ringload::dtype by_bytes[2][4] = {{u8, u16, u32, u64}, {i8, i16, i32, i64}};
    const int size = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return by_bytes[std::is_signed_v<T> ? 1 : 0][size];
  }
  return std::nullopt;
}
}  // namespace detail

/// A handle to a loaded tensor, cheap to copy. Copies of a handle refer to the same bytes. All
/// functions are thread-safe.
///
/// Several tensors of a load may share one allocation: see `load_options::allocation`. The `model`
/// and the `load_operation` hold all allocations of a load. An allocation is freed when these
/// objects, and all handles to its tensors, are destroyed.
class RINGLOAD_EXPORT tensor {
 public:
  /// Creates an empty handle. An empty handle supports only operator bool, assignment and
  /// destruction.
  tensor() noexcept = default;
  /// Internal: called by the library only.
  tensor(std::shared_ptr<const detail::tensor_storage> storage, std::uint32_t index) noexcept;

  /// Returns false for an empty handle.
  explicit operator bool() const noexcept { return storage_ != nullptr; }

  /// Returns the name. The text is valid as long as a handle to a tensor of the same load exists.
  std::string_view name() const noexcept;
  /// Returns the type of the elements in memory.
  ringload::dtype dtype() const noexcept;
  /// Returns the sizes of the dimensions, outermost first (row-major). Empty for a scalar.
  std::span<const std::uint64_t> shape() const noexcept;
  /// Returns the number of bytes at `data()`.
  std::uint64_t size_bytes() const noexcept;

  /// Returns the address of the first byte, in the memory of `device()`. Never null, even if the
  /// tensor has 0 bytes.
  void* data() const noexcept;
  /// Returns the device whose memory contains the bytes.
  ringload::device device() const noexcept;
  /// Returns the index of the device in loader::devices(). A device may be listed twice, so
  /// device() alone does not identify the index.
  std::uint32_t device_position() const noexcept;
  /// Returns true if a program must not write to the memory. The result is true for tensors that
  /// are mapped without copy on write (`tensor_memory`), for tensors in host memory that a keeper
  /// has published, and for tensors in GPU memory that another process has published. In host
  /// memory, a write raises SIGSEGV. In GPU memory, a write may change the tensors of other
  /// processes.
  bool read_only() const noexcept;

  /// Returns the allocation of the tensor. The allocation is an opaque object for functions of one
  /// kind of device, such as the functions of `ringload/cuda.hpp`.
  arena& memory() const noexcept;

  /// Returns the elements of a tensor in host memory. T is bool, an integer of 8 to 64 bits, float,
  /// double, or a std::complex of float or double. Throws `errc::wrong_dtype` if T does not match
  /// `dtype()`. std::byte matches every dtype and returns the bytes. Throws
  /// `errc::device_unavailable` if the tensor is not in host memory.
  template <class T>
  std::span<T> as() const {
    using element = std::remove_const_t<T>;
    if constexpr (std::is_same_v<element, std::byte>) {
      return {static_cast<T*>(host_data(dtype())), static_cast<std::size_t>(size_bytes())};
    } else {
      constexpr auto expected = detail::dtype_of_elements<element>();
      static_assert(expected.has_value(), "no dtype has elements of this type");
      T* const first = static_cast<T*>(host_data(*expected));
      return {first, static_cast<std::size_t>(size_bytes() / sizeof(T))};
    }
  }

 private:
  // Returns data(). Throws if the tensor is not in host memory or has another dtype.
  void* host_data(ringload::dtype expected) const;

  std::shared_ptr<const detail::tensor_storage> storage_;
  std::uint32_t index_ = 0;
};

}  // namespace ringload::inline v0
