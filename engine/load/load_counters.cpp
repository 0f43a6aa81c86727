// SPDX-License-Identifier: Apache-2.0
#include "load/load_counters.hpp"

#include <algorithm>

namespace ringload::inline v0::detail {

namespace {

template <class Integer>
double seconds(const std::atomic<Integer>& nanoseconds) {
  return static_cast<double>(nanoseconds.load()) * 1e-9;
}

}  // namespace

std::int64_t load_counters::nanoseconds_since_begun() const noexcept {
  return std::max<std::int64_t>(1, std::chrono::nanoseconds(clock::now() - start_time_).count());
}

void load_counters::set_route_reason(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (route_reason_.empty()) route_reason_ = reason;
}

void load_counters::set_gpu_direct_reason(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (gpu_direct_reason_.empty()) gpu_direct_reason_ = reason;
}

void load_counters::fill_stats(load_stats& s) const {
  s.bytes = bytes;
  s.bytes_total = bytes_total;
  s.tensors = tensors;
  s.tensors_total = tensors_total;
  s.bytes_direct = bytes_direct;
  s.bytes_buffered = bytes_buffered;
  s.bytes_unstaged = bytes_unstaged;
  s.bytes_gpu_direct = bytes_gpu_direct;
  s.bytes_mapped = bytes_mapped;
  s.bytes_remote = bytes_remote;
  s.requests = transfers.requests;
  s.requests_repeated = transfers.retries;
  const std::int64_t first_byte = transfers.first_byte_at;
  const std::int64_t start_nanoseconds =
      std::chrono::nanoseconds(start_time_.time_since_epoch()).count();
  s.seconds_to_first_byte =
      first_byte == 0 ? 0 : static_cast<double>(first_byte - start_nanoseconds) * 1e-9;
  s.bytes_verified = bytes_verified;
  s.files_unverified = files_unverified;
  s.header_bytes = header_bytes;
  s.reads = reads;
  s.short_reads = short_reads;
  s.retries = retries;
  s.second_reads = second_reads.issued;
  s.second_reads_won = second_reads.won;
  s.seconds =
      ended_at_ != 0 ? seconds(ended_at_) : static_cast<double>(nanoseconds_since_begun()) * 1e-9;
  s.seconds_to_first_tensor = seconds(first_tensor_at_);
  s.seconds_opening = seconds(opened_at_);
  s.seconds_device_wait = seconds(device_wait_nanoseconds);
  s.seconds_memory_wait = seconds(memory_wait_nanoseconds);
  s.memory_kept = memory_kept;
  const std::lock_guard lock(mutex_);
  s.route_reason = route_reason_;
  if (!gpu_direct_reason_.empty()) s.gpu_direct_reason = gpu_direct_reason_;
}

}  // namespace ringload::inline v0::detail
