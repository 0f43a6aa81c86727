// SPDX-License-Identifier: Apache-2.0
#pragma once

// Statistics of a load and of its loader, for operators and benchmarks.

#include <algorithm>
#include <cstdint>
#include <ringload/options.hpp>
#include <string>

namespace ringload::inline v0 {

/// The statistics of one load at one point in time. `bytes_direct` and `bytes_buffered` include the
/// padding of aligned reads. `bytes` does not include padding.
struct load_stats {
  std::uint64_t bytes = 0;        // The total size of all loaded tensors.
  std::uint64_t bytes_total = 0;  // The total size of all tensors of the load.
  std::uint64_t tensors = 0;      // The number of loaded tensors.
  /// The number of tensors of the load.
  std::uint64_t tensors_total = 0;

  std::uint64_t bytes_direct = 0;    // Bytes that were read with O_DIRECT.
  std::uint64_t bytes_buffered = 0;  // Bytes that were read through the page cache.
  /// The part of `bytes_direct` and `bytes_buffered` that was read into its final memory without a
  /// copy.
  std::uint64_t bytes_unstaged = 0;
  /// The part of `bytes_direct` that was read by GPUDirect Storage, without host memory.
  std::uint64_t bytes_gpu_direct = 0;
  std::uint64_t bytes_mapped = 0;  // The total size of loaded tensors that are mapped from files.
  std::uint64_t bytes_remote = 0;  // Bytes that were read from a store, such as an HTTP server.
  /// The number of started reads. If a failed direct read is repeated through the page cache, the
  /// two reads are counted.
  std::uint64_t reads = 0;
  /// The number of reads that returned fewer bytes than requested and were resumed.
  std::uint64_t short_reads = 0;
  std::uint64_t retries = 0;  // The number of reads that were repeated after EINTR or EAGAIN.
  /// The number of second reads. If a read on a distant mount stalls, the loader issues a second
  /// read of the same bytes, at most twice. `reads` and the byte counts do not include second
  /// reads.
  std::uint64_t second_reads = 0;
  /// The number of second reads that succeeded before the other reads of the same bytes.
  std::uint64_t second_reads_won = 0;
  /// The total size of tensors that match a digest of a checksum list or of their file.
  std::uint64_t bytes_verified = 0;
  /// The number of files of a model hub that were not compared with the hub's digest. One reason is
  /// that the load read only a part of the file. <ringload/hub.hpp> lists all reasons. Set at the
  /// end of the load.
  std::uint64_t files_unverified = 0;

  /// The number of requests to a store. Requests for opening the checkpoint do not count.
  std::uint64_t requests = 0;
  std::uint64_t requests_repeated = 0;  // The number of requests that repeat a failed request.

  /// The time from the call that began the load to the end of the load. During the load, the time
  /// from this call until now.
  double seconds = 0;
  /// The time from the call that began the load until the first tensor was loaded. 0 if no tensor
  /// is loaded yet.
  double seconds_to_first_tensor = 0;
  /// The time from the call that began the load until the first byte from a store. 0 if no byte has
  /// arrived yet.
  double seconds_to_first_byte = 0;
  /// The time from the call that began the load until the catalog was read and the reads were
  /// planned.
  double seconds_opening = 0;
  /// The time during which copies from slots were active, as a sum over all slots. A slot cannot be
  /// used for another read before its copies end. Reads without staging (`bytes_unstaged`) need no
  /// copy.
  double seconds_device_wait = 0;
  /// The time during which slots waited until host memory was populated, as a sum over all slots.
  double seconds_memory_wait = 0;

  /// The number of bytes that were read to find the tensors, as a sum over all files: see
  /// `file_info::header_bytes`.
  std::uint64_t header_bytes = 0;

  bool memory_kept = false;  // True if the load reused memory of an earlier load.

  /// The read engine in use: `ring` or `threads`. This field and the fields below describe the
  /// whole loader, except for `route_reason` and `gpu_direct_reason`.
  read_engine engine = read_engine::automatic;
  std::string engine_reason;  // The reason for this read engine.
  /// The reason why the system refused direct reads of this load. Empty if no read was refused.
  std::string route_reason;
  /// The reason why this load, or the whole loader, does not use GPUDirect Storage. Empty if
  /// GPUDirect Storage is used or was not requested.
  std::string gpu_direct_reason;
  /// The number of threads that the loader has started. Threads of the network, of GPU drivers and
  /// of the kernel do not count, and 0 means that the loader is closed.
  std::uint32_t threads = 0;
  std::uint64_t pinned_bytes_peak = 0;  // The total size of all allocated slots.
  /// The limit for bytes in flight: the value in loader_options, or the tuned value. If the loader
  /// reads from several drives, this is the largest value.
  std::uint64_t bytes_in_flight = 0;
  /// True if all used slots are registered with the io_uring. Registration saves CPU time.
  bool slots_registered = false;
  std::string registration_reason;  // The reason if `slots_registered` is false. Otherwise empty.
  std::string page_kind;            // The page size of the first slot: "hugetlb", "thp" or "4k".
  /// The reason why the driver of a GPU did not pin all slots. Empty if all slots are pinned.
  std::string pinning_reason;
  /// The reason why reserved huge pages are not used. Empty if reserved huge pages are used or were
  /// not requested.
  std::string page_kind_reason;
  double longest_submit_seconds = 0;  // The duration of the longest io_uring submission.

  /// Returns the number of bytes that have been read, at least `bytes` and at most `bytes_total`.
  /// Use this number for a progress bar. Unlike `bytes`, this number includes bytes of tensors that
  /// are not complete yet. A load reads fewer bytes than `bytes_total` if tensors are compressed or
  /// replicated. Because the number is at least `bytes`, it reaches `bytes_total` at the end.
  std::uint64_t bytes_arrived() const noexcept {
    const std::uint64_t bytes_read = bytes_direct + bytes_buffered + bytes_mapped + bytes_remote;
    return std::min(bytes_total, std::max(bytes, bytes_read));
  }
};

/// Statistics of one file, or of one object of a store. Reads of the catalog, such as reads of
/// headers, do not count.
struct file_stats {
  /// The number of bytes read, including the padding of aligned reads.
  std::uint64_t bytes_read = 0;
  /// The time from the call that began the load to the start of the first read. 0 if no read has
  /// started yet.
  double seconds_to_first_read = 0;
  /// The time from the start of the first read to the end of the latest completed read.
  double seconds_reading = 0;
  /// The time during which copies of this file's bytes from slots were active, as a sum over all
  /// slots. The sum over all files is `load_stats::seconds_device_wait`.
  double seconds_device_wait = 0;

  /// Returns the mean throughput. Returns 0 if no bytes are read yet.
  double bytes_per_second() const noexcept {
    return seconds_reading > 0 ? static_cast<double>(bytes_read) / seconds_reading : 0;
  }
};

/// The memory that one loader uses at present. Unless stated otherwise, the memory is on the
/// devices of the loader.
struct memory_use {
  std::uint64_t tensor_bytes = 0;  // Memory that is held by loads in progress, models and tensors.
  std::uint64_t tensor_bytes_peak = 0;   // The highest value of `tensor_bytes` so far.
  std::uint64_t tensor_allocations = 0;  // The number of allocations for tensors.
  std::uint64_t pinned_bytes = 0;        // Host memory of all slots that are allocated so far.
  /// The address space of mapped files whose tensors are held. The pages belong to the page cache.
  /// Pages that were copied on write do not count.
  std::uint64_t mapped_bytes = 0;
  /// The number of mappings of files.
  std::uint64_t mappings = 0;
};

}  // namespace ringload::inline v0
