// SPDX-License-Identifier: Apache-2.0
#pragma once

// Several ranks (processes or threads of one group) load one checkpoint together. Each rank reads a
// part of the bytes. Then the ranks exchange the bytes that they need, unless `group_reading::own`
// is chosen.
//
//   // All ranks make the same calls:
//   auto load = co_await ringload::load_async(loader, group, "Qwen/Qwen3-8B");
//   auto norm = co_await load.tensor_async("model.norm.weight");
//   auto q = co_await load.shard_async("model.layers.0.self_attn.q_proj.weight", 0);

#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <memory>
#include <ringload/catalog.hpp>
#include <ringload/detail/list_argument.hpp>
#include <ringload/detail/operation.hpp>
#include <ringload/export.hpp>
#include <ringload/group.hpp>
#include <ringload/loader.hpp>
#include <ringload/model.hpp>
#include <ringload/options.hpp>
#include <ringload/stats.hpp>
#include <ringload/tensor.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

/// How the ranks of a group divide the reads of a checkpoint.
enum class group_reading : std::uint8_t {
  /// Each rank reads an equal part of the bytes when the load starts. Each byte is read once, and
  /// sent by the group to the other ranks that request the byte. In files, most large tensors are
  /// divided into one range of dimension 0 for each rank. shard_async() along dimension 0 of such a
  /// tensor needs no bytes of other ranks. A tensor is not divided in this way if a range has less
  /// than 256 KiB, or if the ranges would differ too much in size. In objects of a store, the part
  /// of a rank is contiguous. An encoded tensor (`tensor_info::encoding`) or a quantised tensor is
  /// read as a whole by one rank. If digests in the files are verified, each tensor is read as a
  /// whole by one rank. Use this value if all ranks share a drive, or if all ranks need all
  /// tensors.
  divided,
  /// Each rank reads the bytes of a tensor when the rank requests the tensor. The ranks exchange no
  /// bytes. Use this value if each rank needs mainly its own shards, or if each rank has its own
  /// drive. If a rank knows all its shards before the load, selection::shard() is faster: one load
  /// without a group then reads all shards of the rank.
  own,
};

/// Options of a load by a group of ranks.
struct group_options {
  RINGLOAD_OPTION_STRUCT(group_options)

  /// `memory` must be `owned`. `select` must select all tensors, because each call chooses its own
  /// tensor. `verify` must not have a checksum list.
  load_options load = {};
  group_reading reading = group_reading::divided;  // How the ranks divide the reads.
};

class group_load;

namespace detail {

class group_job;

struct group_call {
  enum class call_kind : std::uint8_t { tensor, shard, fused, push, model };

  group_call(call_kind kind_of_call, std::vector<std::string> tensor_names, std::uint32_t dimension,
             std::uint32_t receiver_rank, std::string fused_tensor_name)
      : kind(kind_of_call),
        names(std::move(tensor_names)),
        dim(dimension),
        receiver(receiver_rank),
        fused_name(std::move(fused_tensor_name)) {}

  call_kind kind;
  std::vector<std::string> names;
  std::uint32_t dim;
  std::uint32_t receiver;
  std::string fused_name;
};

RINGLOAD_EXPORT void begin_group_load(loader* rank_loader, std::shared_ptr<group> rank_group,
                                      ringload::source source, const group_options& options,
                                      std::unique_ptr<operation<group_load>> waiting);
RINGLOAD_EXPORT void begin_group_call(const std::shared_ptr<group_job>& job, group_call request,
                                      std::unique_ptr<operation<tensor>> waiting);
RINGLOAD_EXPORT void begin_group_model(const std::shared_ptr<group_job>& job, group_call request,
                                       std::unique_ptr<operation<model>> waiting);

}  // namespace detail

