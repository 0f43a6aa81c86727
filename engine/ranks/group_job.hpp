// SPDX-License-Identifier: Apache-2.0
#pragma once

// One rank's side of a load of many: what it does in its own thread, call by call. Every call
// begins with an agreement, and what is wrong in the same way on all ranks is said before anything
// moves.

#include <memory>
#include <mutex>
#include <optional>
#include <ringload/checkpoint.hpp>
#include <ringload/group_load.hpp>
#include <string>
#include <vector>

#include "core/fault.hpp"
#include "device/backend.hpp"
#include "ranks/exchange.hpp"
#include "ranks/interruption.hpp"
#include "ranks/step_thread.hpp"

namespace ringload::inline v0::detail {

class group_job {
 public:
  group_job(loader& with, std::shared_ptr<group> ranks, const group_options& how);

  step_thread& thread() noexcept { return thread_; }
  const checkpoint& file() const noexcept { return file_; }
  load_stats stats() const;

  // In the thread. What fails on this rank alone ends the group, and so does what is cancelled.
  result<void> open(const std::string& source, cancel_request& by);
  result<tensor> make(const group_call& what, cancel_request& by);

 private:
  // One of a call's tensors, as it lands whole.
  struct named_tensor {
    std::uint32_t index = 0;
    tensor_info landed;
  };

  template <class T, class Work>
  result<T> guarded(cancel_request& by, const Work& work);
  void open_and_read(const std::string& source);
  void read(const std::vector<read_piece>& pieces);
  std::vector<named_tensor> find(const group_call& what) const;
  void check(const group_call& what, const std::vector<named_tensor>& of) const;
  tensor carry_out(const group_call& what, const std::vector<named_tensor>& of);
  tensor whole(const named_tensor& one);
  tensor pushed(const named_tensor& one, std::uint32_t to);
  tensor block(const named_tensor& one, std::uint32_t dim);
  tensor fused(const group_call& what, const std::vector<named_tensor>& of);
  tensor load_alone(const selection& wanted, const std::string& name);
  tensor_info block_info(const named_tensor& one, std::uint32_t dim) const;
  new_tensor make_new(tensor_info what);

  loader& with_;
  const std::shared_ptr<group> all_;
  const group_options how_;
  const std::unique_ptr<backend> memory_;
  const std::shared_ptr<interruption> stop_;
  checkpoint file_;
  std::optional<exchange> exchange_;  // Empty: each reads its own.
  mutable std::mutex mutex_;
  load_stats own_reads_;  // Guarded by the mutex: what the calls have read, without an exchange.
  step_thread thread_;    // Last: its steps use all of the above.
};

}  // namespace ringload::inline v0::detail
