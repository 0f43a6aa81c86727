// SPDX-License-Identifier: Apache-2.0
#pragma once

// The drives that a loader reads from. Each drive has a limit on the bytes in flight.
//
// If a loader reads from several drives, each drive may occupy only its share of the workers
// (coroutines that each carry out one read at a time). Then a slow drive delays only the loads that
// read from that drive. A share is at most half of the workers. The other workers stay free for a
// drive that becomes active later, because a slow drive keeps its workers busy for a long time.

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <deque>
#include <mutex>
#include <ringload/options.hpp>

#include "runtime/admission_control.hpp"

namespace ringload::inline v0::detail {

struct drive {
  // `slots_max` must be 0 for a drive with a small latency, because more bytes in flight would only
  // make the reads of this drive wait.
  drive(boost::asio::io_context& loop, const loader_options& options, std::uint32_t slots_max,
        std::uint64_t i)
      : id(i), admission(loop, options, slots_max) {}

  const std::uint64_t id;
  admission_control admission;
  std::uint32_t loads = 0;    // Unfinished loads that read from this drive.
  std::uint32_t workers = 0;  // Workers that are reading from this drive.
};

class drives {
 public:
  // Maximum number of entries. If a loader reads from more drives, the last entry also represents
  // all further drives.
  static constexpr std::size_t drives_max = 64;

  // See admission_control for `slots_max`.
  drives(boost::asio::io_context& loop, const loader_options& options, std::uint32_t slots_max = 0)
      : loop_(loop), options_(options), slots_max_(slots_max) {}

  // ---- Engine thread only ----

  // Sets the number of simultaneous reads, which has_worker_for() divides among the active drives.
  void set_reads_max(std::uint32_t reads_max) noexcept { reads_max_ = reads_max; }
  // `is_distant` must be true for a mount whose latency can be large: see is_distant() in
  // io/block_device_id.hpp. The reference is valid as long as this object exists.
  drive& find_or_add(std::uint64_t id, bool is_distant = false);
  void begin_load(drive& source) noexcept {
    if (source.loads++ == 0) ++active_;
  }
  void end_load(drive& source) noexcept {
    if (--source.loads == 0) --active_;
  }
  bool has_several() const noexcept { return drives_.size() > 1; }
  bool has_worker_for(const drive& source) const noexcept {
    if (!has_several()) return true;
    const std::uint32_t shares = std::max<std::uint32_t>(2, active_);
    return source.workers < std::max<std::uint32_t>(1, reads_max_ / shares);
  }

  // ---- Any thread ----

  std::uint64_t bytes_in_flight_max() const;

 private:
  boost::asio::io_context& loop_;
  const loader_options& options_;
  const std::uint32_t slots_max_;
  std::uint32_t reads_max_ = 1;
  std::uint32_t active_ = 0;  // Number of drives with unfinished loads.
  mutable std::mutex mutex_;
  std::deque<drive> drives_;  // The engine thread adds drives while it holds the mutex.
};

}  // namespace ringload::inline v0::detail
