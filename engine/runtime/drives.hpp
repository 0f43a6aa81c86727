// SPDX-License-Identifier: Apache-2.0
#pragma once

// The drives that a loader reads from. Each drive has its own bound on the bytes that it reads at
// once. With several drives, each drive gets no more than its share of the workers. So a slow drive
// delays only the loads that read from it. Once a loader has a second drive, half of the workers
// are reserved for idle drives, because a read from a slow drive occupies its worker for long.

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
  std::uint32_t loads = 0;    // Active loads that read from the drive.
  std::uint32_t workers = 0;  // Workers that carry out a read from the drive.
};

class drives {
 public:
  // Further drives share the bounds of the last drive.
  static constexpr std::size_t drives_max = 64;

  drives(boost::asio::io_context& loop, const loader_options& within)
      : loop_(loop), within_(within) {}

  // ---- Engine thread only ----

  // Sets how many reads can be carried out at once. Each of these reads has a worker, and a thread
  // if it needs one.
  void share_out(std::uint32_t reads_max) noexcept { reads_max_ = reads_max; }
  // Returns the same object for the same id. The reference stays valid as long as `drives`.
  drive& find_or_add(std::uint64_t id);
  void begin_load(drive& source) noexcept {
    if (source.loads++ == 0) ++active_;
  }
  void end_load(drive& source) noexcept {
    if (--source.loads == 0) --active_;
  }
  bool several() const noexcept { return drives_.size() > 1; }
  bool has_worker_for(const drive& source) const noexcept {
    if (!several()) return true;
    const std::uint32_t shares = std::max<std::uint32_t>(2, active_);
    return source.workers < std::max<std::uint32_t>(1, reads_max_ / shares);
  }

  // ---- Any thread ----

  // The largest bound of any drive.
  std::uint64_t bytes_in_flight_max() const;

 private:
  boost::asio::io_context& loop_;
  const loader_options& within_;
  std::uint32_t reads_max_ = 1;
  std::uint32_t active_ = 0;  // Drives with loads.
  mutable std::mutex mutex_;
  std::deque<drive> drives_;  // Grows under the mutex, in the engine thread.
};

}  // namespace ringload::inline v0::detail
