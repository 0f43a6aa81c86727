// SPDX-License-Identifier: Apache-2.0
#pragma once

// Several ranks (processes or threads) read a checkpoint together. A group_job is the part of this
// load on one rank. Its calls run one after another in a thread of the job. Each call first checks
// that all ranks make the same call. Before a rank sends data, it also makes the checks whose
// result is the same on every rank.

#include <memory>
#include <mutex>
#include <optional>
#include <ringload/checkpoint.hpp>
#include <ringload/group_load.hpp>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "device/backend.hpp"
#include "ranks/redistribute.hpp"
#include "runtime/cancel_step.hpp"
#include "runtime/step_thread.hpp"

namespace ringload::inline v0::detail {

class group_job {
 public:
  group_job(loader& rank_loader, std::shared_ptr<group> rank_group, const group_options& options);

  step_thread& thread() noexcept { return thread_; }
  const checkpoint& file() const noexcept { return file_; }
  load_stats stats() const;

  // The functions below must be called in the thread of the job. After a cancellation, or after a
  // failure that only this rank reports, all later calls of the group fail.
  result<void> open(const source& from, cancel_request& cancel);
  result<tensor> make(const group_call& call, cancel_request& cancel);
  result<model> make_model(const group_call& call, cancel_request& cancel);

 private:
  // A tensor of a call: its index in the catalog, and its description in memory.
  struct named_tensor {
    std::uint32_t index = 0;
    tensor_info loaded;
  };

  template <class T, class Work>
  result<T> run_step(cancel_request& cancel, const Work& work);
  void open_and_read(const source& from);
  bool compare_files();
  void read(const std::vector<read_piece>& pieces);
  std::vector<named_tensor> find(const group_call& call) const;
  void check(const group_call& call, const std::vector<named_tensor>& tensors) const;
  std::vector<named_tensor> agree_on(const group_call& call);
  tensor run(const group_call& call, const std::vector<named_tensor>& tensors);
  tensor make_whole(const named_tensor& tensor_ref);
  tensor make_pushed(const named_tensor& tensor_ref, std::uint32_t receiver);
  tensor make_shard(const named_tensor& tensor_ref, std::uint32_t dim);
  tensor make_block(const named_tensor& tensor_ref, std::uint32_t dim);
  bool has_own_block(const named_tensor& tensor_ref, std::uint32_t dim) const noexcept;
  tensor make_fused(const group_call& call, const std::vector<named_tensor>& tensors);
  model gather_model(const group_call& call);
  model load(const selection& wanted);
  // Loads tensors for this rank alone, and adds the statistics to `own_reads_`.
  model load_alone(const selection& wanted);
  tensor_info block_info(const named_tensor& tensor_ref, std::uint32_t dim) const;
  tensor_builder make_builder(tensor_info info) const;

  loader& loader_;
  const std::shared_ptr<group> group_;
  const group_options options_;
  const device on_;                        // The device of the loader.
  const std::unique_ptr<backend> memory_;  // Memory of the device.
  const std::shared_ptr<step_cancellation> cancellation_;
  checkpoint file_;
  // Empty for `group_reading::own`: each rank then reads all bytes that it needs, and the ranks
  // exchange no data.
  std::optional<redistribution> redistribution_;
  mutable std::mutex mutex_;
  // Statistics of the reads after the load has started. Guarded by the mutex.
  load_stats own_reads_;
  // The last member, because its destructor waits for steps, which use all members above.
  step_thread thread_;
};

}  // namespace ringload::inline v0::detail
