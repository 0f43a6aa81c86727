// SPDX-License-Identifier: Apache-2.0
#pragma once

// A loader reads checkpoints into the memory of one or more devices.
//
// Most programs need only this class. `loader_options` limits the pinned memory of a loader and the
// number of reads in flight. The limits do not depend on the size of a checkpoint.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/system_executor.hpp>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <ringload/allocation_log.hpp>
#include <ringload/checkpoint.hpp>
#include <ringload/detail/list_argument.hpp>
#include <ringload/detail/operation.hpp>
#include <ringload/detail/path_object.hpp>
#include <ringload/device.hpp>
#include <ringload/export.hpp>
#include <ringload/extension.hpp>
#include <ringload/fill.hpp>
#include <ringload/load_operation.hpp>
#include <ringload/model.hpp>
#include <ringload/options.hpp>
#include <ringload/save.hpp>
#include <ringload/source.hpp>
#include <ringload/stats.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

template <class Executor = boost::asio::any_io_executor>
class basic_loader;

namespace detail {

class engine;
using engine_ptr = std::shared_ptr<engine>;

RINGLOAD_EXPORT void begin_load(const engine_ptr& loader_engine, const source& origin,
                                load_options options, std::unique_ptr<operation<model>> waiting);
RINGLOAD_EXPORT void begin_start(const engine_ptr& loader_engine, const source& origin,
                                 load_options options,
                                 std::unique_ptr<operation<load_handle>> waiting);
RINGLOAD_EXPORT void begin_stream(const engine_ptr& loader_engine, const source& origin,
                                  load_options options, std::uint64_t window_bytes,
                                  std::unique_ptr<operation<load_handle>> waiting);
RINGLOAD_EXPORT void begin_open(const engine_ptr& loader_engine, const source& origin,
                                open_options options,
                                std::unique_ptr<operation<checkpoint>> waiting);
RINGLOAD_EXPORT void begin_fill(const engine_ptr& loader_engine, const source& origin,
                                std::vector<destination> destinations, fill_options options,
                                std::unique_ptr<operation<fill_result>> waiting);
RINGLOAD_EXPORT void begin_save(const engine_ptr& loader_engine, std::string path,
                                std::vector<tensor_ref> tensors, save_options options,
                                std::unique_ptr<operation<save_result>> waiting);
RINGLOAD_EXPORT void begin_copy(const engine_ptr& loader_engine, tensor origin,
                                tensor_copy_options options,
                                std::unique_ptr<operation<tensor>> waiting);

// The part of a loader that does not depend on the type of the executor.
class RINGLOAD_EXPORT loader_base {
 public:
  loader_base(const loader_base&) = delete;
  loader_base& operator=(const loader_base&) = delete;

  /// Returns the first device in devices().
  ringload::device device() const noexcept;
  /// Returns the devices in the order in which they were passed to the constructor. The reference
  /// is valid until the loader is destroyed.
  const std::vector<ringload::device>& devices() const noexcept;

  /// Returns statistics of the whole loader, such as the read engine in use and the reason for this
  /// choice. The fields that describe a single load are 0.
  load_stats stats() const;

  /// Returns how much memory the loader uses now. The fields about tensors are 0 after the last
  /// tensor and the last load are destroyed.
  memory_use memory() const;

  /// Internal: called by the library only.
  const engine_ptr& loader_engine() const noexcept { return engine_; }

 protected:
  loader_base(ringload::device target, const loader_options& limits,
              std::vector<extension> extensions, const allocation_log& log);
  loader_base(std::vector<ringload::device> targets, const loader_options& limits,
              std::vector<extension> extensions, const allocation_log& log);
  loader_base(loader_base&& source) noexcept = default;
  ~loader_base();

 private:
  template <class Executor>
  friend class ringload::basic_loader;

  engine_ptr engine_;
};

}  // namespace detail

