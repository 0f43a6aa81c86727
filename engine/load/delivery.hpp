// SPDX-License-Identifier: Apache-2.0
#pragma once

// Delivers the results of a load to the waiting operations: tensors as they land, the model, an
// opened checkpoint, a filled destination, a copy. With a window, a tensor_sequence delivers the
// tensors instead of the load.
//
// Engine thread only, unless stated otherwise.

#include <cstdint>
#include <memory>
#include <optional>
#include <ringload/load_operation.hpp>
#include <ringload/stats.hpp>

#include "load/load_waiters.hpp"

namespace ringload::inline v0::detail {

class job;

// Hands out tensors in order. Implemented by load_window.
class tensor_sequence {
 public:
  virtual ~tensor_sequence() = default;

  // Completes with the next tensor, or with an empty optional after the last tensor.
  virtual void next(std::unique_ptr<operation<std::optional<tensor>>> waiting) = 0;
  virtual void cancel() noexcept = 0;
  // Any thread.
  virtual void fill_stats(load_stats& stats) const = 0;
};

class load_delivery {
 public:
  explicit load_delivery(job& load) : load_(load) {}  // May allocate.
  load_delivery(const load_delivery&) = delete;
  load_delivery& operator=(const load_delivery&) = delete;

  // ---- Operations of the public API ----

  // Cancelling await_tensor() or await_next() ends the wait. Cancelling any other operation cancels
  // the load.
  void await_tensor(std::uint32_t t, std::unique_ptr<operation<tensor>> waiting);
  void await_next(std::unique_ptr<operation<std::optional<tensor>>> waiting);
  void await_finish(std::unique_ptr<operation<model>> waiting);
  void await_start(std::unique_ptr<operation<load_operation>> waiting);
  void await_open(std::unique_ptr<operation<checkpoint>> waiting);
  void await_fill(std::unique_ptr<operation<fill_result>> waiting);
  void await_copy(std::unique_ptr<operation<tensor>> waiting);

  bool awaits_open() const noexcept { return !waiters_.open.empty(); }
  bool awaits_tensor(std::uint32_t t) const noexcept { return waiters_.tensors.contains(t); }

  // ---- Events of the load ----

  // No caller has a `load_operation`, so each result is handed out once, and the load keeps no
  // reference.
  void hand_out_once() noexcept { hands_out_once_ = true; }
  void set_window(std::shared_ptr<tensor_sequence> window) { window_ = std::move(window); }
  // The catalog and the plan are fixed.
  void started();
  // A tensor is complete.
  void landed(std::uint32_t t);
  // Completes the operations that wait for any tensor.
  void hand_out_next();
  // The load is over: completes all waiting operations.
  void finish() noexcept;

  // ---- Any thread, once the load has started ----

  const std::shared_ptr<tensor_sequence>& window() const noexcept { return window_; }

 private:
  template <class T>
  void cancels_load(operation<T>& waiting) const;
  template <class T>
  void refuse_in_window(std::unique_ptr<operation<T>> waiting) const;
  template <class T>
  void end_wait(std::unique_ptr<operation<T>> waiting) const;
  void trace_hand_out(std::uint32_t t) const;
  void trace_model_handed_out() const;
  void complete_fill() noexcept;

  job& load_;
  load_waiters waiters_;
  std::shared_ptr<tensor_sequence> window_;
  bool hands_out_once_ = false;
};

}  // namespace ringload::inline v0::detail
