// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ranks that load one checkpoint together: each rank reads its part of the bytes, then the ranks
// exchange the bytes that they need.
//
//   // On every rank, and the same calls on all of them:
//   auto load = co_await ringload::load_async(loader, group, "Qwen/Qwen3-8B", {});
//   auto norm = co_await load.tensor_async("model.norm.weight");
//   auto q = co_await load.shard_async("model.layers.0.self_attn.q_proj.weight", 0);

#include <boost/asio/async_result.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdint>
#include <memory>
#include <ringload/catalog.hpp>
#include <ringload/detail/operation.hpp>
#include <ringload/export.hpp>
#include <ringload/group.hpp>
#include <ringload/loader.hpp>
#include <ringload/options.hpp>
#include <ringload/stats.hpp>
#include <ringload/tensor.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

/// How ranks divide the reading of a checkpoint.
enum class group_reading : std::uint8_t {
  /// Each rank reads an equal part of the bytes at once. Compressed data is divided by whole
  /// tensors, and so is all data if stored digests are checked. Each byte is read once and then
  /// sent through memory. For drives that all ranks share, and for tensors that all ranks need.
  divided,
  /// Each rank reads the bytes of its requests when it makes them. Nothing is exchanged. For ranks
  /// that need little more than their shards, and for separate drives.
  own,
};

struct group_options {
  load_options load;  // No window and no mapping.
  group_reading reading = group_reading::divided;
};

class group_load;

namespace detail {

class group_job;

struct group_call {
  enum class what : std::uint8_t { tensor, shard, fused, push };

  group_call(what k, std::vector<std::string> n, std::uint32_t d, std::uint32_t t, std::string a)
      : kind(k), names(std::move(n)), dim(d), to(t), fused_name(std::move(a)) {}

  what kind;
  std::vector<std::string> names;
  std::uint32_t dim;
  std::uint32_t to;
  std::string fused_name;
};

using group_load_signature = void(std::exception_ptr, group_load);

RINGLOAD_EXPORT void begin_group_load(loader& host_loader, std::shared_ptr<group> ranks,
                                      std::string source, const group_options& options,
                                      std::unique_ptr<operation<group_load>> waiting);
RINGLOAD_EXPORT void begin_group_call(const std::shared_ptr<group_job>& job, group_call request,
                                      std::unique_ptr<operation<tensor>> waiting);

struct initiate_group_load : initiation {
  loader* host_loader;
  explicit initiate_group_load(loader& w) : host_loader(&w) {}
  template <class Handler>
  void operator()(Handler&& handler, std::shared_ptr<group> ranks, std::string source,
                  const group_options& options) const {
    begin_group_load(*host_loader, std::move(ranks), std::move(source), options,
                     make_operation<group_load>(std::forward<Handler>(handler)));
  }
};

struct initiate_group_call : initiation {
  std::shared_ptr<group_job> job;
  explicit initiate_group_call(std::shared_ptr<group_job> j) : job(std::move(j)) {}
  template <class Handler>
  void operator()(Handler&& handler, group_call request) const {
    begin_group_call(job, std::move(request),
                     make_operation<tensor>(std::forward<Handler>(handler)));
  }
};

}  // namespace detail

/// A load of a group, as one rank uses it. A handle, cheap to copy.
///
/// All ranks must make the same calls in the same order, even calls that return nothing to a rank.
/// Calls may be started before others complete, and run in the order in which they are started. If
/// a call differs between ranks, it fails with `errc::mismatched_call` on all ranks, and changes
/// nothing. A call that is wrong on all ranks, such as a call for a tensor that does not exist,
/// fails on all ranks and changes nothing. Any other failure of one rank is its own error on that
/// rank, is `errc::rank_failed` on the other ranks, and ends the group.
///
/// Cancelling a call also ends the group. The call completes with `operation_aborted` when the rank
/// has stopped its work, and the other ranks fail with `errc::rank_failed`. A call that has not
/// started is cancelled at its turn.
///
/// Tensors are in host memory, each with its own allocation.
class RINGLOAD_EXPORT group_load {
 public:
  /// An empty handle: only assignment and destruction are allowed.
  group_load() noexcept = default;
  explicit group_load(std::shared_ptr<detail::group_job> job) noexcept : job_(std::move(job)) {}

  /// Completes with the whole tensor on every rank.
  template <boost::asio::completion_token_for<detail::tensor_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto tensor_async(std::string_view name, CompletionToken&& token = {}) {
    return call({detail::group_call::what::tensor, {std::string(name)}, 0, 0, {}}, token);
  }

  /// Completes with the range of this rank along `dim`. Each range has ceil(size / ranks) indices,
  /// so the last range may be shorter or empty. `errc::invalid_selection` if the dimension does not
  /// exist, or if an index of the dimension is not a whole number of bytes.
  template <boost::asio::completion_token_for<detail::tensor_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto shard_async(std::string_view name, std::uint32_t dim, CompletionToken&& token = {}) {
    return call({detail::group_call::what::shard, {std::string(name)}, dim, 0, {}}, token);
  }

  /// Completes with one tensor `name`, which concatenates the ranges of this rank of several
  /// tensors along `dim`, in the order of `names`. `errc::wrong_dtype` or `wrong_shape` if their
  /// types or their other dimensions differ.
  template <boost::asio::completion_token_for<detail::tensor_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto fused_async(std::string_view name, std::vector<std::string> names, std::uint32_t dim,
                   CompletionToken&& token = {}) {
    return call({detail::group_call::what::fused, std::move(names), dim, 0, std::string(name)},
                token);
  }

  /// Completes with the whole tensor on the rank `to`, and with an empty handle on all other ranks.
  template <boost::asio::completion_token_for<detail::tensor_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto push_async(std::string_view name, std::uint32_t to, CompletionToken&& token = {}) {
    return call({detail::group_call::what::push, {std::string(name)}, 0, to, {}}, token);
  }

  /// The catalog of the checkpoint, equal on all ranks except for file paths. Valid as long as this
  /// object.
  const ringload::catalog& catalog() const noexcept;
  /// Returns the statistics of this rank's reads. With `group_reading::own`, bytes, reads and
  /// seconds are sums over all calls.
  load_stats stats() const;

 private:
  template <class CompletionToken>
  auto call(detail::group_call request, CompletionToken&& token) {
    return boost::asio::async_initiate<CompletionToken, detail::tensor_signature>(
        detail::initiate_group_call(job_), token, std::move(request));
  }

  std::shared_ptr<detail::group_job> job_;
};

/// Loads together with the other ranks. Completes when all ranks have read their parts, or, with
/// `group_reading::own`, have opened the checkpoint. Each rank opens the checkpoint in its own file
/// system, under any path. If the checkpoints have different tensors, the error is
/// `errc::mismatched_call`.
///
/// `host_loader` is a loader for the host (else `errc::device_unavailable`) and must outlive the
/// load. The destructor of the last handle waits for started calls. Cancelling this operation has
/// the effect of cancelling a call.
template <boost::asio::completion_token_for<detail::group_load_signature> CompletionToken =
              boost::asio::use_awaitable_t<>>
auto load_async(loader& host_loader, std::shared_ptr<group> ranks, std::string_view source,
                group_options options, CompletionToken&& token = {}) {
  return boost::asio::async_initiate<CompletionToken, detail::group_load_signature>(
      detail::initiate_group_load(host_loader), token, std::move(ranks), std::string(source),
      options);
}

}  // namespace ringload::inline v0
