// SPDX-License-Identifier: Apache-2.0
#pragma once

// A loader reads checkpoints into the memory of one device.
//
// It is the only class most programs need. `loader_options` bounds what it uses: however large the
// checkpoint, never more pinned memory or reads in flight than that.

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

RINGLOAD_EXPORT void begin_load(const std::shared_ptr<engine>& with, load_request what,
                                std::unique_ptr<operation<model>> waiting);
RINGLOAD_EXPORT void begin_start(const std::shared_ptr<engine>& with, load_request what,
                                 std::unique_ptr<operation<load_operation>> waiting);
RINGLOAD_EXPORT void begin_open(const std::shared_ptr<engine>& with, source_name source,
                                open_options how, std::unique_ptr<operation<checkpoint>> waiting);
RINGLOAD_EXPORT void begin_fill(const std::shared_ptr<engine>& with, load_request what,
                                std::unique_ptr<operation<fill_result>> waiting);
RINGLOAD_EXPORT void begin_save(const std::shared_ptr<engine>& with, save_request what,
                                std::unique_ptr<operation<save_result>> waiting);

RINGLOAD_EXPORT void begin_copy(const std::shared_ptr<engine>& with, copy_request what,
                                std::unique_ptr<operation<tensor>> waiting);

struct initiate_load : initiation {
  std::shared_ptr<engine> with;
  explicit initiate_load(std::shared_ptr<engine> e) : with(std::move(e)) {}
  template <class Handler>
  void operator()(Handler&& handler, load_request what) const {
    begin_load(with, std::move(what), make_operation<model>(std::forward<Handler>(handler)));
  }
};

struct initiate_start : initiation {
  std::shared_ptr<engine> with;
  explicit initiate_start(std::shared_ptr<engine> e) : with(std::move(e)) {}
  template <class Handler>
  void operator()(Handler&& handler, load_request what) const {
    begin_start(with, std::move(what),
                make_operation<load_operation>(std::forward<Handler>(handler)));
  }
};

struct initiate_open : initiation {
  std::shared_ptr<engine> with;
  explicit initiate_open(std::shared_ptr<engine> e) : with(std::move(e)) {}
  template <class Handler>
  void operator()(Handler&& handler, source_name source, open_options how) const {
    begin_open(with, std::move(source), how,
               make_operation<checkpoint>(std::forward<Handler>(handler)));
  }
};

struct initiate_fill : initiation {
  std::shared_ptr<engine> with;
  explicit initiate_fill(std::shared_ptr<engine> e) : with(std::move(e)) {}
  template <class Handler>
  void operator()(Handler&& handler, load_request what) const {
    begin_fill(with, std::move(what), make_operation<fill_result>(std::forward<Handler>(handler)));
  }
};

struct initiate_copy : initiation {
  std::shared_ptr<engine> with;
  explicit initiate_copy(std::shared_ptr<engine> e) : with(std::move(e)) {}
  template <class Handler>
  void operator()(Handler&& handler, copy_request what) const {
    begin_copy(with, std::move(what), make_operation<tensor>(std::forward<Handler>(handler)));
  }
};

struct initiate_save : initiation {
  std::shared_ptr<engine> with;
  explicit initiate_save(std::shared_ptr<engine> e) : with(std::move(e)) {}
  template <class Handler>
  void operator()(Handler&& handler, save_request what) const {
    begin_save(with, std::move(what), make_operation<save_result>(std::forward<Handler>(handler)));
  }
};

}  // namespace detail

/// One engine thread, one ring, `loader_options::slots` pinned buffers, shared by all loads that
/// run on it. Its functions may be called from any thread.
///
/// Loads share the reads in flight in turn, and each drive, or file system without one, has bounds
/// of its own on the bytes in flight: from the second one on that a loader reads from, a drive has
/// at most half of the slots, or, with k of them busy, 1/k, so that a slow one holds up its own
/// loads only. What is read through the page cache shares `loader_options::copy_threads` all the
/// same.
///
/// The `_async` functions are Asio initiating functions. They take any completion token, never
/// complete inline, and hold outstanding work on the handler's executor until they complete.
/// Handlers run on their associated executor, by default `boost::asio::system_executor`.
class RINGLOAD_EXPORT loader {
 public:
  /// Starts the engine thread and opens `target`. Buffers are populated and pinned when they are
  /// first needed, so a loader that has nothing to stage has none. Where io_uring is refused the
  /// loader reads with threads, and `stats()` says why. Its threads have the scheduling of the one
  /// that calls this, its niceness too: where requests are to go first, call it in a thread that
  /// has lowered its own. `with` is what it may use beyond that: formats that are not always there.
  /// Its allocations are written to `log`. Throws `ringload::error`.
  explicit loader(ringload::device target = host(), const loader_options& within = {},
                  std::vector<extension> with = {}, const allocation_log& log = {});