/// A load by a group of ranks, as seen by one rank. The object is a handle and is cheap to copy.
/// The tensors are in the memory of the loader's device. Each tensor has its own allocation, with
/// two exceptions for `group_reading::divided`: all tensors of a model_async() share one
/// allocation, and a shard along dimension 0 of a tensor that is divided into ranges stays in the
/// allocation of the rank's part. `load_options::allocation` has an effect on this part, and on a
/// model_async() with `group_reading::own`.
///
/// With `group_reading::divided`, a rank keeps its part of the checkpoint in memory until the last
/// handle of the load, and the last shard in this part, are released. The part is needed because a
/// later call can request any tensor again. With `group_reading::own`, a rank holds only the
/// tensors that the program holds.
///
/// The program may write to the tensors that it receives. A later call does not return these
/// writes: if the program has received a shard of the rank's part, and the bytes are needed again,
/// the rank reads them from the file again.
///
/// All ranks must make the same calls in the same order. A rank must also make a call whose result
/// is empty on this rank. A call may be started before earlier calls complete. The calls run in the
/// order in which they are started.
///
/// If a call differs between ranks, the call fails with `errc::mismatched_call` on all ranks. If
/// the arguments are the same on all ranks but invalid, for example because the tensor does not
/// exist, the call fails on all ranks. After these two kinds of failure, the group can still be
/// used. Any other failure of one rank ends the group, even if all ranks fail with the same error.
/// An example is a source that cannot be opened. On the failed rank, the call fails with the
/// original error. On the other ranks, calls fail with `errc::rank_failed`.
///
/// Terminal and partial cancellation of a call end the group too. The call completes with
/// `operation_aborted` when the rank has stopped its work. The other ranks get `errc::rank_failed`.
/// A cancelled call that waits for earlier calls completes after the earlier calls. Total
/// cancellation is ignored.
class RINGLOAD_EXPORT group_load {
 public:
  /// The type of the loader's executor.
  using executor_type = boost::asio::any_io_executor;

  /// Creates an empty handle. An empty handle may only be assigned to or destroyed.
  group_load() noexcept = default;
  /// Internal: called by the library only.
  group_load(std::shared_ptr<detail::group_job> job, boost::asio::any_io_executor executor) noexcept
      : job_(std::move(job)), executor_(std::move(executor)) {}

  /// Returns the executor of the loader. Handlers without an associated executor run on this
  /// executor.
  executor_type get_executor() const noexcept { return executor_; }

  /// Completes with the whole tensor on every rank.
  template <token_for<tensor> CompletionToken = default_token>
  auto tensor_async(std::string_view name, CompletionToken&& token = {}) {
    return call({detail::group_call::call_kind::tensor, {std::string(name)}, 0, 0, {}},
                std::forward<CompletionToken>(token));
  }

  /// Divides the tensor along `dim` and completes with the range of this rank. A range has
  /// ceil(size / ranks) indices, so the ranges of the last ranks may be shorter or empty. Fails
  /// with `errc::invalid_selection` if the dimension does not exist, or if the elements of one
  /// index of the dimension are not whole bytes. This is possible for types of less than 8 bits.
  template <token_for<tensor> CompletionToken = default_token>
  auto shard_async(std::string_view name, std::uint32_t dim, CompletionToken&& token = {}) {
    return call({detail::group_call::call_kind::shard, {std::string(name)}, dim, 0, {}},
                std::forward<CompletionToken>(token));
  }

  /// Completes with one tensor `name`. This tensor concatenates this rank's ranges of the tensors
  /// `names` along `dim`, in the order of `names`. Fails with `errc::wrong_dtype` if the tensors
  /// have different types. Fails with `errc::wrong_shape` if their shapes differ in a dimension
  /// other than `dim`.
  template <token_for<tensor> CompletionToken = default_token>
  auto fused_async(std::string_view name, detail::list_argument<std::string> names,
                   std::uint32_t dim, CompletionToken&& token = {}) {
    return call(
        {detail::group_call::call_kind::fused, std::move(names).take(), dim, 0, std::string(name)},
        std::forward<CompletionToken>(token));
  }

  /// Completes with the whole tensor on the rank `receiver`, and with an empty handle on all other
  /// ranks.
  template <token_for<tensor> CompletionToken = default_token>
  auto push_async(std::string_view name, std::uint32_t receiver, CompletionToken&& token = {}) {
    return call({detail::group_call::call_kind::push, {std::string(name)}, 0, receiver, {}},
                std::forward<CompletionToken>(token));
  }

