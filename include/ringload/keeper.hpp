// SPDX-License-Identifier: Apache-2.0
#pragma once

// Shares one copy of a model between all processes of a machine. A keeper holds models in sealed
// memory, which no process can change, and serves the models at a Unix socket. Other processes
// attach a model in milliseconds, without a copy.
//
//   ringload::loader loader{ringload::shared_host()};
//   ringload::keeper keeper{"/run/models"};
//   ringload::model loaded = co_await loader.load_async("Qwen/Qwen3-8B");
//   keeper.publish("qwen", loaded);
//
//   // In another process:
//   ringload::model qwen = ringload::attach("/run/models", "qwen");
//
//   // Waits until the keeper publishes another version.
//   qwen = co_await ringload::attach_next_async("/run/models", "qwen", attached_version(qwen));
//
// The memory exists as long as any process maps the memory. Attached models remain valid if the
// keeper crashes, ends or is replaced.
//
// A keeper can also publish a model in GPU memory that was loaded for `shared_cuda_device()`.
// Another process can attach this model on the same GPU without a copy. GPU memory cannot be
// sealed.

#include <boost/asio/system_executor.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <ringload/detail/operation.hpp>
#include <ringload/device.hpp>
#include <ringload/export.hpp>
#include <ringload/load_operation.hpp>
#include <ringload/model.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

namespace detail {

class keeper_server;

enum class keep_action : std::uint8_t { attach, attach_next, read_version };

struct attach_request {
  std::string socket;
  std::string name;
  device on;
  std::chrono::milliseconds timeout;
  keep_action action = keep_action::attach;
  kept_version current = {};  // Used by attach_next only.
  bool is_unlimited = false;  // If true, the wait for the reply has no time limit.
};

RINGLOAD_EXPORT void begin_attach(const boost::asio::system_executor& executor,
                                  attach_request request,
                                  std::unique_ptr<operation<model>> waiting);

}  // namespace detail

/// Permissions and limits of a keeper.
struct keeper_options {
  RINGLOAD_OPTION_STRUCT(keeper_options)

  /// The file mode of the socket. Only users with write permission can connect.
  unsigned mode = 0600;
  /// The effective user ids that may attach models. A user also needs the permission of `mode`.
  /// Empty means every user who can connect.
  std::vector<unsigned> users = {};
  /// A Unix SOCK_SEQPACKET socket that is already listening, for example from systemd. If set, the
  /// keeper creates no socket. The keeper duplicates the descriptor, and does not remove the file
  /// of the socket. Clients can connect at any time, but the keeper answers no client before the
  /// first model is published. If -1, the keeper creates a socket.
  int listening_socket = -1;
  /// The maximum number of connections, at least 1. A process holds one connection for each
  /// attached model, and one connection for each call that waits for a version. Further processes
  /// wait until a connection is closed.
  std::uint32_t connections_max = 1024;
};

/// The state of a model that a keeper serves.
struct kept_model {
  std::string name;            // The name under which the model is served.
  std::uint64_t version = 0;   // `kept_version::number` of the model.
  std::uint64_t bytes = 0;     // The size of the model's memory.
  std::uint64_t attached = 0;  // The number of open attachments of this version.
};

/// Serves models in a thread of its own. All functions are thread-safe.
class RINGLOAD_EXPORT keeper {
 public:
  /// Creates the socket and starts to serve models. If the path is a socket at which no program
  /// listens, the socket is replaced. The path may have at most 107 bytes. If
  /// `options.listening_socket` is set, the path is ignored. Throws `ringload::error`. The error is
  /// EADDRINUSE if another program listens at the path, or if the path exists and is not a socket.
  /// The error is `errc::invalid_options` if `options.connections_max` is 0.
  explicit keeper(std::string_view socket, keeper_options options = {});
  keeper(const keeper&) = delete;
  keeper& operator=(const keeper&) = delete;
  /// Removes the socket, and ends the waiting calls of clients, even if a process that was forked
  /// from this process still runs. Attached models remain valid.
  ~keeper();

  /// Seals the memory of the model, then serves the model under `name`. The name must have 1 to 255
  /// bytes. The publication is atomic: each attach() returns all tensors of one version. Processes
  /// that have attached an earlier version keep that version. The memory of the earlier version is
  /// freed when no process uses it, including the process of the keeper. Waiting calls of
  /// attach_next() complete.
  ///
  /// A write to a tensor of a published model raises SIGSEGV, in this process too. Therefore no
  /// thread may write to the tensors during the call. GPU memory is not sealed.
  ///
  /// The model must have been loaded for `shared_host()` or `shared_cuda_device()`, or must be an
  /// attached host model. Otherwise throws `errc::device_unavailable`. Throws
  /// `errc::invalid_options` if the model has more than 252 allocations, and
  /// `errc::duplicate_tensor` if a tensor is on several devices. After an exception, the previous
  /// model of this name is still served.
  ///
  /// Blocks for tens of milliseconds for each GiB of host memory.
  void publish(std::string_view name, const model& source);

  /// Stops serving the model `name`. Returns false if no model of this name is served.
  bool withdraw(std::string_view name);

  /// Returns the models that are served, sorted by name.
  std::vector<kept_model> models() const;

 private:
  std::unique_ptr<detail::keeper_server> server_;
};

/// The default time limit for the keeper's answer to an attach().
inline constexpr std::chrono::seconds attach_timeout{10};

