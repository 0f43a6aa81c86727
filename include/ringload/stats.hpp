// SPDX-License-Identifier: Apache-2.0
#pragma once

// Statistics of a load and of its loader, for operators and benchmarks.

#include <algorithm>
#include <cstdint>
#include <ringload/options.hpp>
#include <string>

namespace ringload::inline v0 {

/// A snapshot of one load. Padding of aligned reads counts in `bytes_direct` and `bytes_buffered`,
/// but not in `bytes`.
struct load_stats {
  std::uint64_t bytes = 0;        // Bytes of loaded tensors.
  std::uint64_t bytes_total = 0;  // Bytes of all tensors of the load.
  std::uint64_t tensors = 0;      // Number of loaded tensors.
  std::uint64_t tensors_total = 0;

  std::uint64_t bytes_direct = 0;    // Read with O_DIRECT.
  std::uint64_t bytes_buffered = 0;  // Read through the page cache.
  /// Part of both that was read into its final memory without a copy.
  std::uint64_t bytes_straight = 0;
  std::uint64_t bytes_mapped = 0;  // Bytes of loaded tensors that are mapped from files.
  std::uint64_t bytes_remote = 0;  // Bytes read from a store, such as an HTTP server.
  std::uint64_t reads = 0;         // Started reads; a read repeated by another route counts twice.
  /// Reads that returned fewer bytes than requested and were resumed.
  std::uint64_t short_reads = 0;
  std::uint64_t retries = 0;  // Repetitions after EINTR or EAGAIN.
  /// Bytes of tensors that match the manifest or their file's digest.
  std::uint64_t bytes_verified = 0;

  std::uint64_t requests = 0;           // Requests to a store, without requests for opening.
  std::uint64_t requests_repeated = 0;  // Part of `requests` that repeats a failed request.

  double seconds = 0;                  // From the call to the end of the load, or to now.
  double seconds_to_first_tensor = 0;  // From the call to the first tensor; 0 until then.
  double seconds_to_first_byte = 0;  // From the call to the first byte from a store; 0 until then.
  double seconds_opening = 0;        // From the call until catalog and plan are complete.
  double seconds_device_wait = 0;    // Sum over slots: time waiting for copies after a read.
  double seconds_memory_wait = 0;    // Sum over slots: time populating host memory.

  bool memory_kept = false;  // Whether memory of an earlier load was reused.

  /// Fields of the whole loader.
  read_engine engine = read_engine::automatic;  // `ring` or `threads`, never `automatic`.
  std::string engine_reason;                    // Reason for the engine.
  /// Reason for buffered reads if direct reads were requested; else empty.
  std::string route_reason;
  std::uint64_t pinned_bytes_peak = 0;  // Bytes of all slots used so far.
  std::uint64_t bytes_in_flight = 0;    // The value of loader_options, or the tuned value.
  /// Whether the ring has registered all used slots, which saves CPU time.
  bool slots_registered = false;
  std::string registration_reason;    // Reason if `slots_registered` is false; else empty.
  std::string page_kind;              // Pages of the first slot: "hugetlb", "thp", "4k".
  std::string pinning_reason;         // Reason if a GPU's driver did not pin all slots; else empty.
  std::string page_kind_reason;       // Reason if "hugetlb" was requested but not used; else empty.
  double longest_submit_seconds = 0;  // The longest io_uring submission.

  /// The bytes read so far, for a progress bar out of `bytes_total`. Unlike `bytes`, the value
  /// includes bytes of incomplete tensors.
  std::uint64_t bytes_arrived() const noexcept {
    return std::min(bytes_total, bytes_direct + bytes_buffered + bytes_mapped + bytes_remote);
  }
};

/// Statistics of one file or store object: a snapshot during the load, or the final values. Reads
/// of the catalog, such as headers, do not count.
struct file_stats {
  std::uint64_t bytes_read = 0;      // Bytes with the padding of aligned reads.
  double seconds_to_first_read = 0;  // From the call to the start of its first read; 0 until then.
  double seconds_reading = 0;  // From the start of the first read to the latest completed read.

  /// Returns 0 until the first bytes are read.
  double bytes_per_second() const noexcept {
    return seconds_reading > 0 ? static_cast<double>(bytes_read) / seconds_reading : 0;
  }
};

/// Memory of one loader, on its device unless the field names another place.
struct memory_use {
  std::uint64_t tensor_bytes = 0;        // Held by loads in progress, models and tensors.
  std::uint64_t tensor_bytes_peak = 0;   // Peak of `tensor_bytes`.
  std::uint64_t tensor_allocations = 0;  // Number of allocations for tensors.
  std::uint64_t pinned_bytes = 0;        // Host memory of slots in use.
  /// Address space of mapped files whose tensors are held. The pages belong to the page cache.
  /// Pages that are copied on write are not counted.
  std::uint64_t mapped_bytes = 0;
  std::uint64_t mappings = 0;
};

}  // namespace ringload::inline v0
