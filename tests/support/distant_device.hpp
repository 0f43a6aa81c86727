// SPDX-License-Identifier: Apache-2.0
#pragma once

// A device whose memory the host cannot access: its addresses are those of host memory, shifted to
// an unmapped range. Only copy_to_host() can read the memory.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <ringload/device.hpp>

#include "device/backend.hpp"

namespace ringload::testing {

inline constexpr std::uintptr_t distance = std::uintptr_t{1} << 62;

inline std::atomic<int> copies_to_host = 0;
inline std::atomic<int> copies_until_failure = -1;  // If negative, no copy fails.

// Converts a host address to the address on the device.
inline const void* on_distant(const void* at) {
  return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(at) + distance);
}

class distant_backend final : public backend {
 public:
  placement_rules rules() const noexcept override { return {}; }
  void keep(std::uint64_t) override {}
  result<std::shared_ptr<arena>> allocate(std::uint64_t) override {
    return fault{errc::memory_exceeded, "distant", "it is for what is saved only"};
  }
  result<void> copy_to_host(const std::byte* from, std::span<std::byte> into) override {
    ++copies_to_host;
    if (copies_until_failure >= 0 && copies_until_failure-- == 0) {
      return fault{errc::device_unavailable, "distant"};
    }
    const auto address = reinterpret_cast<std::uintptr_t>(from) - distance;
    std::memcpy(into.data(), reinterpret_cast<const void*>(address), into.size());
    return {};
  }
  result<void> attach(boost::asio::io_context&, slot_region) override { return {}; }
  void start(copy_operation& op) noexcept override { op.done(op, errc::device_unavailable); }
  void detach() noexcept override {}
};

inline device distant_device() noexcept {
  return {device_kind::cuda, 0,
          [](int) -> std::unique_ptr<backend> { return std::make_unique<distant_backend>(); }};
}

}  // namespace ringload::testing