/// Loads checkpoints to one or more devices. A loader owns one engine thread, one io_uring, and a
/// fixed number of pinned buffers, called slots (`loader_options::slots`). All loads of the loader
/// share these resources. All functions are thread-safe.
///
/// Each read in flight occupies one slot. When several loads have reads to start, the loader starts
/// reads of each load in turn. `loader_options::bytes_in_flight` limits the bytes in flight of each
/// drive. A file system without a block device has a limit of its own.
///
/// If a loader reads from several drives, each drive may use at most half of the slots. If loads
/// read from more than two drives at the same time, the slots are divided equally among these
/// drives. Therefore a slow drive delays only the loads that read from this drive. All loads share
/// the copy threads (`loader_options::copy_threads`) for reads through the page cache.
///
/// The `_async` functions are Asio initiating functions with the signature `void(error_code, T)`.
/// The functions accept any completion token. A handler never runs inside the initiating function.
/// A handler runs on its associated executor. A handler without an associated executor runs on the
/// loader's executor. Until the handler runs, the operation holds outstanding work on the executor
/// of the handler. The handler of `use_future` has an executor of its own, so the future becomes
/// ready without a run() of the loader's context.
///
/// A call may omit the options, the token, or both.
///
/// A call without a token uses the default token of the executor (`as_default_on`). If the executor
/// has no default token, the result of the call can be awaited with `co_await`, also as an operand
/// of the awaitable operators `&&` and `||`. The `co_await` of a failed operation throws
/// `ringload::error`, which includes the place of the failure. With any other token, wrap the token
/// in `bind_diagnostics` to get the place, or in `as_exception` to get a `ringload::error`.
///
/// Cancellation of any type cancels an operation. If the comment of a function lists the accepted
/// types, the function ignores all other types. After the completion, cancellation has no effect.
template <class Executor>
class basic_loader : public detail::loader_base {
  using token_by_default = typename detail::default_token_of<Executor>::type;

 public:
  /// The executor of handlers that have no associated executor.
  using executor_type = Executor;

  /// The same class template with another type of executor.
  template <class Other>
  struct rebind_executor {
    /// The rebound type, as Asio expects it.
    using other = basic_loader<Other>;
  };

  /// Creates a loader for one device and starts the engine thread. Throws `ringload::error` if an
  /// option is invalid or the device cannot be opened.
  ///
  /// The constructor allocates no slots: see `loader_options::slots`. If the system refuses
  /// io_uring, the loader reads with threads, and `stats()` returns the reason. The threads of the
  /// loader inherit the scheduling policy and the niceness of the calling thread. `extensions` adds
  /// formats and stores. `log` records the memory that the loader allocates and frees.
  explicit basic_loader(const executor_type& executor, ringload::device target = host(),
                        const loader_options& limits = {}, std::vector<extension> extensions = {},
                        const allocation_log& log = {})
      : loader_base(target, limits, std::move(extensions), log), executor_(executor) {}

  /// Creates a loader for several devices. A load reads each byte once, and copies the byte to the
  /// devices that `selection` chooses: see selection::on(). The position of a device is its index
  /// in `targets`. A device may be listed twice, and then has two positions.
  ///
  /// The slots are divided equally among the GPUs. Each part is allocated in host memory that is
  /// close to its GPU (NUMA). Each GPU can copy from every slot. A copy_async between two GPUs
  /// passes through host memory. For loads, see `loader_options::peer_copies`. Throws
  /// `errc::invalid_options` if `targets` is empty.
  basic_loader(const executor_type& executor, std::vector<ringload::device> targets,
               const loader_options& limits = {}, std::vector<extension> extensions = {},
               const allocation_log& log = {})
      : loader_base(std::move(targets), limits, std::move(extensions), log), executor_(executor) {}

  /// Creates a loader with the executor of an execution context, such as an `io_context`.
  template <std::derived_from<boost::asio::execution_context> Context,
            class Devices = ringload::device>
    requires std::constructible_from<Executor, typename Context::executor_type>
  explicit basic_loader(Context& context, Devices targets = host(),
                        const loader_options& limits = {}, std::vector<extension> extensions = {},
                        const allocation_log& log = {})
      : basic_loader(Executor(context.get_executor()), std::move(targets), limits,
                     std::move(extensions), log) {}

