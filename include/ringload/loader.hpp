// SPDX-License-Identifier: Apache-2.0
#pragma once

// A loader reads checkpoints into the memory of one or more devices.
//
// Most programs need only this class. `loader_options` limits pinned memory and reads in flight,
// for checkpoints of any size.

#include <boost/asio/async_result.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <optional>
#include <ringload/allocation_log.hpp>
#include <ringload/checkpoint.hpp>
#include <ringload/detail/operation.hpp>
#include <ringload/detail/request.hpp>
#include <ringload/device.hpp>
#include <ringload/export.hpp>
#include <ringload/extension.hpp>
#include <ringload/fill.hpp>
#include <ringload/load_operation.hpp>
#include <ringload/model.hpp>
#include <ringload/options.hpp>
#include <ringload/save.hpp>
#include <ringload/selection.hpp>
#include <ringload/stats.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

namespace detail {

class engine;

using load_operation_signature = void(std::exception_ptr, load_operation);

using open_signature = void(std::exception_ptr, checkpoint);

using fill_signature = void(std::exception_ptr, fill_result);

using save_signature = void(std::exception_ptr, save_result);

RINGLOAD_EXPORT void begin_load(const std::shared_ptr<engine>& loader_engine, load_request request,
                                std::unique_ptr<operation<model>> waiting);
RINGLOAD_EXPORT void begin_start(const std::shared_ptr<engine>& loader_engine, load_request request,
                                 std::unique_ptr<operation<load_operation>> waiting);
RINGLOAD_EXPORT void begin_open(const std::shared_ptr<engine>& loader_engine, source_name source,
                                open_options options,
                                std::unique_ptr<operation<checkpoint>> waiting);
RINGLOAD_EXPORT void begin_fill(const std::shared_ptr<engine>& loader_engine, load_request request,
                                std::unique_ptr<operation<fill_result>> waiting);
RINGLOAD_EXPORT void begin_save(const std::shared_ptr<engine>& loader_engine, save_request request,
                                std::unique_ptr<operation<save_result>> waiting);

RINGLOAD_EXPORT void begin_copy(const std::shared_ptr<engine>& loader_engine, copy_request request,
                                std::unique_ptr<operation<tensor>> waiting);

struct initiate_load : initiation {
  std::shared_ptr<engine> loader_engine;
  explicit initiate_load(std::shared_ptr<engine> e) : loader_engine(std::move(e)) {}
  template <class Handler>
  void operator()(Handler&& handler, load_request request) const {
    begin_load(loader_engine, std::move(request),
               make_operation<model>(std::forward<Handler>(handler)));
  }
};

struct initiate_start : initiation {
  std::shared_ptr<engine> loader_engine;
  explicit initiate_start(std::shared_ptr<engine> e) : loader_engine(std::move(e)) {}
  template <class Handler>
  void operator()(Handler&& handler, load_request request) const {
    begin_start(loader_engine, std::move(request),
                make_operation<load_operation>(std::forward<Handler>(handler)));
  }
};

struct initiate_open : initiation {
  std::shared_ptr<engine> loader_engine;
  explicit initiate_open(std::shared_ptr<engine> e) : loader_engine(std::move(e)) {}
  template <class Handler>
  void operator()(Handler&& handler, source_name source, open_options options) const {
    begin_open(loader_engine, std::move(source), options,
               make_operation<checkpoint>(std::forward<Handler>(handler)));
  }
};

struct initiate_fill : initiation {
  std::shared_ptr<engine> loader_engine;
  explicit initiate_fill(std::shared_ptr<engine> e) : loader_engine(std::move(e)) {}
  template <class Handler>
  void operator()(Handler&& handler, load_request request) const {
    begin_fill(loader_engine, std::move(request),
               make_operation<fill_result>(std::forward<Handler>(handler)));
  }
};

struct initiate_copy : initiation {
  std::shared_ptr<engine> loader_engine;
  explicit initiate_copy(std::shared_ptr<engine> e) : loader_engine(std::move(e)) {}
  template <class Handler>
  void operator()(Handler&& handler, copy_request request) const {
    begin_copy(loader_engine, std::move(request),
               make_operation<tensor>(std::forward<Handler>(handler)));
  }
};

struct initiate_save : initiation {
  std::shared_ptr<engine> loader_engine;
  explicit initiate_save(std::shared_ptr<engine> e) : loader_engine(std::move(e)) {}
  template <class Handler>
  void operator()(Handler&& handler, save_request request) const {
    begin_save(loader_engine, std::move(request),
               make_operation<save_result>(std::forward<Handler>(handler)));
  }
};

}  // namespace detail

