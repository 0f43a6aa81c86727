// SPDX-License-Identifier: Apache-2.0
#pragma once

// A load that is in progress. The catalog is known, and the bytes of the tensors are being read.
// Each tensor can be used as soon as its own bytes are loaded.
//
// `loader::stream_async` returns a tensor_stream, which returns each tensor once, in bounded
// memory. `loader::start_async` returns a load_operation, which can also return a tensor by its
// name, and the whole model. Both types have the executor type of the loader. The executor type
// also determines their default completion token (`as_default_on`).

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <concepts>
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

/// A completion token for an operation whose result is a T.
template <class Token, class T>
concept token_for = boost::asio::completion_token_for<Token, void(boost::system::error_code, T)>;

namespace detail {

class job;

/// The part of a tensor_stream that does not depend on the type of the executor. Owns a load. If
/// not all tensors are loaded, the destructor cancels the load.
class RINGLOAD_EXPORT load_handle {
 public:
  /// Creates an empty handle. An empty handle may only be assigned to or destroyed.
  load_handle() noexcept = default;
  /// Internal: called by the library only.
  explicit load_handle(std::shared_ptr<detail::job> load) noexcept : job_(std::move(load)) {}
  /// Takes over a load. Afterwards, `source` is an empty handle.
  load_handle(load_handle&& source) noexcept = default;
  /// Cancels the load of this handle unless the load has ended. Then takes over the load of
  /// `source`.
  load_handle& operator=(load_handle&& source) noexcept;
  ~load_handle();

  /// Returns statistics of the load. The call is cheap, because the function only reads counters
  /// and copies a few short strings.
  load_stats progress() const;
  /// Returns statistics of each file, in the order of `catalog().files`. Allocates memory for the
  /// list.
  std::vector<file_stats> progress_of_files() const;

  /// Cancels the load and returns at once. Afterwards, no new read is started. Pending operations
  /// complete when no read is in flight, or after `loader_options::stop_time_max`.
  void cancel() noexcept;

  /// Returns the catalog of the selected tensors. The reference is valid as long as this object
  /// exists.
  const ringload::catalog& catalog() const noexcept;

 protected:
  /// Internal: returns the load of this handle.
  const std::shared_ptr<detail::job>& job() const noexcept { return job_; }

 private:
  std::shared_ptr<detail::job> job_;
};

RINGLOAD_EXPORT void await_tensor(const std::shared_ptr<job>& load, std::string name,
                                  std::unique_ptr<operation<tensor>> waiting);
RINGLOAD_EXPORT void await_next(const std::shared_ptr<job>& load,
                                std::unique_ptr<operation<std::optional<tensor>>> waiting);
RINGLOAD_EXPORT void await_finish(const std::shared_ptr<job>& load,
                                  std::unique_ptr<operation<model>> waiting);

}  // namespace detail

/// Returns the tensors of a load one by one. If not all tensors are loaded, the destructor cancels
/// the load.
///
/// A stream of `loader::stream_async` limits the memory of its tensors to a window. The window
/// contains the tensors that the program holds and the tensors that are being read. The stream
/// returns the tensors in the order of the checkpoint. When the program has destroyed tensors, the
/// next call of next_async reuses their memory and continues the reads.
///
/// Neighbouring tensors share one allocation, of at most a sixteenth of the window. A larger tensor
/// has an allocation of its own. The stream can reuse an allocation when all its tensors are
/// destroyed. Each tensor may need up to 12 KiB more than its size, because a tensor may begin and
/// end within a page. The size of an allocation is a multiple of 4 KiB. The size is a multiple of 2
/// MiB on a GPU, and also if `loader_options::cached_bytes` or `huge_pages::reserved` is set.
///
/// A handler without an associated executor runs on the loader's executor. All functions are
/// thread-safe, except for moving and destroying the object.
///
/// If the load fails, pending operations complete with the error of the load. If the load is
/// cancelled, pending operations complete with `boost::asio::error::operation_aborted`. In both
/// cases, the operations first wait until neither the kernel nor a device uses a buffer of the
/// load, but at most for `loader_options::stop_time_max`. An operation that is started after the
/// destruction of the loader completes with `operation_aborted` at once.
template <class Executor = boost::asio::any_io_executor>
class basic_tensor_stream : public detail::load_handle {
  using token_by_default = typename detail::default_token_of<Executor>::type;

