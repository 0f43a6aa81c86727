// SPDX-License-Identifier: Apache-2.0
#pragma once

// A load in progress: its catalog is known, its bytes are being read, and each tensor can be used
// as soon as its own bytes are loaded.

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
#include <vector>

namespace ringload::inline v0 {

namespace detail {

class job;

using tensor_signature = void(std::exception_ptr, tensor);
using next_signature = void(std::exception_ptr, std::optional<tensor>);
using model_signature = void(std::exception_ptr, model);

RINGLOAD_EXPORT void await_tensor(const std::shared_ptr<job>& load, std::string name,
                                  std::unique_ptr<operation<tensor>> waiting);
RINGLOAD_EXPORT void await_next(const std::shared_ptr<job>& load,
                                std::unique_ptr<operation<std::optional<tensor>>> waiting);
RINGLOAD_EXPORT void await_finish(const std::shared_ptr<job>& load,
                                  std::unique_ptr<operation<model>> waiting);

// Initiations hold their state by value, because a completion token may start the operation later,
// or never.
struct initiation {
  using executor_type = default_executor;
  executor_type get_executor() const noexcept { return {}; }
};

struct initiate_tensor : initiation {
  std::shared_ptr<job> load;
  explicit initiate_tensor(std::shared_ptr<job> j) : load(std::move(j)) {}
  template <class Handler>
  void operator()(Handler&& handler, std::string name) const {
    await_tensor(load, std::move(name), make_operation<tensor>(std::forward<Handler>(handler)));
  }
};

struct initiate_next : initiation {
  std::shared_ptr<job> load;
  explicit initiate_next(std::shared_ptr<job> j) : load(std::move(j)) {}
  template <class Handler>
  void operator()(Handler&& handler) const {
    await_next(load, make_operation<std::optional<tensor>>(std::forward<Handler>(handler)));
  }
};

struct initiate_finish : initiation {
  std::shared_ptr<job> load;
  explicit initiate_finish(std::shared_ptr<job> j) : load(std::move(j)) {}
  template <class Handler>
  void operator()(Handler&& handler) const {
    await_finish(load, make_operation<model>(std::forward<Handler>(handler)));
  }
};

}  // namespace detail

/// The result of `loader::start_async`. The destructor cancels the load unless all tensors are
/// loaded.
///
/// The functions may be called from any thread, but not while the object is moved or destroyed. If
/// the load fails, pending operations complete with its error. If the load is cancelled, they
/// complete with `boost::asio::error::operation_aborted`. Operations complete only when neither the
/// kernel nor the device uses a buffer of the load. After the loader is destroyed, operations
/// complete with `operation_aborted` at once.
class RINGLOAD_EXPORT load_operation {
 public:
  /// An empty handle: only assignment and destruction are allowed.
  load_operation() noexcept = default;
  explicit load_operation(std::shared_ptr<detail::job> load) noexcept : job_(std::move(load)) {}
  load_operation(load_operation&& source) noexcept = default;
  load_operation& operator=(load_operation&& source) noexcept;
  ~load_operation();

  /// Completes when the tensor `name` is loaded, and prioritizes its reads. For a tensor on several
  /// devices, the result is the tensor on the first of them. The function may be called again for
  /// the same tensor. Fails with `errc::no_such_tensor`. Cancelling this operation does not cancel
  /// the load.
  template <boost::asio::completion_token_for<detail::tensor_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto tensor_async(std::string_view name, CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::tensor_signature>(
        detail::initiate_tensor(job_), token, std::string(name));
  }

  /// Completes with the next loaded tensor. Each tensor is returned once, in the order of loading,
  /// then an empty result. Cancelling this operation does not cancel the load.
  template <boost::asio::completion_token_for<detail::next_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto next_async(CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::next_signature>(
        detail::initiate_next(job_), token);
  }

  /// Completes when every tensor is loaded. Cancelling this operation cancels the load.
  template <boost::asio::completion_token_for<detail::model_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto finish_async(CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::model_signature>(
        detail::initiate_finish(job_), token);
  }

  /// Returns statistics. Cheap: a few atomic loads and two short strings.
  load_stats progress() const;
  /// Returns the statistics of each file, by position in `catalog().files`. Allocates the list.
  std::vector<file_stats> progress_of_files() const;

  /// Starts no new read and returns at once. Pending operations complete when no read is in flight.
  void cancel() noexcept;

  /// The catalog of the selected tensors. Valid as long as this object.
  const ringload::catalog& catalog() const noexcept;

 private:
  std::shared_ptr<detail::job> job_;
};

}  // namespace ringload::inline v0
