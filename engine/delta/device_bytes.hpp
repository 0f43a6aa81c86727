// SPDX-License-Identifier: Apache-2.0
#pragma once

// Accesses tensors in the memory of a device. A GPU that runs kernels changes its tensors itself.
// Otherwise a tensor is copied to the host, changed and copied back.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/fault.hpp"
#include "delta/delta_code.hpp"
#include "device/backend.hpp"

namespace ringload::inline v0::detail {

// All functions block, and are thread-safe. All other work on the memory must be complete.
class device_bytes {
 public:
  // `owner` is the backend of `on`. Both must outlive this object.
  device_bytes(backend& owner, const device& on) noexcept
      : owner_(owner), on_(on), is_host_(on.kind() == device_kind::host) {}

  bool is_host() const noexcept { return is_host_; }
  const device& on() const noexcept { return on_; }
  backend& owner() const noexcept { return owner_; }

  // Copies from the device to the host. Both ranges have the same size.
  result<void> read(std::span<const std::byte> from, std::span<std::byte> into) const;
  // Copies from the host to the device. If the function throws std::bad_alloc, `into` may have
  // bytes of both versions. The caller may then call the function again.
  result<void> write(std::span<const std::byte> from, std::span<std::byte> into) const;
  // Copies within the device.
  result<void> copy(std::span<const std::byte> from, std::span<std::byte> into) const;
  // Writes the changed tensor to `after`. `before` may be the same memory. Returns false if the
  // device cannot do that. If `before` is the same memory, a failure leaves the old bytes, unless
  // the code is errc::not_restored.
  result<bool> change(std::span<const std::byte> before, std::span<std::byte> after,
                      const change_view& change) const;
  // Returns the CRC-32C of bytes on the device.
  result<std::uint32_t> crc32c_of(std::span<const std::byte> bytes) const;

 private:
  backend& owner_;
  const device& on_;
  const bool is_host_;
};

}  // namespace ringload::inline v0::detail