/// A loader has one engine thread, one ring and `loader_options::slots` pinned buffers. All loads
/// of the loader share them. The functions may be called from any thread.
///
/// Loads take turns at the reads in flight. The bytes in flight are limited per drive, or per file
/// system without a drive. If a loader reads from two drives or more, a drive has at most half of
/// the slots, or 1/k of them while k drives are busy. So a slow drive delays only its own loads.
/// Reads through the page cache share `loader_options::copy_threads` in all cases.
///
/// The `_async` functions are Asio initiating functions. They take any completion token, never
/// complete inline, and hold outstanding work on the handler's executor until they complete.
/// Handlers run on their associated executor, by default `boost::asio::system_executor`.
class RINGLOAD_EXPORT loader {
 public:
  /// Starts the engine thread and opens `target`. Buffers are populated and pinned on first use, so
  /// a loader that stages nothing has no buffers. If the system refuses io_uring, the loader reads
  /// with threads, and `stats()` has the reason. The loader's threads inherit the scheduling and
  /// the niceness of the calling thread. `extensions` are additional formats and stores. `log`
  /// records the allocations of the loader. Throws `ringload::error`.
  explicit loader(ringload::device target = host(), const loader_options& limits = {},
                  std::vector<extension> extensions = {}, const allocation_log& log = {});

  /// Opens several devices. A load reads each byte once and copies it to the devices that
  /// `selection` chooses: see selection::on(). A device that is listed twice has two positions. The
  /// slots are divided equally between memory near each GPU, and each GPU copies from any slot. A
  /// copy between two GPUs passes through the host. An empty list is `errc::invalid_options`.
  explicit loader(std::vector<ringload::device> targets, const loader_options& limits = {},
                  std::vector<extension> extensions = {}, const allocation_log& log = {});

  loader(const loader&) = delete;
  loader& operator=(const loader&) = delete;

  /// Cancels the loads in flight and waits until neither the kernel nor the device writes to a
  /// buffer of the loader. The operations complete with `operation_aborted`.
  ~loader();