  /// Completes with a model that has all tensors of the checkpoint, whole, on every rank. One call
  /// for many tensors is faster than a call for each tensor, because the ranks compare only one
  /// call. With `group_reading::divided`, the ranks then send the bytes of all tensors in one
  /// all_gather().
  template <token_for<model> CompletionToken = default_token>
  auto model_async(CompletionToken&& token = {}) {
    return call_model(all_names(), std::forward<CompletionToken>(token));
  }
  /// Completes with a model that has the tensors `names`, whole, on every rank. The order of the
  /// tensors is the order of the catalog.
  template <token_for<model> CompletionToken = default_token>
  auto model_async(detail::list_argument<std::string> names, CompletionToken&& token = {}) {
    return call_model(std::move(names).take(), std::forward<CompletionToken>(token));
  }

  /// Returns the catalog of the checkpoint. The catalogs of all ranks are equal, except for the
  /// paths of files. The reference is valid as long as this object exists.
  const ringload::catalog& catalog() const noexcept;
  /// Returns statistics of the reads of this rank. The bytes, the reads and the seconds are sums
  /// over the start of the load and all calls.
  load_stats stats() const;

 private:
  std::vector<std::string> all_names() const;

  template <class CompletionToken>
  auto call_model(std::vector<std::string> names, CompletionToken&& token) {
    return detail::initiate<model, &detail::begin_group_model, detail::cancel_with_effects>(
        std::forward<CompletionToken>(token), executor_, job_,
        detail::group_call(detail::group_call::call_kind::model, std::move(names), 0, 0, {}));
  }

  template <class CompletionToken>
  auto call(detail::group_call request, CompletionToken&& token) {
    return detail::initiate<tensor, &detail::begin_group_call, detail::cancel_with_effects>(
        std::forward<CompletionToken>(token), executor_, job_, std::move(request));
  }

  std::shared_ptr<detail::group_job> job_;
  boost::asio::any_io_executor executor_;
};

/// Starts a load by all ranks of the group. With `group_reading::divided`, completes when all ranks
/// have read their parts. With `group_reading::own`, completes when all ranks have opened the
/// checkpoint. Each rank opens the checkpoint in its own file system, and the paths may differ.
/// Fails with `errc::mismatched_call` if the checkpoints have different tensors, or if the ranks
/// request different dtypes or pass different values of `reading`. Also fails with this error if
/// only some of the ranks verify digests in the files. Also fails with this error if a file was
/// replaced or modified while the ranks opened it. Only local files of ranks that share a machine
/// and a mount namespace are compared.
///
/// With `group_reading::divided`, the loader's device must be equal to `group::memory()`. For a
/// GPU, create the group with `nccl_group()`. If the devices differ, the load fails with
/// `errc::device_unavailable`. With `group_reading::own`, any group and any device can be used,
/// because the ranks exchange no tensors. If the loader has several devices, its first device is
/// used.
///
/// If the options of some ranks are invalid, the load fails on these ranks with the error of the
/// options, and on the other ranks with `errc::mismatched_call`. The group can still be used.
/// A rank with invalid options first waits for the other ranks, up to the time limit of the group.
///
/// The loader must outlive the load. The destructor of the last handle waits for the calls that
/// have started. A cancellation of this operation has the same effect as a cancellation of a call
/// of group_load.
template <token_for<group_load> CompletionToken = default_token>
auto load_async(loader& rank_loader, std::shared_ptr<group> rank_group, source origin,
                CompletionToken&& token = {}) {
  return load_async(rank_loader, std::move(rank_group), std::move(origin), group_options(),
                    std::forward<CompletionToken>(token));
}
/// Starts a load with options.
template <token_for<group_load> CompletionToken = default_token>
auto load_async(loader& rank_loader, std::shared_ptr<group> rank_group, source origin,
                group_options options, CompletionToken&& token = {}) {
  return detail::initiate<group_load, &detail::begin_group_load, detail::cancel_with_effects>(
      std::forward<CompletionToken>(token), rank_loader.get_executor(), &rank_loader,
      std::move(rank_group), std::move(origin), std::move(options));
}

}  // namespace ringload::inline v0