  /// Creates a loader with a `boost::asio::system_executor`, for programs without an execution
  /// context. A handler without an associated executor runs in a thread of the system executor.
  /// Several handlers may run at the same time.
  ///
  /// Asio starts all threads of its system executor at the first use. In Boost 1.81, this use waits
  /// forever if the system starts only some of the threads. The token `use_future` uses
  /// the system executor too. A program with a tight limit of threads should therefore use the
  /// system executor once before the limit is reached, or use an execution context and no futures.
  explicit basic_loader(ringload::device target = host(), const loader_options& limits = {},
                        std::vector<extension> extensions = {}, const allocation_log& log = {})
    requires std::constructible_from<Executor, boost::asio::system_executor>
      : basic_loader(Executor(boost::asio::system_executor()), target, limits,
                     std::move(extensions), log) {}
  /// Creates a loader with a `boost::asio::system_executor` for several devices.
  explicit basic_loader(std::vector<ringload::device> targets, const loader_options& limits = {},
                        std::vector<extension> extensions = {}, const allocation_log& log = {})
    requires std::constructible_from<Executor, boost::asio::system_executor>
      : basic_loader(Executor(boost::asio::system_executor()), std::move(targets), limits,
                     std::move(extensions), log) {}

  /// Takes over a loader. Afterwards, `source` may only be destroyed.
  basic_loader(basic_loader&& source) noexcept = default;
  /// Takes over a loader whose executor has another type (`as_default_on`). The executor is
  /// converted. Afterwards, `source` may only be destroyed.
  template <class Other>
    requires std::constructible_from<Executor, const Other&>
  explicit basic_loader(basic_loader<Other>&& source)
      : loader_base(std::move(source)), executor_(source.get_executor()) {}

  /// Cancels all operations and waits until neither the kernel nor a device writes to a buffer of
  /// the loader. Pending operations complete with `operation_aborted`.
  ///
  /// The destructor waits for at most 30 s, because a broken drive may never complete a read. If a
  /// read has not ended within 30 s, a thread of the library continues to wait. Until the read
  /// ends, the memory of the loader is not freed. Two kinds of operations complete only when they
  /// no longer use memory of the caller: a copy, and a fill that opens its source or reads into a
  /// destination. Other operations complete within `loader_options::stop_time_max`.
  ///
  /// With `loader_options::cached_bytes`, the loader of a GPU also frees the memory in its free
  /// list. The memory is freed only when all GPU work that was declared with release_after() (see
  /// `ringload/cuda.hpp`) has completed. Freeing may also wait for other work on the GPU. Therefore
  /// the destructor waits for this memory for at most 5 s.
  ///
  /// An object that an operation keeps alive, such as `destination::owner`, may own the loader. The
  /// operation or its handler may then destroy the loader in a thread of the loader. In this case,
  /// the destructor returns at once. A thread of the library ends the other operations and frees
  /// the memory of the loader later, possibly after the completion of the operation.
  ~basic_loader() = default;

  /// Returns the executor of handlers that have no associated executor.
  executor_type get_executor() const noexcept { return executor_; }

  /// Opens a checkpoint and reads its catalog. Any number of loads can use the opened checkpoint.
  template <token_for<checkpoint> CompletionToken = token_by_default>
  auto open_async(source origin, CompletionToken&& token = {}) {
    return open_async(std::move(origin), open_options(), std::forward<CompletionToken>(token));
  }
  /// Opens a checkpoint with options.
  template <token_for<checkpoint> CompletionToken = token_by_default>
  auto open_async(source origin, open_options options, CompletionToken&& token = {}) {
    return detail::initiate<checkpoint, &detail::begin_open>(std::forward<CompletionToken>(token),
                                                             executor_, loader_engine(),
                                                             std::move(origin), options);
  }

  /// Loads the tensors that `options.select` selects, by default all tensors. If `origin` is not
  /// open, the load opens the checkpoint as open_async does, and closes the checkpoint at the end.
  ///
  /// If the load fails or is cancelled, its memory is freed before the operation completes, unless
  /// a read does not end within `loader_options::stop_time_max`. With
  /// `loader_options::cached_bytes`, the loader may keep the memory in its free list.
  template <token_for<model> CompletionToken = token_by_default>
  auto load_async(source origin, CompletionToken&& token = {}) {
    return load_async(std::move(origin), load_options(), std::forward<CompletionToken>(token));
  }
  /// Loads tensors with options.
  template <token_for<model> CompletionToken = token_by_default>
  auto load_async(source origin, load_options options, CompletionToken&& token = {}) {
    return detail::initiate<model, &detail::begin_load>(std::forward<CompletionToken>(token),
                                                        executor_, loader_engine(),
                                                        std::move(origin), std::move(options));
  }

