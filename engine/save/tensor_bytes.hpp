// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads a tensor in memory as the bytes that a file will contain: dense, row-major and optionally
// converted. Any range of bytes can be read. The tensor may be on any device and may have any
// strides. Used by saves and writers.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <ringload/save.hpp>
#include <span>

#include "base/fault.hpp"
#include "base/mapping.hpp"
#include "base/numeric/element_kind.hpp"
#include "base/numeric/strided_gather.hpp"
#include "device/backend.hpp"

namespace ringload::inline v0::detail {

// Returns the size of the tensor in a file that stores the elements as `stored_type`. Fails with
// errc::invalid_tensor if the description of the tensor is invalid, and with
// errc::unsupported_dtype if the types cannot be converted. Errors name the tensor.
result<std::uint64_t> stored_bytes(const tensor_ref& view, dtype stored_type);

class tensor_bytes {
 public:
  // The tensor must have passed stored_bytes(), and must be on the host or on the device of
  // `target`. `target` must outlive this object. `passes` is the number of times that all bytes
  // will be read.
  tensor_bytes(tensor_ref view, dtype stored_type, backend& target, unsigned passes);

  const tensor_ref& view() const noexcept { return view_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

  // Returns true if both tensors have the same memory and the same stored bytes.
  bool same_as(const tensor_bytes& source) const noexcept;

  // Returns the address of the stored byte at `offset`. Returns null if the tensor is on a device,
  // is converted, or is not dense.
  const std::byte* memory_at(std::uint64_t offset) const noexcept;

  // Copies stored bytes, beginning at `offset`. May be called by several threads at the same time.
  // If a tensor on a device is not dense, the first call copies the whole memory range of the
  // tensor to the host. This copy is freed when all bytes were read `passes` times.
  result<void> read(std::uint64_t offset, std::span<std::byte> into);

 private:
  bool on_host() const noexcept { return view_.device.kind() == device_kind::host; }
  result<void> fetch();
  result<void> read_elements(std::uint64_t first, std::uint64_t count, std::byte* into) const;
  result<void> read_converted(std::uint64_t first, std::uint64_t count, std::byte* into) const;
  result<void> gather(std::uint64_t first, std::uint64_t count, std::byte* into) const;
  void count_read(std::uint64_t bytes) noexcept;

  tensor_ref view_;
  backend& target_;
  strided_elements elements_;
  conversion conversion_;
  std::uint64_t bytes_ = 0;
  // Size of an element in memory and in the file. The size is 1 if elements have fewer than 8 bits.
  std::uint32_t from_bytes_ = 1;
  std::uint32_t to_bytes_ = 1;
  // The memory from the lowest to the highest byte of the elements: its size, and the number of its
  // bytes before view_.data. Elements with negative strides are before view_.data.
  std::uint64_t spanned_before_ = 0;
  std::uint64_t spanned_bytes_ = 0;

  std::mutex mutex_;
  // Host copy of a tensor that is on a device and is not dense. Guarded by the mutex until
  // has_fetched_ is true.
  mapping fetched_;
  std::atomic<bool> has_fetched_ = false;
  // Bytes that must still be read before the host copy is freed.
  std::atomic<std::uint64_t> left_to_read_;
};

}  // namespace ringload::inline v0::detail
