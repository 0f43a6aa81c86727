// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a load did use, and why. A library that people operate must be able to say so itself.

#include <algorithm>
#include <cstdint>
#include <ringload/limits.hpp>
#include <string>

namespace ringload::inline v0 {

/// A snapshot of one load. Bytes are of the file, so the padding of aligned reads counts in
/// `bytes_direct` and `bytes_buffered`, and not in `bytes`.
struct load_stats {
  std::uint64_t bytes = 0;        // Of tensors that have landed.
  std::uint64_t bytes_total = 0;  // Of all tensors of the load.
  std::uint64_t tensors = 0;      // That have landed.
  std::uint64_t tensors_total = 0;

  std::uint64_t bytes_direct = 0;    // Read with O_DIRECT.
  std::uint64_t bytes_buffered = 0;  // Read through the page cache.
  std::uint64_t bytes_straight = 0;  // Of both, those that went into the arena without a copy.
  std::uint64_t reads = 0;           // Begun for it; one that is made anew by another route, twice.
  std::uint64_t short_reads = 0;     // That gave fewer bytes than asked for, and were resumed.
  std::uint64_t retries = 0;         // After EINTR or EAGAIN.
  std::uint64_t bytes_verified = 0;  // Of tensors whose bytes match the manifest.

  double seconds = 0;                  // From the call until the load was over; until then, to now.
  double seconds_to_first_tensor = 0;  // From the call to the first tensor; 0 until then.
  double seconds_opening = 0;          // From the call until catalog and plan were fixed.
  double seconds_device_wait = 0;      // Summed over slots: a read was done, its copies were not.
  double seconds_memory_wait = 0;      // Summed over slots: host memory was being made ready.

  bool memory_kept = false;  // The tensors lie where those of an earlier load did.

  /// What the loader as a whole uses.
  read_engine engine = read_engine::automatic;  // `ring` or `threads`, never `automatic`.
  std::string engine_reason;                    // Why that one, in words.
  std::string route_reason;  // Why chunks went buffered although direct was wanted; else empty.
  std::uint64_t pinned_bytes_peak = 0;  // Of the slots that were needed; at most all of them.
  std::uint64_t bytes_in_flight = 0;    // As limits::bytes_in_flight, ordered or found so far.
  bool slots_registered = false;        // With the ring, all that were needed: saves CPU, not time.
  std::string registration_reason;      // Why not, if not.
  std::string page_kind;              // Of the first slot that was needed: "hugetlb", "thp", "4k".
  std::string page_kind_reason;       // Why not "hugetlb" although wanted, if not; else empty.
  double longest_submit_seconds = 0;  // The longest that one submission to the ring took.

  /// What a progress bar shows of `bytes_total`: what has been read, although the tensor that it
  /// belongs to may not have landed yet. A large tensor moves it long before it moves `bytes`.
  std::uint64_t bytes_arrived() const noexcept {
    return std::min(bytes_total, bytes_direct + bytes_buffered);
  }
};

}  // namespace ringload::inline v0
