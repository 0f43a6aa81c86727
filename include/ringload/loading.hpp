// SPDX-License-Identifier: Apache-2.0
#pragma once

// A load in flight: its catalog is known, its bytes are on their way, and each tensor can be used
// as soon as its own bytes have landed.

#include <boost/asio/async_result.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/detail/operation.hpp>
#include <ringload/export.hpp>
#include <ringload/model.hpp>
#include <ringload/stats.hpp>
#include <ringload/tensor.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace ringload::inline v0 {

namespace detail {

class job;

using tensor_signature = void(std::exception_ptr, tensor);
using next_signature = void(std::exception_ptr, std::optional<tensor>);
using model_signature = void(std::exception_ptr, model);

RINGLOAD_EXPORT void await_tensor(const std::shared_ptr<job>& of, std::string name,
                                  std::unique_ptr<operation<tensor>> waiting);
RINGLOAD_EXPORT void await_next(const std::shared_ptr<job>& of,
                                std::unique_ptr<operation<std::optional<tensor>>> waiting);
RINGLOAD_EXPORT void await_finish(const std::shared_ptr<job>& of,
                                  std::unique_ptr<operation<model>> waiting);

// Initiations hold their state by value: a token may start the operation later, or never.
struct initiation {
  using executor_type = default_executor;
  executor_type get_executor() const noexcept { return {}; }
};

struct initiate_tensor : initiation {
  std::shared_ptr<job> of;
  explicit initiate_tensor(std::shared_ptr<job> j) : of(std::move(j)) {}
  template <class Handler>
  void operator()(Handler&& handler, std::string name) const {
    await_tensor(of, std::move(name), make_operation<tensor>(std::forward<Handler>(handler)));
  }
};

struct initiate_next : initiation {
  std::shared_ptr<job> of;
  explicit initiate_next(std::shared_ptr<job> j) : of(std::move(j)) {}
  template <class Handler>
  void operator()(Handler&& handler) const {
    await_next(of, make_operation<std::optional<tensor>>(std::forward<Handler>(handler)));
  }
};

struct initiate_finish : initiation {
  std::shared_ptr<job> of;
  explicit initiate_finish(std::shared_ptr<job> j) : of(std::move(j)) {}
  template <class Handler>
  void operator()(Handler&& handler) const {
    await_finish(of, make_operation<model>(std::forward<Handler>(handler)));
  }
};

}  // namespace detail

/// What `loader::start_async` gives. Destroying it cancels the load, unless all has landed.
///
/// Its functions may be called from any thread, but not while it is moved or destroyed. Operations
/// that wait when the load fails complete with its error; those that wait when it is cancelled,
/// with `boost::asio::error::operation_aborted`. Both come only when the kernel and the device have
/// let go of every buffer of the load. What is asked for when the loader is gone completes with
/// `operation_aborted` as well, at once.
class RINGLOAD_EXPORT loading {
 public:
  /// Not a load; only assignment and destruction are allowed.
  loading() noexcept = default;
  explicit loading(std::shared_ptr<detail::job> of) noexcept : job_(std::move(of)) {}
  loading(loading&& other) noexcept = default;
  loading& operator=(loading&& other) noexcept;
  ~loading();

  /// Completes when that tensor's bytes are on the device, and moves its reads to the front. May be
  /// asked for again. A name that the checkpoint lacks: `errc::no_such_tensor`. Cancelling this
  /// operation ends the wait and not the load.
  template <boost::asio::completion_token_for<detail::tensor_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto tensor_async(std::string_view name, CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::tensor_signature>(
        detail::initiate_tensor(job_), token, std::string(name));
  }

  /// Completes with the tensor that landed next, each once, in the order of landing; empty when all
  /// have been handed out. Cancelling this operation ends the wait and not the load.
  template <boost::asio::completion_token_for<detail::next_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto next_async(CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::next_signature>(
        detail::initiate_next(job_), token);
  }

  /// Completes when every tensor has landed. Cancelling this operation cancels the load.
  template <boost::asio::completion_token_for<detail::model_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto finish_async(CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::model_signature>(
        detail::initiate_finish(job_), token);
  }

  /// Cheap: a few atomic loads and two short strings.
  load_stats progress() const;

  /// Issues no new read. Returns at once; the waiting operations complete when all is quiet.
  void cancel() noexcept;

  /// What is being loaded. Valid as long as this object.
  const ringload::catalog& catalog() const noexcept;

 private:
  std::shared_ptr<detail::job> job_;
};

}  // namespace ringload::inline v0
