// SPDX-License-Identifier: Apache-2.0
#pragma once

// One rank's side of a load by many ranks. Each call runs in the rank's own thread and begins with
// an agreement. A fault that is the same on all ranks is reported before any data moves.

#include <memory>
#include <mutex>
#include <optional>
#include <ringload/checkpoint.hpp>
#include <ringload/group_load.hpp>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "device/backend.hpp"
#include "ranks/cancel_rank.hpp"
#include "ranks/redistribute.hpp"
#include "ranks/step_thread.hpp"

namespace ringload::inline v0::detail {

class group_job {
 public:
  group_job(loader& host_loader, std::shared_ptr<group> ranks, const group_options& options);

  step_thread& thread() noexcept { return thread_; }
  const checkpoint& file() const noexcept { return file_; }
  load_stats stats() const;

  // Called in the thread of the job. A failure of this rank only, and a cancellation, end the
  // group.
  result<void> open(const std::string& source, cancel_request& cancel);
  result<tensor> make(const group_call& call, cancel_request& cancel);

 private:
  // A tensor of a call and its description after loading.
  struct named_tensor {
    std::uint32_t index = 0;
    tensor_info landed;
  };

  template <class T, class Work>
  result<T> guarded(cancel_request& cancel, const Work& work);
  void open_and_read(const std::string& source);
  void read(const std::vector<read_piece>& pieces);
  std::vector<named_tensor> find(const group_call& call) const;
  void check(const group_call& call, const std::vector<named_tensor>& tensors) const;
  tensor carry_out(const group_call& call, const std::vector<named_tensor>& tensors);
  tensor whole(const named_tensor& tensor_ref);
  tensor pushed(const named_tensor& tensor_ref, std::uint32_t to);
  tensor block(const named_tensor& tensor_ref, std::uint32_t dim);
  tensor fused(const group_call& call, const std::vector<named_tensor>& tensors);
  tensor load_alone(const selection& wanted, const std::string& name);
  tensor_info block_info(const named_tensor& tensor_ref, std::uint32_t dim) const;
  tensor_builder make_new(tensor_info info);

  loader& loader_;
  const std::shared_ptr<group> ranks_;
  const group_options options_;
  const std::unique_ptr<backend> memory_;
  const std::shared_ptr<interruption> stop_;
  checkpoint file_;
  std::optional<exchange> exchange_;  // Empty: each rank reads its own tensors.
  mutable std::mutex mutex_;
  load_stats own_reads_;  // Guarded by the mutex: the reads of the calls without an exchange.
  step_thread thread_;    // Last member, because its steps use all members above.
};

}  // namespace ringload::inline v0::detail
