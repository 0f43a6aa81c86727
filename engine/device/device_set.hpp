// SPDX-License-Identifier: Apache-2.0
#pragma once

// The devices of one loader, and what takes memory and makes copies for each of them. They are
// known by their position in the list that the loader was made with; one that is listed twice has
// one backend.

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <ringload/device.hpp>
#include <ringload/limits.hpp>
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
  // The first that is that device; 0 of the host beside them.
  std::uint32_t position_of(const device& one) const noexcept;
  // For errors: "the loader's device is host".
  std::string said() const;

  // ---- In the engine thread only, in this order ----

  void make(const limits& within, const allocation_log& log);
  // Opens all of them, or none, and makes them known to each other.
  result<void> attach(boost::asio::io_context& loop, slot_region slots);
  // Once no copy is in flight.
  void detach() noexcept;
  void clear() noexcept;

  // ---- Any thread, from make() to clear() ----

  backend& at(std::uint32_t position) const noexcept { return *at_[position]; }
  // The first of them that is the host; or one beside them, for memory of the caller's.
  backend& host_memory() const noexcept { return *host_; }
  // Of memory on the host, or on one in the list; null: on another.
  backend* of(const device& on) const noexcept;
  // Each once, that of the host too.
  std::span<const std::unique_ptr<backend>> backends() const noexcept { return backends_; }
  // Whether reads land on none of them: then each needs a slot.
  bool all_staged() const noexcept;
  // backend::pin() for all of them; the reason is the first one's that refused.
  result<std::string> pin(std::span<std::byte> slot) const;

 private:
  const std::vector<device> listed_;
  std::vector<std::unique_ptr<backend>> backends_;
  std::vector<backend*> at_;  // By position.
  backend* host_ = nullptr;
  std::size_t attached_ = 0;  // Of backends_, the first.
};

}  // namespace ringload::inline v0
