// SPDX-License-Identifier: Apache-2.0
#pragma once

// Completes the operations of the public API that wait for a load. Their results are tensors, the
// model, an opened checkpoint, a filled destination or a copied tensor. If the load has a window
// (see load_window.hpp), a tensor_sequence delivers the tensors instead. The class `job` is a
// running load.
//
// All functions must be called in the engine thread, unless stated otherwise.

#include <cstdint>
#include <memory>
#include <optional>
#include <ringload/load_operation.hpp>

#include "load/load_waiters.hpp"

namespace ringload::inline v0::detail {

class job;

// Delivers tensors in order. Implemented by load_window.
class tensor_sequence {
 public:
  virtual ~tensor_sequence() = default;

  // Completes with the next tensor, or with an empty optional after the last tensor.
  virtual void next(std::unique_ptr<operation<std::optional<tensor>>> waiting) = 0;
  virtual void cancel() noexcept = 0;
};

class load_delivery {
 public:
  explicit load_delivery(job& load) : load_(load) {}  // May allocate memory.
  load_delivery(const load_delivery&) = delete;
  load_delivery& operator=(const load_delivery&) = delete;

  // ---- Operations of the public API ----

  // Each function adds an operation that waits. If an operation of await_tensor() or await_next()
  // is cancelled, only this operation ends. If any other operation is cancelled, the load is
  // cancelled too.
  void await_tensor(std::uint32_t t, std::unique_ptr<operation<tensor>> waiting);
  void await_next(std::unique_ptr<operation<std::optional<tensor>>> waiting);
  void await_finish(std::unique_ptr<operation<model>> waiting);
  void await_start(std::unique_ptr<operation<load_handle>> waiting);
  void await_open(std::unique_ptr<operation<checkpoint>> waiting);
  void await_fill(std::unique_ptr<operation<fill_result>> waiting);
  void await_copy(std::unique_ptr<operation<tensor>> waiting);

  bool awaits_open() const noexcept { return !waiters_.open.empty(); }
  bool awaits_tensor(std::uint32_t t) const noexcept { return waiters_.tensors.contains(t); }

  // ---- Called by the load ----

  // Makes finish() drop the job's reference to the tensors. Must not be called if the user has a
  // `load_operation`, because the user may request tensors from the `load_operation` later.
  void deliver_once() noexcept { delivers_once_ = true; }
  void set_window(std::shared_ptr<tensor_sequence> window) { window_ = std::move(window); }
  // Must be called when the catalog and the plan of the load no longer change.
  void started();
  void deliver(std::uint32_t t);
  void deliver_next();
  // Fails all waiting and all later operations of a stopped load whose reads have not ended. Must
  // not be called while a read, a copy or a check uses memory of the caller.
  void fail_waiting() noexcept;
  // Completes all waiting operations at the end of the load.
  void finish() noexcept;

  // ---- May be called from any thread after the load has started ----

  const std::shared_ptr<tensor_sequence>& window() const noexcept { return window_; }

 private:
  template <class T>
  void forward_cancel(operation<T>& waiting) const;
  void forward_cancel_until_start(operation<load_handle>& waiting) const;
  template <class T>
  void end_wait(std::unique_ptr<operation<T>> waiting) const;
  void trace_delivery(std::uint32_t t) const;
  void trace_model_delivery() const;
  void complete_fill() noexcept;
  // Returns true if operations that begin now fail at once.
  bool fails_at_once() const noexcept;

  job& load_;
  load_waiters waiters_;
  std::shared_ptr<tensor_sequence> window_;
  bool delivers_once_ = false;
  bool fails_waiting_ = false;  // True after fail_waiting().
};

}  // namespace ringload::inline v0::detail
