// SPDX-License-Identifier: Apache-2.0
#pragma once

// The devices of one loader with a backend for each. A device is identified by its position in the
// loader's list. A device that is listed twice has one backend.

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <ringload/device.hpp>
#include <ringload/options.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/backend.hpp"

namespace ringload::inline v0 {

class device_set {
 public:
  explicit device_set(std::vector<device> listed) : listed_(std::move(listed)) {}
  device_set(const device_set&) = delete;
  device_set& operator=(const device_set&) = delete;
  ~device_set() { clear(); }

  const std::vector<device>& listed() const noexcept { return listed_; }
  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(listed_.size()); }
  // Returns the first position of the device; 0 for the host if it is not listed.
  std::uint32_t position_of(const device& wanted) const noexcept;
  // For errors: "the loader's device is host".
  std::string description() const;

  // ---- In the engine thread only, in this order ----

  void make(const loader_options& within, const allocation_log& log);
  // Opens all devices, or none, and introduces them to each other.
  result<void> attach(boost::asio::io_context& loop, slot_region slots);
  // No copy may be in flight.
  void detach() noexcept;
  void clear() noexcept;

  // ---- Any thread, from make() to clear() ----

  backend& backend_at(std::uint32_t position) const noexcept { return *by_position_[position]; }
  // The first listed host device, or an additional one for caller memory.
  backend& host_memory() const noexcept { return *host_; }
  // Returns the backend for the host or a listed device; null for any other device.
  backend* find(const device& on) const noexcept;
  // Each backend once, including the host's.
  std::span<const std::unique_ptr<backend>> backends() const noexcept { return backends_; }
  // Returns true if no device can be read into directly, so that every read needs a slot.
  bool all_staged() const noexcept;
  // Calls backend::pin() for all backends. Returns the reason of the first refusal.
  result<std::string> pin(std::span<std::byte> slot) const;

 private:
  const std::vector<device> listed_;
  std::vector<std::unique_ptr<backend>> backends_;
  std::vector<backend*> by_position_;  // Indexed by position.
  backend* host_ = nullptr;
  std::size_t attached_ = 0;  // Number of attached entries of backends_, from the first on.
};

}  // namespace ringload::inline v0
