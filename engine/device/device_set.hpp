// SPDX-License-Identifier: Apache-2.0
#pragma once

// The devices of one loader and their backends. A position is an index in the loader's list of
// devices. A device that is listed twice has two positions but one backend.

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
  // Returns the first position of the device. Returns 0 if the device is not listed.
  std::uint32_t position_of(const device& target) const noexcept;
  // Returns the names of the devices as a text for errors, such as "the loader's device is host".
  std::string description() const;

  // ---- Only in the engine thread, in this order ----

  void make(const loader_options& options, const allocation_log& log);
  // Attaches all backends. If one backend fails, detaches the others. Then calls backend::meet()
  // for each pair, unless `loader_options::peer_copies` is false.
  result<void> attach(boost::asio::io_context& loop, slot_region slots);
  // No copy may be in flight.
  void detach() noexcept;
  void clear() noexcept;

  // ---- In any thread, after make() and before clear() ----

  backend& backend_at(std::uint32_t position) const noexcept { return *by_position_[position]; }
  // Returns the backend of the first listed host device. If no host device is listed, returns an
  // additional backend that serves memory of the caller.
  backend& host_memory() const noexcept { return *host_; }
  // Returns the backend of the host or of a listed device. Returns null for any other device.
  backend* find(const device& target) const noexcept;
  // Returns each backend once, including host_memory().
  std::span<const std::unique_ptr<backend>> backends() const noexcept { return backends_; }
  // Returns true if every read needs a slot, because no read can write directly to the memory of a
  // listed device.
  bool all_staged() const noexcept;
  // Calls backend::pin() for all backends. If a backend cannot pin the slot, returns the reason of
  // the first of these backends. Otherwise returns an empty string.
  result<std::string> pin(std::span<std::byte> slot) const;

 private:
  const std::vector<device> listed_;
  std::vector<std::unique_ptr<backend>> backends_;
  std::vector<backend*> by_position_;  // Indexed by position.
  backend* host_ = nullptr;
  bool peer_copies_ = true;
  std::size_t attached_ = 0;  // The first `attached_` backends are attached.
};

}  // namespace ringload::inline v0
