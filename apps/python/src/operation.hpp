// SPDX-License-Identifier: Apache-2.0
#pragma once

// An operation of the library for Python. Its result is kept until Python requests it.
//
//   engine thread      settle(): stores the result, wakes waiting threads; never takes the GIL
//   Python's threads   wait, without the GIL; subscribe a waker, whose descriptor an event loop
//                      polls; take the result; cancel

#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/execution_context.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <ringload/checkpoint.hpp>
#include <ringload/delta.hpp>
#include <ringload/diagnostics.hpp>
#include <ringload/fill.hpp>
#include <ringload/group.hpp>
#include <ringload/group_load.hpp>
#include <ringload/load_operation.hpp>
#include <ringload/model.hpp>
#include <ringload/save.hpp>
#include <ringload/tensor.hpp>
#include <ringload/writer.hpp>
#include <utility>
#include <variant>
#include <vector>

namespace ringload::python {

/// Collects the tokens of operations that ended, and makes an eventfd readable.
class waker {
 public:
  waker();  // Throws `std::system_error`.
  waker(const waker&) = delete;
  waker& operator=(const waker&) = delete;
  ~waker();

  int descriptor() const noexcept { return event_; }
  void add(std::uint64_t token);
  /// Returns the tokens since the last call. Afterwards the descriptor is not readable.
  std::vector<std::uint64_t> drain();

 private:
  const int event_;
  std::mutex mutex_;  // Guards the members below.
  std::vector<std::uint64_t> tokens_;
};

/// An empty tensor means that the load has no further tensor.
using any_result = std::variant<std::monostate, checkpoint, model, load_operation, tensor_stream,
                                tensor, fill_result, save_result, std::uint64_t, write_result,
                                std::shared_ptr<group>, group_load, delta_result, update_result>;

class operation_state {
 public:
  void settle(const boost::system::error_code& code, any_result result) noexcept;
  /// For work that is not an operation of the library.
  void settle(std::exception_ptr failure, any_result result) noexcept;

  /// Receives the place of the operation's failure before the operation settles.
  diagnostics& failure_info() noexcept { return info_; }

  /// Waits at most `time`. Returns true if the operation has ended.
  bool wait_for(std::chrono::milliseconds time);
  bool ended() const;
  /// Passes the token to `with` when the operation ends, or at once if it has ended.
  void subscribe(std::shared_ptr<waker> with, std::uint64_t token);
  void cancel();

  /// Returns the result of an operation that has ended, or throws its failure. May be called once.
  any_result take();

  void set_cancel(std::function<void(boost::asio::cancellation_type)> request);

 private:
  void settle_locked(any_result result) noexcept;

  diagnostics info_;          // Constant after the operation has ended.
  mutable std::mutex mutex_;  // Guards the members below.
  std::condition_variable over_;
  bool ended_ = false;
  boost::system::error_code code_;
  std::exception_ptr failure_;
  any_result result_;
  std::function<void(boost::asio::cancellation_type)> request_cancel_;
  std::vector<std::pair<std::shared_ptr<waker>, std::uint64_t>> subscribers_;
};

/// Runs a completion in the calling thread, because the completion only settles a state.
class settling_executor {
 public:
  explicit settling_executor(boost::asio::execution_context& in) noexcept : context_(&in) {}

  boost::asio::execution_context& query(boost::asio::execution::context_t) const noexcept {
    return *context_;
  }
  static constexpr boost::asio::execution::blocking_t::never_t query(
      boost::asio::execution::blocking_t) noexcept {
    return boost::asio::execution::blocking.never;
  }
  template <class Function>
  void execute(Function&& complete) const {
    std::forward<Function>(complete)();
  }
  friend bool operator==(const settling_executor& a, const settling_executor& b) noexcept = default;

 private:
  boost::asio::execution_context* context_;
};

/// A cancellation slot that one thread may clear while another thread cancels. Asio's slot does not
/// allow this.
class cancel_slot {
 public:
  explicit cancel_slot(std::shared_ptr<operation_state> of) noexcept : of_(std::move(of)) {}

  bool is_connected() const noexcept { return of_ != nullptr; }
  template <class Handler>
  void assign(Handler&& handler) {
    of_->set_cancel(std::forward<Handler>(handler));
  }
  void clear() { of_->set_cancel(nullptr); }
  friend bool operator==(const cancel_slot&, const cancel_slot&) noexcept = default;

 private:
  std::shared_ptr<operation_state> of_;
};

/// The completion handler of an operation with a result of type T.
template <class T>
class settling_handler {
 public:
  using executor_type = settling_executor;
  using cancellation_slot_type = cancel_slot;
  using diagnostics_type = diagnostics*;

  settling_handler(std::shared_ptr<operation_state> of, settling_executor on) noexcept
      : of_(std::move(of)), on_(on) {}

  executor_type get_executor() const noexcept { return on_; }
  cancellation_slot_type get_cancellation_slot() const noexcept { return cancel_slot(of_); }
  diagnostics_type get_diagnostics() const noexcept { return &of_->failure_info(); }

  void operator()(const boost::system::error_code& code, T value) {
    of_->settle(code, result_of(std::move(value)));
  }

 private:
  template <class V>
  static any_result result_of(V value) {
    return any_result(std::in_place_type<V>, std::move(value));
  }
  static any_result result_of(std::optional<tensor> next) {
    return any_result(std::in_place_type<tensor>, next ? std::move(*next) : tensor());
  }

  std::shared_ptr<operation_state> of_;
  settling_executor on_;
};

}  // namespace ringload::python
