// SPDX-License-Identifier: Apache-2.0
#pragma once

// Statistics of a load and of its loader, for operators and benchmarks.

#include <algorithm>
#include <cstdint>
#include <ringload/options.hpp>
#include <string>

namespace ringload::inline v0 {

/// A snapshot of one load. The padding of aligned reads counts in `bytes_direct` and
/// `bytes_buffered`, but not in `bytes`.
struct load_stats {
  std::uint64_t bytes = 0;        // Of loaded tensors.
  std::uint64_t bytes_total = 0;  // Of all tensors of the load.
  std::uint64_t tensors = 0;      // Loaded.
  std::uint64_t tensors_total = 0;

  std::uint64_t bytes_direct = 0;    // Read with O_DIRECT.
  std::uint64_t bytes_buffered = 0;  // Read through the page cache.
  std::uint64_t bytes_straight = 0;  // Of both, those read into their final memory without a copy.
  std::uint64_t bytes_mapped = 0;    // Of loaded tensors that are views of their files.
  std::uint64_t bytes_remote = 0;    // Of objects of a store, as over HTTP.
  std::uint64_t reads = 0;           // Started; one that is repeated by another route counts twice.
  std::uint64_t short_reads = 0;     // Returned fewer bytes than requested, and were resumed.
  std::uint64_t retries = 0;         // After EINTR or EAGAIN.
  std::uint64_t bytes_verified = 0;  // Of tensors that match the manifest or their file's digest.

  std::uint64_t requests = 0;           // That a store has counted, without those that opened it.
  std::uint64_t requests_repeated = 0;  // Of these, after one that failed.

  double seconds = 0;                  // From the call to the end of the load, or to now.
  double seconds_to_first_tensor = 0;  // From the call to the first tensor; 0 until then.
  double seconds_to_first_byte = 0;  // From the call to the first byte from a store; 0 until then.
  double seconds_opening = 0;        // From the call until catalog and plan were made.
  double seconds_device_wait = 0;    // Summed over slots: waiting for copies after a read.
  double seconds_memory_wait = 0;    // Summed over slots: populating host memory.

  bool memory_kept = false;  // Memory, or some of it, was reused from an earlier load.

  /// What the loader as a whole uses.
  read_engine engine = read_engine::automatic;  // `ring` or `threads`, never `automatic`.
  std::string engine_reason;                    // Why that one.
  std::string route_reason;  // Why reads were buffered though direct was wanted; else empty.
  std::uint64_t pinned_bytes_peak = 0;  // Of the slots that were needed; at most all of them.
  std::uint64_t bytes_in_flight = 0;    // As given in loader_options, or as tuned so far.
  bool slots_registered = false;        // With the ring, all that were needed: saves CPU, not time.
  std::string registration_reason;      // Why not; else empty.
  std::string page_kind;              // Of the first slot that was needed: "hugetlb", "thp", "4k".
  std::string pinning_reason;         // Why a GPU's driver did not pin all of them; else empty.
  std::string page_kind_reason;       // Why not "hugetlb" although wanted, if not; else empty.
  double longest_submit_seconds = 0;  // The longest io_uring submission.

  /// For a progress bar, out of `bytes_total`: bytes that have been read, also those of tensors
  /// that are not complete yet, which `bytes` leaves out.
  std::uint64_t bytes_arrived() const noexcept {
    return std::min(bytes_total, bytes_direct + bytes_buffered + bytes_mapped + bytes_remote);
  }
};

/// What has come of one file, or object of a store: a snapshot of a load, or what it ended with.
/// What was read to know the catalog, as a header, does not count.
struct file_stats {
  std::uint64_t bytes_read = 0;      // With the padding of aligned reads.
  double seconds_to_first_read = 0;  // From the call to the start of its first read; 0 until then.
  double seconds_reading = 0;        // From that start to the last bytes that have come.

  /// 0 until something has come.
  double bytes_per_second() const noexcept {
    return seconds_reading > 0 ? static_cast<double>(bytes_read) / seconds_reading : 0;
  }
};

/// Memory of one loader: of its device, unless another is named.
struct memory_use {
  std::uint64_t tensor_bytes = 0;        // That loads in progress, models and tensors hold.
  std::uint64_t tensor_bytes_peak = 0;   // The most that these were at any time.
  std::uint64_t tensor_allocations = 0;  // In so many pieces.
  std::uint64_t pinned_bytes = 0;        // Of the host, of slots that were needed.
  /// Of files, mapped for tensors that somebody holds: addresses, not memory. The page cache has
  /// the pages; those that are written to, copy on write, are counted nowhere.
  std::uint64_t mapped_bytes = 0;
  std::uint64_t mappings = 0;
};

}  // namespace ringload::inline v0
