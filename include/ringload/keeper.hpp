// SPDX-License-Identifier: Apache-2.0
#pragma once

// Shares one copy of a model between all processes of a machine. A keeper holds models in sealed
// memory and serves them at a Unix socket. Other processes attach in milliseconds, without a copy:
//
//   ringload::loader loader{ringload::shared_host()};
//   ringload::keeper keeper{"/run/models"};
//   ringload::model loaded = co_await loader.load_async("Qwen/Qwen3-8B");
//   keeper.publish("qwen", loaded);
//
//   // In another process:
//   ringload::model qwen = ringload::attach("/run/models", "qwen");
//
// Host memory lives as long as any process maps it: the keeper may crash, end or be replaced.
//
// A keeper can also hold a model on a GPU, which processes attach without a copy on the same GPU.
// GPU memory belongs to the keeper. It cannot be sealed, and the keeper must outlive the attached
// processes.

#include <boost/asio/async_result.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <ringload/detail/operation.hpp>
#include <ringload/device.hpp>
#include <ringload/export.hpp>
#include <ringload/model.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

namespace detail {

class keeper_server;

RINGLOAD_EXPORT void begin_attach(std::string socket, std::string name, device on,
                                  std::chrono::milliseconds timeout,
                                  std::unique_ptr<operation<model>> waiting);

struct initiate_attach {
  using executor_type = default_executor;
  executor_type get_executor() const noexcept { return {}; }

  template <class Handler>
  void operator()(Handler&& handler, std::string socket, std::string name, device on,
                  std::chrono::milliseconds timeout) const {
    begin_attach(std::move(socket), std::move(name), on, timeout,
                 make_operation<model>(std::forward<Handler>(handler)));
  }
};

}  // namespace detail

/// Permissions and limits of a keeper.
struct RINGLOAD_EXPORT keeper_options {
  keeper_options();
  keeper_options(const keeper_options& source);
  keeper_options(keeper_options&& source) noexcept;
  keeper_options& operator=(const keeper_options& source);
  keeper_options& operator=(keeper_options&& source) noexcept;
  ~keeper_options();

  /// The mode of the socket: users with write permission may connect.
  unsigned mode = 0600;
  /// The users (effective user ids) that may attach, in addition to the mode. Empty: all users.
  std::vector<unsigned> users;
  /// The maximum number of connections, one for each model that a process has attached. Further
  /// processes wait until a connection ends.
  std::uint32_t connections_max = 1024;
};

/// A model and its use.
struct kept_model {
  std::string name;
  std::uint64_t version = 0;   // 1 for the first model of the name, then counted up.
  std::uint64_t bytes = 0;     // Size of the model's memory.
  std::uint64_t attached = 0;  // Number of current attachments of this version.
};

/// Serves models from its own thread. The functions may be called from any thread.
class RINGLOAD_EXPORT keeper {
 public:
  /// Creates the socket and begins to serve. An old socket without a keeper is replaced. The path
  /// has at most 107 bytes. Throws `ringload::error`: EADDRINUSE if another keeper serves the path.
  explicit keeper(std::string_view socket, keeper_options options = {});
  keeper(const keeper&) = delete;
  keeper& operator=(const keeper&) = delete;
  /// Removes the socket. Attached host models stay valid. Attached GPU models stay valid only as
  /// long as this process.
  ~keeper();

  /// Seals the model's memory and serves the model under this name. Processes that have attached an
  /// earlier model of the name keep that model. The name has 1 to 255 bytes.
  ///
  /// After publishing, writing to a tensor of the model is an access violation, in this process
  /// too, so no thread may be writing. The model must be loaded for `shared_host()`, be attached
  /// itself, or be on a GPU, else `errc::device_unavailable`. On the host it must have at most 252
  /// allocations, else `errc::invalid_options`. GPU memory is not sealed, and is freed when the
  /// model is replaced or withdrawn and all attached processes have released it. Blocks for some
  /// tens of milliseconds for each GiB. Throws `ringload::error`; the previous model then stays
  /// published.
  void publish(std::string_view name, const model& source);

  /// Stops serving the model of this name. Returns false if no such model is served.
  bool withdraw(std::string_view name);

  /// Returns the models, sorted by name.
  std::vector<kept_model> models() const;

 private:
  std::unique_ptr<detail::keeper_server> server_;
};

/// The default time limit for attaching if the keeper does not answer.
inline constexpr std::chrono::seconds attach_timeout{10};

/// Attaches the model that a keeper serves under this name: maps its memory for reading. Its
/// tensors are `read_only()`, and no process, not even the keeper, can change their bytes. Pages
/// are mapped on first use.
///
/// The keeper's answer is checked: tensors must be in sealed memory of the answer, and their sizes
/// must match their types and shapes; else `errc::malformed_message`. Other errors are
/// `errc::source_not_found` (no such model), EACCES (the socket's mode or the keeper refuses this
/// user), ENOENT and ECONNREFUSED (no keeper), ETIMEDOUT.
///
/// The model holds a descriptor for each allocation, and a connection, which the keeper counts.
/// Blocks, rarely for as much as a millisecond. May be called from any thread.
RINGLOAD_EXPORT model attach(std::string_view socket, std::string_view name,
                             std::chrono::milliseconds timeout = attach_timeout);

/// Attaches a model on a device. A host model is copied to the device by a `loader` with the
/// default limits, each tensor into its own allocation, and the keeper's memory is released. A GPU
/// model is opened in place if `on` is the same GPU, else `errc::device_unavailable`. The keeper's
/// own process cannot open it, and the driver may refuse with its own error. The size of the GPU
/// memory is taken from the keeper unchecked. The tensors are `read_only()`, but the GPU does not
/// enforce this. The memory is closed in a thread of the library.
RINGLOAD_EXPORT model attach(std::string_view socket, std::string_view name, device on,
                             std::chrono::milliseconds timeout = attach_timeout);

/// Attaches asynchronously: the call blocks a thread of Asio's `system_executor` instead of the
/// caller's thread. The operation cannot be cancelled, and ends within about twice the time limit.
template <boost::asio::completion_token_for<void(std::exception_ptr, model)> CompletionToken =
              boost::asio::use_awaitable_t<>>
auto attach_async(std::string_view socket, std::string_view name, CompletionToken&& token = {}) {
  return boost::asio::async_initiate<CompletionToken, void(std::exception_ptr, model)>(
      detail::initiate_attach(), token, std::string(socket), std::string(name), host(),
      std::chrono::milliseconds(attach_timeout));
}
template <boost::asio::completion_token_for<void(std::exception_ptr, model)> CompletionToken =
              boost::asio::use_awaitable_t<>>
auto attach_async(std::string_view socket, std::string_view name, device on,
                  CompletionToken&& token = {}) {
  return boost::asio::async_initiate<CompletionToken, void(std::exception_ptr, model)>(
      detail::initiate_attach(), token, std::string(socket), std::string(name), on,
      std::chrono::milliseconds(attach_timeout));
}

}  // namespace ringload::inline v0