/// Attaches the model that the keeper at `socket` serves under `name`, by mapping its memory. The
/// tensors are `read_only()`. No process, including the keeper, can change the bytes of a sealed
/// model. The kernel maps each page on first use.
///
/// The answer of the keeper is checked: each tensor must be inside the sealed memory, and its size
/// must match its type and shape. If the answer is invalid, throws `errc::malformed_message`. Other
/// errors are `errc::source_not_found` (the model does not exist), EACCES (the user has no
/// permission), ENOENT or ECONNREFUSED (no keeper is running), ECONNRESET (the keeper ended during
/// the call), and ETIMEDOUT.
///
/// The attached model holds one connection to the keeper, and one file descriptor for each
/// allocation. Blocks, usually for less than a millisecond. Thread-safe.
RINGLOAD_EXPORT model attach(std::string_view socket, std::string_view name,
                             std::chrono::milliseconds timeout = attach_timeout);

/// Attaches a model on the device `on`.
///
/// If the model is in host memory and `on` is a GPU, the model is copied to the GPU. A `loader`
/// with default options makes the copy, and each tensor gets an allocation of its own. Afterwards
/// the keeper's memory is unmapped, unless the GPU uses it. If this process has pinned the same
/// model with `pin()` of `ringload/cuda.hpp`, the GPU copies from the pinned memory without the
/// CPU. An integrated GPU shares the memory of the host, and uses a tensor without a copy if the
/// tensor begins at a multiple of 256 bytes.
///
/// A GPU model is opened without a copy. Throws `errc::device_unavailable` if `on` is not the GPU
/// (or the MIG instance) of the model. If the driver refuses to open the memory, throws the
/// driver's error. The tensors are `read_only()`. If the driver can map the memory read-only, a
/// kernel that writes to a tensor fails. Otherwise a kernel can write to the tensor. After all
/// references to the memory are released, a thread of the library closes the memory.
RINGLOAD_EXPORT model attach(std::string_view socket, std::string_view name, device on,
                             std::chrono::milliseconds timeout = attach_timeout);

/// Returns the version of an attached model. Returns a version whose `keeper` is 0 if the model was
/// not attached.
RINGLOAD_EXPORT kept_version attached_version(const model& attached) noexcept;

/// Returns the version that the keeper at `socket` serves under `name`, without attaching the
/// model. If the version differs from attached_version() of a model, the keeper has published
/// another version. Fails like attach(). Thread-safe.
RINGLOAD_EXPORT kept_version served_version(std::string_view socket, std::string_view name,
                                            std::chrono::milliseconds timeout = attach_timeout);

/// Waits until the keeper at `socket` serves a version other than `current` under `name`, then
/// attaches that version. If several versions were published since `current`, attaches the newest
/// version. `current` is usually attached_version() of the model in use. With a default `current`,
/// waits for any version.
///
/// Fails like attach(), but a missing model is no error: the function waits until the model is
/// published. Throws ETIMEDOUT after `timeout`, and ECONNRESET if the keeper ends. Thread-safe.
RINGLOAD_EXPORT model attach_next(std::string_view socket, std::string_view name,
                                  kept_version current, std::chrono::milliseconds timeout);
/// Waits for another version, and attaches that version on the device `on`.
RINGLOAD_EXPORT model attach_next(std::string_view socket, std::string_view name,
                                  kept_version current, device on,
                                  std::chrono::milliseconds timeout);

/// Attaches a model asynchronously. The operation blocks a thread of its own, not the calling
/// thread. A handler without an associated executor runs on Asio's `system_executor`. The
/// constructor of basic_loader describes when the threads of this executor start. Cancellation of
/// any type is ignored. The communication with the keeper takes at most about twice the default
/// time limit. A copy to a GPU has no time limit.
template <token_for<model> CompletionToken = default_token>
auto attach_async(std::string_view socket, std::string_view name, device on,
                  CompletionToken&& token = {}) {
  const boost::asio::system_executor executor;
  return detail::initiate<model, &detail::begin_attach, detail::cancel_never>(
      std::forward<CompletionToken>(token), executor, executor,
      detail::attach_request{std::string(socket), std::string(name), on, attach_timeout});
}
/// Attaches a model on the host asynchronously.
template <token_for<model> CompletionToken = default_token>
auto attach_async(std::string_view socket, std::string_view name, CompletionToken&& token = {}) {
  return attach_async(socket, name, host(), std::forward<CompletionToken>(token));
}

/// Waits, without a time limit, for a version other than `current`, then attaches that version. See
/// attach_next(). The operation blocks a thread of its own. A handler without an associated
/// executor runs on Asio's `system_executor`. Cancellation of any type cancels the operation.
template <token_for<model> CompletionToken = default_token>
auto attach_next_async(std::string_view socket, std::string_view name, kept_version current,
                       device on, CompletionToken&& token = {}) {
  const boost::asio::system_executor executor;
  return detail::initiate<model, &detail::begin_attach>(
      std::forward<CompletionToken>(token), executor, executor,
      detail::attach_request{std::string(socket), std::string(name), on, attach_timeout,
                             detail::keep_action::attach_next, current, true});
}
/// Waits for another version, and attaches that version on the host.
template <token_for<model> CompletionToken = default_token>
auto attach_next_async(std::string_view socket, std::string_view name, kept_version current,
                       CompletionToken&& token = {}) {
  return attach_next_async(socket, name, current, host(), std::forward<CompletionToken>(token));
}

}  // namespace ringload::inline v0
