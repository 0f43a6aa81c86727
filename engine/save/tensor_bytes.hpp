// SPDX-License-Identifier: Apache-2.0
#pragma once

// The bytes of a tensor as a file holds them: dense, row-major, converted if that is wanted. Read
// in pieces, from any byte on, wherever the tensor lies and however it is strided.

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

// As stored: of `view`'s shape, its elements of type `as`. errc::invalid_tensor, with the tensor's
// place, for what is no tensor; errc::unsupported_dtype where the types do not convert.
result<std::uint64_t> stored_bytes(const tensor_ref& view, dtype as);

class tensor_bytes {
 public:
  // `view` is one that stored_bytes() accepts. It is on the host or on `target`, which outlives
  // this. All bytes are read `passes` times.
  tensor_bytes(tensor_ref view, dtype as, backend& target, unsigned passes);

  const tensor_ref& view() const noexcept { return view_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

  // Whether the other's bytes are these, of the same memory.
  bool same_as(const tensor_bytes& other) const noexcept;

  // Where the bytes from `offset` on lie in memory of the host as they are stored; else null.
  const std::byte* at(std::uint64_t offset) const noexcept;

  // Copies the bytes from `offset` on. Any thread, several at a time. Of a strided tensor on a
  // device, all memory that it spans is copied to the host first, and kept until it was all read.
  result<void> read(std::uint64_t offset, std::span<std::byte> into);

  // Memory of the caller's is not used any more, nor kept.
  void release() noexcept { view_ = {}; }

 private:
  bool on_host() const noexcept { return view_.on.kind() == device_kind::host; }
  result<void> fetch();
  result<void> read_elements(std::uint64_t first, std::uint64_t count, std::byte* into) const;
  result<void> read_converted(std::uint64_t first, std::uint64_t count, std::byte* into) const;
  result<void> gather(std::uint64_t first, std::uint64_t count, std::byte* into) const;
  void count_read(std::uint64_t bytes) noexcept;

  // Set by the constructor and not changed before release().
  tensor_ref view_;
  backend& target_;
  strided_elements elements_;
  conversion as_;
  std::uint64_t bytes_ = 0;
  std::uint32_t from_bytes_ = 1;  // Of an element, in memory and
  std::uint32_t to_bytes_ = 1;    // as stored. 1 for types of less than a byte.
  std::uint64_t spanned_before_ =
      0;                             // So many bytes before view_.data lies the first that is read.
  std::uint64_t spanned_bytes_ = 0;  // From there to the end of the last.

  // A strided tensor on a device, on the host.
  std::mutex mutex_;
  mapping fetched_;  // Written under the mutex, before has_fetched_ is set.
  std::atomic<bool> has_fetched_ = false;
  std::atomic<std::uint64_t> left_to_read_;
};

}  // namespace ringload::inline v0::detail