  /// Starts a load. Completes when the catalog is read, the reads are planned, and the memory is
  /// allocated. The tensors are loaded afterwards. The returned `load_operation` provides each
  /// tensor as soon as the tensor is loaded. The `load_operation` has the executor of the loader,
  /// with its default token.
  template <token_for<basic_load_operation<Executor>> CompletionToken = token_by_default>
  auto start_async(source origin, CompletionToken&& token = {}) {
    return start_async(std::move(origin), load_options(), std::forward<CompletionToken>(token));
  }
  /// Starts a load with options.
  template <token_for<basic_load_operation<Executor>> CompletionToken = token_by_default>
  auto start_async(source origin, load_options options, CompletionToken&& token = {}) {
    return detail::initiate<basic_load_operation<Executor>, &detail::begin_start>(
        std::forward<CompletionToken>(token), executor_, loader_engine(), std::move(origin),
        std::move(options));
  }

  /// Starts a load that returns the tensors one by one, in the order of the checkpoint. Use this
  /// function for a model that does not fit in the memory of the device. Completes when the catalog
  /// is read and the reads are planned.
  ///
  /// `window_bytes` limits the memory of all tensors that the stream and the program hold at the
  /// same time. On the host, the window is at most three quarters of the available memory. The
  /// loader must have exactly one device, and `load_options::memory` must be `owned`. Fails with
  /// `errc::memory_exceeded` if one tensor is larger than the window.
  template <token_for<basic_tensor_stream<Executor>> CompletionToken = token_by_default>
  auto stream_async(source origin, std::uint64_t window_bytes, CompletionToken&& token = {}) {
    return stream_async(std::move(origin), window_bytes, load_options(),
                        std::forward<CompletionToken>(token));
  }
  /// Starts a load with options.
  template <token_for<basic_tensor_stream<Executor>> CompletionToken = token_by_default>
  auto stream_async(source origin, std::uint64_t window_bytes, load_options options,
                    CompletionToken&& token = {}) {
    return detail::initiate<basic_tensor_stream<Executor>, &detail::begin_stream>(
        std::forward<CompletionToken>(token), executor_, loader_engine(), std::move(origin),
        std::move(options), window_bytes);
  }

  /// Loads tensors into memory of the caller. `destinations` is a vector, or a list in braces. Each
  /// destination receives the tensor of the same name. If `options.load.select` does not select a
  /// tensor, the fill treats the tensor as missing in the checkpoint. The fill allocates no memory
  /// for tensors. If a destination is neither on the host nor on a device of the loader, the fill
  /// fails with `errc::device_unavailable`.
  ///
  /// All names, types, shapes, sizes and overlaps are checked before the first byte is written. If
  /// a check fails, the exception is an `error`, and all destinations are unchanged. If the fill
  /// fails after its first write, the exception is a `fill_error`, which lists the whole tensors.
  ///
  /// When the operation completes, also after a cancellation, neither the kernel nor a device can
  /// write to a destination. The owners of the destinations are released before. If
  /// `loader_options::stop_time_max` has passed, they are released when the last read ends.
  ///
  /// A read of 64 KiB or more can write directly to a host destination if the tensor needs no
  /// conversion and no rearrangement. A buffered read can write to any address. For a direct read,
  /// the address and the offset in the file must be equal modulo the alignment of the drive. This
  /// alignment is 512 bytes by default, and 4 bytes on many NVMe drives.
  ///
  /// Terminal and partial cancellation stop the fill. Total cancellation is ignored, because a
  /// stopped fill may leave destinations that are partly written.
  template <token_for<fill_result> CompletionToken = token_by_default>
  auto fill_async(source origin, detail::list_argument<destination> destinations,
                  CompletionToken&& token = {}) {
    return fill_async(std::move(origin), std::move(destinations), fill_options(),
                      std::forward<CompletionToken>(token));
  }
  /// Fills memory with options.
  template <token_for<fill_result> CompletionToken = token_by_default>
  auto fill_async(source origin, detail::list_argument<destination> destinations,
                  fill_options options, CompletionToken&& token = {}) {
    return detail::initiate<fill_result, &detail::begin_fill, detail::cancel_with_effects>(
        std::forward<CompletionToken>(token), executor_, loader_engine(), std::move(origin),
        std::move(destinations).take(), std::move(options));
  }

