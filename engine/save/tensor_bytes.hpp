// SPDX-License-Identifier: Apache-2.0
#pragma once

// The bytes of a tensor as stored in a file: dense, row-major and optionally converted. They can be
// read in pieces from any offset, for any device and any strides.

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

// Returns the stored size of `view` with elements of `stored_type`. Fails with errc::invalid_tensor
// for an invalid description, and with errc::unsupported_dtype if the types cannot be converted.
// Faults name the tensor.
result<std::uint64_t> stored_bytes(const tensor_ref& view, dtype stored_type);

class tensor_bytes {
 public:
  // stored_bytes() must accept `view`. The tensor is on the host or on `target`, which must outlive
  // this object. All bytes are read `passes` times.
  tensor_bytes(tensor_ref view, dtype stored_type, backend& target, unsigned passes);

  const tensor_ref& view() const noexcept { return view_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

  // Returns true if both objects have the same memory and the same stored bytes.
  bool same_as(const tensor_bytes& source) const noexcept;

  // Returns the host memory of the stored bytes from `offset`. Returns null if the tensor is on a
  // device, converted or not dense.
  const std::byte* memory_at(std::uint64_t offset) const noexcept;

  // Copies the bytes from `offset` on. Several threads may call it at once. For a strided tensor on
  // a device, the first call copies all spanned memory to the host. The copy is kept until all
  // bytes are read.
  result<void> read(std::uint64_t offset, std::span<std::byte> into);

  // Stops using the caller's memory and releases its owner.
  void release() noexcept { view_ = {}; }

 private:
  bool on_host() const noexcept { return view_.on.kind() == device_kind::host; }
  result<void> fetch();
  result<void> read_elements(std::uint64_t first, std::uint64_t count, std::byte* into) const;
  result<void> read_converted(std::uint64_t first, std::uint64_t count, std::byte* into) const;
  result<void> gather(std::uint64_t first, std::uint64_t count, std::byte* into) const;
  void count_read(std::uint64_t bytes) noexcept;

  // Constant from the constructor to release().
  tensor_ref view_;
  backend& target_;
  strided_elements elements_;
  conversion conversion_;
  std::uint64_t bytes_ = 0;
  // Size of an element in memory and as stored; 1 for types of less than a byte.
  std::uint32_t from_bytes_ = 1;
  std::uint32_t to_bytes_ = 1;
  std::uint64_t spanned_before_ = 0;  // Bytes from the first byte read to view_.data.
  std::uint64_t spanned_bytes_ = 0;   // Bytes from the first to the last byte read.

  // Host copy of a strided tensor on a device.
  std::mutex mutex_;
  mapping fetched_;  // Written under the mutex, before has_fetched_ is set.
  std::atomic<bool> has_fetched_ = false;
  std::atomic<std::uint64_t> left_to_read_;
};

}  // namespace ringload::inline v0::detail
