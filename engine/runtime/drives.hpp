// SPDX-License-Identifier: Apache-2.0
#pragma once

// The drives that a loader reads from. Each has a bound of its own on the bytes that it reads at
// once, and, where they are several, no more than its share of the workers: so a slow one holds up
// the loads that read from it, and no others. Once a loader knows of a second drive, half of its
// workers are kept for those that are idle: what comes to a slow drive holds its worker for long.

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <deque>
#include <mutex>
#include <ringload/options.hpp>

#include "runtime/admission_control.hpp"

namespace ringload::inline v0::detail {

struct drive {
  drive(boost::asio::io_context& loop, const loader_options& within, std::uint64_t i)
      : id(i), admission(loop, within) {}

  const std::uint64_t id;
  admission_control admission;
  std::uint32_t loads = 0;    // That are not over.
  std::uint32_t workers = 0;  // That carry out a read of it.
};

class drives {
 public:
  // Those beyond these share the last one's bounds.
  static constexpr std::size_t drives_max = 64;

  drives(boost::asio::io_context& loop, const loader_options& within)
      : loop_(loop), within_(within) {}

  // ---- Engine thread only ----

  // So many reads can go on at once: for as many there is a worker, and a thread where one is
  // needed.
  void share_out(std::uint32_t places) noexcept { places_ = places; }
  // The same object for the same number, as long as this lives.
  drive& of(std::uint64_t id);
  void begin_load(drive& from) noexcept {
    if (from.loads++ == 0) ++active_;
  }
  void end_load(drive& from) noexcept {
    if (--from.loads == 0) --active_;
  }
  bool several() const noexcept { return all_.size() > 1; }
  bool has_worker_for(const drive& one) const noexcept {
    if (!several()) return true;
    const std::uint32_t shares = std::max<std::uint32_t>(2, active_);
    return one.workers < std::max<std::uint32_t>(1, places_ / shares);
  }

  // ---- Any thread ----

  // Of the drive that may have the most in flight.
  std::uint64_t bytes_in_flight_max() const;

 private:
  boost::asio::io_context& loop_;
  const loader_options& within_;
  std::uint32_t places_ = 1;
  std::uint32_t active_ = 0;  // Drives with loads.
  mutable std::mutex mutex_;
  std::deque<drive> all_;  // Grows under the mutex, in the engine thread.
};

}  // namespace ringload::inline v0::detail