  /// Copies a tensor into new memory. The copy does not keep the memory of the original load alive.
  /// The options determine the device and the dtype of the copy. If the device of the tensor or the
  /// device of the copy is neither the host nor a device of the loader, the copy fails with
  /// `errc::device_unavailable`. The tensor may have been loaded by another loader. A copy between
  /// two positions of the same GPU passes through host memory.
  ///
  /// The operation holds the tensor until completion, even after cancellation. All work that writes
  /// to the tensor must have ended before the call. If the copy fails or is cancelled, the new
  /// memory is freed. The result of memory() includes copies in host memory.
  template <token_for<tensor> CompletionToken = token_by_default>
  auto copy_async(tensor origin, CompletionToken&& token = {}) {
    return copy_async(std::move(origin), tensor_copy_options(),
                      std::forward<CompletionToken>(token));
  }
  /// Copies a tensor with options. A `device` converts implicitly to options.
  template <token_for<tensor> CompletionToken = token_by_default>
  auto copy_async(tensor origin, tensor_copy_options options, CompletionToken&& token = {}) {
    return detail::initiate<tensor, &detail::begin_copy>(std::forward<CompletionToken>(token),
                                                         executor_, loader_engine(),
                                                         std::move(origin), options);
  }

  /// Saves tensors as one file, or as a folder of files: see `save_format`. `path` is a string or a
  /// `std::filesystem::path`. `tensors` is a vector, or a list in braces. The output replaces the
  /// target only when the output is complete. Before the replacement, and after a failure or a
  /// cancellation, the target is unchanged. If only the last flush of the folder fails
  /// (`save_options::sync`), the output has already replaced the target.
  ///
  /// A process that is killed during a save may leave a folder `.ringload-*` next to the target. If
  /// the file system does not support unnamed files, it may also leave a file `.ringload-*`.
  ///
  /// Each tensor must be on the host or on a device of the loader. A dense tensor in host memory is
  /// written without a copy under two conditions: the tensor is not converted, and its address and
  /// its offset in the file are equal modulo 512. Every other tensor is first copied into a slot.
  /// Writes use O_DIRECT if the file system supports O_DIRECT. Reads of loads have priority over
  /// writes. `loader_options::bytes_in_flight` limits the writes in flight as well.
  ///
  /// All tensors and options are checked before the first write. Examples of errors are
  /// `errc::invalid_tensor`, `invalid_saving`, `duplicate_tensor`, `unsupported_dtype` and
  /// `device_unavailable`. A full disk (`ENOSPC`) is usually detected before the first write too.
  template <token_for<save_result> CompletionToken = token_by_default>
  auto save_async(detail::path_argument path, detail::list_argument<tensor_ref> tensors,
                  CompletionToken&& token = {}) {
    return save_async(std::move(path), std::move(tensors), save_options(),
                      std::forward<CompletionToken>(token));
  }
  /// Saves tensors with options.
  template <token_for<save_result> CompletionToken = token_by_default>
  auto save_async(detail::path_argument path, detail::list_argument<tensor_ref> tensors,
                  save_options options, CompletionToken&& token = {}) {
    return detail::initiate<save_result, &detail::begin_save>(
        std::forward<CompletionToken>(token), executor_, loader_engine(), std::move(path).take(),
        std::move(tensors).take(), std::move(options));
  }

 private:
  executor_type executor_;
};

/// A loader for executors of all types. Most programs use this type.
using loader = basic_loader<>;

}  // namespace ringload::inline v0
