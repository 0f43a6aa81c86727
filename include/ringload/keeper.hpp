// SPDX-License-Identifier: Apache-2.0
#pragma once

// One copy of a model for all processes of a machine. A keeper holds models in sealed memory and
// serves them at a Unix socket; others attach, in milliseconds and without a copy:
//
//   ringload::loader loader{ringload::shared_host()};
//   ringload::keeper keeper{"/run/models"};
//   ringload::model loaded = co_await loader.load_async("Qwen/Qwen3-8B");
//   keeper.publish("qwen", loaded);
//
//   // In another process:
//   ringload::model qwen = ringload::attach("/run/models", "qwen");
//
// Memory of the host lives as long as any process has it: the keeper may crash, end or be replaced.
//
// A model on a GPU is kept as well, and attached without a copy on the same GPU. That memory is the
// keeper's own: it cannot be sealed, and the keeper must outlive those who attached.

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

/// Who may attach, and how many.
struct RINGLOAD_EXPORT keeper_options {
  keeper_options();
  keeper_options(const keeper_options& other);
  keeper_options(keeper_options&& other) noexcept;
  keeper_options& operator=(const keeper_options& other);
  keeper_options& operator=(keeper_options&& other) noexcept;
  ~keeper_options();

  /// The mode of the socket: who may write to it may connect.
  unsigned mode = 0600;
  /// Of those, the users (effective user ids) that may attach. Empty: all.
  std::vector<unsigned> users;
  /// Connections at once, one for each model that a process has attached. Who comes when there are
  /// so many waits until one ends.
  std::uint32_t connections_max = 1024;
};

/// A model as its keeper sees it.
struct kept_model {
  std::string name;
  std::uint64_t version = 0;   // 1 for the first of that name, and one more with each that follows.
  std::uint64_t bytes = 0;     // Of its memory.
  std::uint64_t attached = 0;  // How often this version is attached now.
};

/// Serves models. It has a thread of its own, which answers; its functions may be called from any.
class RINGLOAD_EXPORT keeper {
 public:
  /// Makes the socket, in the place of one whose keeper is gone, and begins to answer. The path has
  /// at most 107 bytes. Throws `ringload::error`: EADDRINUSE where a keeper answers there.
  explicit keeper(std::string_view socket, keeper_options how = {});
  keeper(const keeper&) = delete;
  keeper& operator=(const keeper&) = delete;
  /// Removes the socket. What is attached stays so; on a GPU only as long as this process.
  ~keeper();

  /// Seals the model's memory, and gives it to all who attach under this name from now on. Those
  /// who have attached an earlier model of the name keep that. The name has 1 to 255 bytes.
  ///
  /// From now on writing to one of the model's tensors is an access violation, here too, so nobody
  /// may be writing. The model was loaded for `shared_host()`, or is attached itself, or lies on a
  /// GPU, else `errc::device_unavailable`; on the host in at most 252 allocations, else
  /// `errc::invalid_options`. On a GPU nothing is sealed, and the memory is freed when the model is
  /// replaced or withdrawn, and all who have attached it have let go. Blocks
  /// for some tens of milliseconds for each GiB. Throws `ringload::error`; then what was served
  /// still is.
  void publish(std::string_view name, const model& what);

  /// Serves no model of this name any more. False: there was none.
  bool withdraw(std::string_view name);

  /// By name.
  std::vector<kept_model> models() const;

 private:
  std::unique_ptr<detail::keeper_server> server_;
};

/// How long attaching may take, if the keeper does not answer.
inline constexpr std::chrono::seconds attach_timeout{10};

/// The model that a keeper has under this name: its memory, mapped for reading. Its tensors are
/// `read_only()`, and nobody can change a byte of them, the keeper neither. Pages are mapped as
/// they are first used.
///
/// What the keeper says is checked: tensors lie in memory that is sealed and came with them, and
/// have as many bytes as their types and shapes need; else `errc::malformed_message`. Other errors
/// are `errc::source_not_found` (no such model), EACCES (the socket's mode, or the keeper, does not
/// let this user in), ENOENT and ECONNREFUSED (no keeper), ETIMEDOUT.
///
/// Holds a descriptor for each allocation, and one for the connection, by which the keeper counts.
/// Blocks, seldom for as much as a millisecond. Any thread.
RINGLOAD_EXPORT model attach(std::string_view socket, std::string_view name,
                             std::chrono::milliseconds timeout = attach_timeout);

/// The same on a device. A model of the host is copied there, each tensor into an allocation of its
/// own by a `loader` of the default limits, and the keeper's memory is let go of. A model on a
/// GPU is opened where it is, if `on` is that GPU, else `errc::device_unavailable`; the process
/// that keeps it cannot open it itself, and the driver may refuse, with its own error. How much
/// memory the GPU's handles stand for is believed. Its tensors are `read_only()`: all who have it
/// must keep to that themselves. Memory is closed in a thread of the library.
RINGLOAD_EXPORT model attach(std::string_view socket, std::string_view name, device on,
                             std::chrono::milliseconds timeout = attach_timeout);

/// The same, awaited: it blocks a thread of Asio's `system_executor` in place of yours. It cannot
/// be cancelled, and ends within about twice the time limit.
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