 public:
  /// The type of the loader's executor.
  using executor_type = Executor;
  /// Internal: the type of the value with which the engine completes start_async and stream_async.
  using engine_value = detail::load_handle;

  /// The same class template with another type of executor.
  template <class Other>
  struct rebind_executor {
    /// The rebound type, as Asio expects it.
    using other = basic_tensor_stream<Other>;
  };

  /// Creates an empty handle. An empty handle may only be assigned to or destroyed.
  basic_tensor_stream() noexcept
    requires std::default_initializable<Executor>
  = default;
  /// Internal: called by the library only.
  basic_tensor_stream(detail::load_handle load, const executor_type& executor) noexcept
      : load_handle(std::move(load)), executor_(executor) {}
  /// Takes over a load whose executor has another type. The executor is converted.
  template <class Other>
    requires std::constructible_from<Executor, const Other&>
  basic_tensor_stream(basic_tensor_stream<Other>&& source)
      : load_handle(std::move(source)), executor_(source.get_executor()) {}

  /// Returns the executor of the loader.
  executor_type get_executor() const noexcept { return executor_; }

  /// Completes with the next tensor. After the last tensor, completes with an empty optional.
  /// next_async returns each tensor once, also a tensor that tensor_async has returned. The stream
  /// of `loader::stream_async` returns the tensors in the order of the checkpoint. A load_operation
  /// returns the tensors in the order in which they are loaded.
  ///
  /// Cancellation of any type cancels this operation, but not the load. If the tensors that the
  /// program holds fill the window, the operation fails with `errc::memory_exceeded`. After the
  /// program has destroyed tensors, the next call may succeed.
  template <token_for<std::optional<tensor>> CompletionToken = token_by_default>
  auto next_async(CompletionToken&& token = {}) {
    return detail::initiate<std::optional<tensor>, &detail::await_next>(
        std::forward<CompletionToken>(token), executor_, job());
  }

 private:
  executor_type executor_;
};

/// A tensor_stream of a `ringload::loader`. Most programs use this type.
using tensor_stream = basic_tensor_stream<>;

/// A load that `loader::start_async` has started. If not all tensors are loaded, the destructor
/// cancels the load. The comment of `basic_tensor_stream` describes executors, thread safety and
/// failures.
template <class Executor = boost::asio::any_io_executor>
class basic_load_operation : public basic_tensor_stream<Executor> {
  using token_by_default = typename detail::default_token_of<Executor>::type;

 public:
  /// The same class template with another type of executor.
  template <class Other>
  struct rebind_executor {
    /// The rebound type, as Asio expects it.
    using other = basic_load_operation<Other>;
  };

  /// Creates an empty handle. An empty handle may only be assigned to or destroyed.
  basic_load_operation() noexcept
    requires std::default_initializable<Executor>
  = default;
  /// Internal: called by the library only.
  basic_load_operation(detail::load_handle load, const Executor& executor) noexcept
      : basic_tensor_stream<Executor>(std::move(load), executor) {}
  /// Takes over a load whose executor has another type. The executor is converted.
  template <class Other>
    requires std::constructible_from<Executor, const Other&>
  basic_load_operation(basic_load_operation<Other>&& source)
      : basic_tensor_stream<Executor>(std::move(source)) {}

  /// Completes when the tensor `name` is loaded. The reads of this tensor get priority. If the
  /// tensor is on several devices, the result is the tensor on the first of these devices. The
  /// function may be called several times for the same tensor. Fails with `errc::no_such_tensor` if
  /// the load does not have the tensor. Cancellation of any type cancels this operation, but not
  /// the load.
  template <token_for<tensor> CompletionToken = token_by_default>
  auto tensor_async(std::string_view name, CompletionToken&& token = {}) {
    return detail::initiate<tensor, &detail::await_tensor>(
        std::forward<CompletionToken>(token), this->get_executor(), this->job(), std::string(name));
  }

  /// Completes with the model when all tensors are loaded. Terminal and partial cancellation cancel
  /// the load. Total cancellation is ignored.
  template <token_for<model> CompletionToken = token_by_default>
  auto finish_async(CompletionToken&& token = {}) {
    return detail::initiate<model, &detail::await_finish, detail::cancel_with_effects>(
        std::forward<CompletionToken>(token), this->get_executor(), this->job());
  }
};

/// A load_operation of a `ringload::loader`. Most programs use this type.
using load_operation = basic_load_operation<>;

}  // namespace ringload::inline v0