  /// Opens the checkpoint `source` and reads its catalog, for any number of loads. `source` is a
  /// file, a folder, a shard index, `owner/model[@revision]` in the local Hugging Face cache, or
  /// the address of the model's page, https://huggingface.co/owner/model. Fails with
  /// `ringload::error`, which names the place.
  template <boost::asio::completion_token_for<detail::open_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto open_async(std::string_view source, CompletionToken&& token = {}) {
    return open_async(source, open_options(), std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::open_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto open_async(std::string_view source, open_options options, CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::open_signature>(
        detail::initiate_open(engine_), token, detail::source_name(std::string(source)), options);
  }
  /// Opens several files as one checkpoint. Each file has its own tensors.
  template <boost::asio::completion_token_for<detail::open_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto open_async(std::vector<std::string> files, CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::open_signature>(
        detail::initiate_open(engine_), token,
        detail::source_name(detail::path_list{std::move(files)}), open_options());
  }
  template <boost::asio::completion_token_for<detail::open_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto open_async(std::vector<std::string> files, open_options options,
                  CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::open_signature>(
        detail::initiate_open(engine_), token,
        detail::source_name(detail::path_list{std::move(files)}), options);
  }

  /// Opens an object of a store, or the result of `from_memory()`.
  template <boost::asio::completion_token_for<detail::open_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto open_async(found_source source, CompletionToken&& token = {}) {
    return open_async(std::move(source), open_options(), std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::open_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto open_async(found_source source, open_options options, CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::open_signature>(
        detail::initiate_open(engine_), token, detail::source_name(std::move(source)), options);
  }

  /// Loads the tensors that `wanted` selects, by default all tensors. If the load fails or is
  /// cancelled, its device memory is freed, except for the free list that
  /// `loader_options::cached_bytes` allows. The overloads with `source` open the checkpoint as
  /// open_async does, and close it at the end.
  template <boost::asio::completion_token_for<detail::model_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto load_async(std::string_view source, CompletionToken&& token = {}) {
    return load_async(source, selection(), load_options(), std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::model_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto load_async(std::string_view source, load_options options, CompletionToken&& token = {}) {
    return load_async(source, selection(), options, std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::model_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto load_async(std::string_view source, selection wanted, load_options options,
                  CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::model_signature>(
        detail::initiate_load(engine_), token,
        detail::load_request(detail::source_name(std::string(source)), std::move(wanted), options));
  }
  template <boost::asio::completion_token_for<detail::model_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto load_async(found_source source, CompletionToken&& token = {}) {
    return load_async(std::move(source), selection(), load_options(),
                      std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::model_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto load_async(found_source source, selection wanted, load_options options,
                  CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::model_signature>(
        detail::initiate_load(engine_), token,
        detail::load_request(detail::source_name(std::move(source)), std::move(wanted), options));
  }
  template <boost::asio::completion_token_for<detail::model_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto load_async(const checkpoint& file, CompletionToken&& token = {}) {
    return load_async(file, selection(), load_options(), std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::model_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto load_async(const checkpoint& file, selection wanted, CompletionToken&& token = {}) {
    return load_async(file, std::move(wanted), load_options(),
                      std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::model_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto load_async(const checkpoint& file, selection wanted, load_options options,
                  CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::model_signature>(
        detail::initiate_load(engine_), token,
        detail::load_request(file, std::move(wanted), options));
  }

  /// Completes when the catalog is read, the plan is made and the memory is allocated. The bytes
  /// are read afterwards, and the `load_operation` returns each tensor as soon as it is loaded.
  template <boost::asio::completion_token_for<detail::load_operation_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto start_async(std::string_view source, CompletionToken&& token = {}) {
    return start_async(source, selection(), load_options(), std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::load_operation_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto start_async(std::string_view source, load_options options, CompletionToken&& token = {}) {
    return start_async(source, selection(), options, std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::load_operation_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto start_async(std::string_view source, selection wanted, load_options options,
                   CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::load_operation_signature>(
        detail::initiate_start(engine_), token,
        detail::load_request(detail::source_name(std::string(source)), std::move(wanted), options));
  }
  template <boost::asio::completion_token_for<detail::load_operation_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto start_async(const checkpoint& file, CompletionToken&& token = {}) {
    return start_async(file, selection(), load_options(), std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::load_operation_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto start_async(const checkpoint& file, selection wanted, CompletionToken&& token = {}) {
    return start_async(file, std::move(wanted), load_options(),
                       std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::load_operation_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto start_async(const checkpoint& file, selection wanted, load_options options,
                   CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::load_operation_signature>(
        detail::initiate_start(engine_), token,
        detail::load_request(file, std::move(wanted), options));
  }

  /// Fills memory of the caller: each destination receives the tensor of its name, from the tensors
  /// that `wanted` selects. The fill allocates no memory for tensors. A destination is on the host
  /// or on a device of the loader, else `errc::device_unavailable`.
  ///
  /// Names, types, shapes, sizes and overlaps are checked before the first byte is written. A
  /// failure of these checks is an `error`, and all destinations are unchanged. A later failure is
  /// a `fill_error`, which lists the complete destinations. The operation completes, cancelled or
  /// not, when neither the kernel nor the device writes to a destination and the owners are
  /// released.
  ///
  /// Reads of 64 KiB and more go directly to host memory if no conversion or rearrangement is
  /// needed. Buffered reads can do this at any address. Direct reads require that the address and
  /// the tensor's offset in the file are equal modulo 512, or modulo the alignment of the drive,
  /// which is 4 bytes for many NVMe drives.
  ///
  /// `load_options::dtype` must be empty, because the destinations have types. A manifest is
  /// refused with `errc::digest_unavailable`.
  template <boost::asio::completion_token_for<detail::fill_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto fill_async(const checkpoint& file, std::vector<destination> into,
                  CompletionToken&& token = {}) {
    return fill_async(file, std::move(into), fill_options(), selection(), load_options(),
                      std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::fill_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto fill_async(const checkpoint& file, std::vector<destination> into, fill_options rules,
                  CompletionToken&& token = {}) {
    return fill_async(file, std::move(into), std::move(rules), selection(), load_options(),
                      std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::fill_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto fill_async(const checkpoint& file, std::vector<destination> into, fill_options rules,
                  selection wanted, CompletionToken&& token = {}) {
    return fill_async(file, std::move(into), std::move(rules), std::move(wanted), load_options(),
                      std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::fill_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto fill_async(const checkpoint& file, std::vector<destination> into, fill_options rules,
                  selection wanted, load_options options, CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::fill_signature>(
        detail::initiate_fill(engine_), token,
        detail::load_request(file, detail::fill_request(std::move(into), std::move(rules)),
                             std::move(wanted), options));
  }

  /// Completes with a copy of the tensor in its own memory. The memory of the original load can be
  /// freed afterwards. The copy is on `to`, by default on the device of the tensor. Both devices
  /// are the host or a device of the loader, else `errc::device_unavailable`. The tensor may belong
  /// to another loader. A copy between two positions of one GPU passes through the host.
  ///
  /// If `to_dtype` is set, the elements are converted: to host memory with the rules of
  /// fill_options::dtype, to a GPU with the rules of load_options::dtype, else
  /// `errc::unsupported_dtype`.
  ///
  /// The operation holds the tensor until it completes, cancelled or not. All work that writes the
  /// tensor must have ended before the call. A cancelled or failed copy keeps no memory. Host
  /// memory of the copy counts in memory() as well.
  template <boost::asio::completion_token_for<detail::tensor_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto copy_async(const tensor& from, CompletionToken&& token = {}) {
    return copy_async(from, from ? from.device() : host(), std::nullopt,
                      std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::tensor_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto copy_async(const tensor& from, ringload::device to, CompletionToken&& token = {}) {
    return copy_async(from, to, std::nullopt, std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::tensor_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto copy_async(const tensor& from, ringload::device to, std::optional<dtype> to_dtype,
                  CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::tensor_signature>(
        detail::initiate_copy(engine_), token, detail::copy_request(from, to, to_dtype));
  }

  /// Saves tensors as a checkpoint: one file, or a folder; see `save_format`. The file or folder
  /// replaces the target only when it is complete. Until then, and on failure or cancellation, the
  /// target is unchanged. A process that is killed during a save may leave a folder named
  /// `.ringload-*` next to the target. It may leave a file of such a name only if the file system
  /// does not support unnamed files.
  ///
  /// Tensors are on the host or on a device of the loader. A dense tensor is written from its own
  /// memory if its address and its offset in the file are equal modulo 512. All other tensors are
  /// copied into a slot. Writes are direct if the file system supports it, and have a lower
  /// priority than reads of loads. `loader_options::bytes_in_flight` limits writes as it limits
  /// reads.
  ///
  /// Fails with `errc::invalid_tensor`, `invalid_saving`, `duplicate_tensor`, `unsupported_dtype`
  /// or `device_unavailable` before the first write, and usually with `ENOSPC` too.
  template <boost::asio::completion_token_for<detail::save_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto save_async(std::string_view path, std::vector<tensor_ref> tensors,
                  CompletionToken&& token = {}) {
    return save_async(path, std::move(tensors), save_options(),
                      std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::save_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto save_async(std::string_view path, std::vector<tensor_ref> tensors, save_options options,
                  CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::save_signature>(
        detail::initiate_save(engine_), token,
        detail::save_request(std::string(path), std::move(tensors), std::move(options)));
  }

  /// Returns the first of devices().
  ringload::device device() const noexcept;
  /// The devices in the order of the constructor. Valid as long as the loader.
  const std::vector<ringload::device>& devices() const noexcept;

  /// Returns the statistics of the loader: the engine and its reason, memory, longest submit. The
  /// fields of a single load are 0.
  load_stats stats() const;

  /// Returns the memory that the loader uses now. The numbers of tensors are 0 when the last tensor
  /// and the last load are destroyed.
  memory_use memory() const;

 private:
  std::shared_ptr<detail::engine> engine_;
};

}  // namespace ringload::inline v0