  /// The same for several devices: one load brings each byte once, and puts it where `selection`
  /// says: see selection::on(). A device that is listed twice has two places in the list. The slots
  /// lie in equal parts near each of the GPUs, and each of them copies from any. A copy between two
  /// GPUs passes through the host. No device is `errc::invalid_options`.
  explicit loader(std::vector<ringload::device> targets, const loader_options& within = {},
                  std::vector<extension> with = {}, const allocation_log& log = {});

  loader(const loader&) = delete;
  loader& operator=(const loader&) = delete;

  /// Cancels the loads that are in flight, and waits until neither the kernel nor the device can
  /// still write to a buffer of ours. Their operations complete with `operation_aborted`.
  ~loader();

  /// Opens the checkpoint that `source` names and reads its catalog, for any number of loads: a
  /// file, a folder, a shard index, `owner/model[@revision]` in the local Hugging Face cache, or
  /// the address of such a model's page, https://huggingface.co/owner/model. Completes with
  /// `ringload::error`, which names the place.
  template <boost::asio::completion_token_for<detail::open_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto open_async(std::string_view source, CompletionToken&& token = {}) {
    return open_async(source, open_options(), std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::open_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto open_async(std::string_view source, open_options how, CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::open_signature>(
        detail::initiate_open(engine_), token, detail::source_name(std::string(source)), how);
  }
  /// Several files as one checkpoint, each with tensors of its own.
  template <boost::asio::completion_token_for<detail::open_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto open_async(std::vector<std::string> files, CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::open_signature>(
        detail::initiate_open(engine_), token,
        detail::source_name(detail::path_list{std::move(files)}), open_options());
  }
  template <boost::asio::completion_token_for<detail::open_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto open_async(std::vector<std::string> files, open_options how, CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::open_signature>(
        detail::initiate_open(engine_), token,
        detail::source_name(detail::path_list{std::move(files)}), how);
  }

  /// What a store of the program's has, or `from_memory()`.
  template <boost::asio::completion_token_for<detail::open_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto open_async(found_source source, CompletionToken&& token = {}) {
    return open_async(std::move(source), open_options(), std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::open_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto open_async(found_source source, open_options how, CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::open_signature>(
        detail::initiate_open(engine_), token, detail::source_name(std::move(source)), how);
  }

  /// Loads what `wanted` chooses of the checkpoint, or all of it. All or nothing: on failure, or
  /// when cancelled, no memory of the device stays taken, but for what
  /// `loader_options::cached_bytes` allows. The first forms open `source`, as open_async does, and
  /// close it when they are over.
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

  /// Completes as soon as catalog and plan are fixed and the memory is taken; the bytes are then on
  /// their way, and the `load_operation` gives the tensors as they land.
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

  /// Fills memory that the caller has allocated: each destination with the tensor of its name.
  /// What `wanted` chooses of the checkpoint is what it is filled from. No memory is taken for
  /// tensors; a destination is on the host or on the loader's device, else
  /// `errc::device_unavailable`.
  ///
  /// Names, types, shapes, sizes and overlaps are checked before the first byte is written; until
  /// then a failure is an `error`, and all destinations are unchanged. From then on it is a
  /// `fill_error`, which lists the destinations that are complete. Completes, cancelled or not,
  /// only when neither the kernel nor the device writes to a destination any more, and with its
  /// owner released.
  ///
  /// Reads of 64 KiB and more land in memory of the host themselves where nothing is to be
  /// converted or rearranged: buffered ones anywhere; direct ones at addresses that have the offset
  /// within 512 bytes that the tensor has in the file, or within what the drive asks for, which is
  /// 4 bytes for many NVMe drives.
  ///
  /// `load_options::dtype` must be empty: the destinations say their types. A manifest is refused
  /// with `errc::digest_unavailable`.
  template <boost::asio::completion_token_for<detail::fill_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto fill_async(const checkpoint& file, std::vector<destination> into,
                  CompletionToken&& token = {}) {
    return fill_async(file, std::move(into), fill_options(), selection(), load_options(),
                      std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::fill_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto fill_async(const checkpoint& file, std::vector<destination> into, fill_options how,
                  CompletionToken&& token = {}) {
    return fill_async(file, std::move(into), std::move(how), selection(), load_options(),
                      std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::fill_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto fill_async(const checkpoint& file, std::vector<destination> into, fill_options how,
                  selection wanted, CompletionToken&& token = {}) {
    return fill_async(file, std::move(into), std::move(how), std::move(wanted), load_options(),
                      std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::fill_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto fill_async(const checkpoint& file, std::vector<destination> into, fill_options how,
                  selection wanted, load_options options, CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::fill_signature>(
        detail::initiate_fill(engine_), token,
        detail::load_request(file, detail::fill_request(std::move(into), std::move(how)),
                             std::move(wanted), options));
  }

  /// Completes with a copy of the tensor that has memory of its own: what it was loaded with can
  /// go. The copy is on `to`, by default where the tensor is. Both are the host or the loader's
  /// device, else `errc::device_unavailable`; the tensor may be another loader's. Between two
  /// places of one GPU the bytes pass through the host.
  ///
  /// With `as` the elements are converted: to memory of the host as fill_options::dtype converts,
  /// to a GPU as load_options::dtype does, else `errc::unsupported_dtype`.
  ///
  /// Until it completes, cancelled or not, it holds the tensor; all work that writes it must have
  /// ended before. Cancelled or failed, it takes no memory. Host memory of the copy counts in
  /// memory() as well.
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
  auto copy_async(const tensor& from, ringload::device to, std::optional<dtype> as,
                  CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::tensor_signature>(
        detail::initiate_copy(engine_), token, detail::copy_request(from, to, as));
  }

  /// Saves tensors as a checkpoint: as one file, or in a folder of its own; see `save_format`. All
  /// or nothing: the file, or the folder, appears under its name when it is whole, in the place of
  /// what was there before; until then, and on failure, or when cancelled, that stays as it was. A
  /// process that is killed meanwhile may leave a folder named `.ringload-*` beside it; a file of
  /// that name only where the file system has no files without a name.
  ///
  /// Tensors are on the host or on the loader's device. What is dense is written from where it
  /// lies, if its address has the offset within 512 bytes that it has in the file; all else is
  /// copied into a slot. Writes are direct where the file system has that, and come after the reads
  /// of loads. So many bytes of them as `loader_options::bytes_in_flight` allows for reads are in
  /// flight.
  ///
  /// Fails with `errc::invalid_tensor`, `invalid_saving`, `duplicate_tensor`, `unsupported_dtype`
  /// or `device_unavailable` before anything is written, with `ENOSPC` mostly too.
  template <boost::asio::completion_token_for<detail::save_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto save_async(std::string_view path, std::vector<tensor_ref> tensors,
                  CompletionToken&& token = {}) {
    return save_async(path, std::move(tensors), save_options(),
                      std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::save_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto save_async(std::string_view path, std::vector<tensor_ref> tensors, save_options how,
                  CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::save_signature>(
        detail::initiate_save(engine_), token,
        detail::save_request(std::string(path), std::move(tensors), std::move(how)));
  }

  /// The first of devices().
  ringload::device device() const noexcept;
  /// As they were listed. Valid as long as the loader.
  const std::vector<ringload::device>& devices() const noexcept;

  /// The loader's own statistics: engine and why, memory, longest submit. The fields of a single
  /// load are 0.
  load_stats stats() const;

  /// What is live of this loader's memory. The figures for tensors are 0 once the last of them, and
  /// the last load, is gone.
  memory_use memory() const;

 private:
  std::shared_ptr<detail::engine> engine_;
};

}  // namespace ringload::inline v0
