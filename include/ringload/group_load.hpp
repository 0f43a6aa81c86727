// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ranks that load one checkpoint together: each reads its part of the bytes, and then they give
// each other what each needs.
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

/// Who reads what of a checkpoint that ranks load together.
enum class group_reading : std::uint8_t {
  /// Each rank an equal part of the bytes, all of it at once; what is compressed, and all where
  /// stored digests are checked, is divided by whole tensors. Each byte is read once, and passed on
  /// in memory. For drives that all ranks share, and tensors that all ranks need.
  divided,
  /// Each rank what it asks for, when it does. Nothing is passed on. For ranks that need their
  /// shards and little else, and for drives of their own.
  own,
};

struct group_options {
  load_options load;  // Not through a window, and not mapped.
  group_reading reading = group_reading::divided;
};

class group_load;

namespace detail {

class group_job;

struct group_call {
  enum class what : std::uint8_t { tensor, shard, fused, push };

  group_call(what k, std::vector<std::string> n, std::uint32_t d, std::uint32_t t, std::string a)
      : kind(k), names(std::move(n)), dim(d), to(t), as(std::move(a)) {}

  what kind;
  std::vector<std::string> names;
  std::uint32_t dim;
  std::uint32_t to;
  std::string as;
};

using group_load_signature = void(std::exception_ptr, group_load);

RINGLOAD_EXPORT void begin_group_load(loader& with, std::shared_ptr<group> ranks,
                                      std::string source, const group_options& how,
                                      std::unique_ptr<operation<group_load>> waiting);
RINGLOAD_EXPORT void begin_group_call(const std::shared_ptr<group_job>& of, group_call what,
                                      std::unique_ptr<operation<tensor>> waiting);

struct initiate_group_load : initiation {
  loader* with;
  explicit initiate_group_load(loader& w) : with(&w) {}
  template <class Handler>
  void operator()(Handler&& handler, std::shared_ptr<group> ranks, std::string source,
                  const group_options& how) const {
    begin_group_load(*with, std::move(ranks), std::move(source), how,
                     make_operation<group_load>(std::forward<Handler>(handler)));
  }
};

struct initiate_group_call : initiation {
  std::shared_ptr<group_job> of;
  explicit initiate_group_call(std::shared_ptr<group_job> j) : of(std::move(j)) {}
  template <class Handler>
  void operator()(Handler&& handler, group_call what) const {
    begin_group_call(of, std::move(what), make_operation<tensor>(std::forward<Handler>(handler)));
  }
};

}  // namespace detail

/// What this rank has of the load. A handle, cheap to copy.
///
/// All ranks make the same calls in the same order, also those that a call gives nothing. Calls may
/// be begun before others complete; they run in the order in which they are begun. A call that is
/// not the same on all ranks is `errc::mismatched_call` on all of them, and does nothing. So is one
/// that is wrong on all, as of a tensor that does not exist. Whatever else fails on one rank is its
/// error there, `errc::rank_failed` on the others, and ends the group.
///
/// Cancelling a call ends the group too: the call completes with `operation_aborted` when the rank
/// has let go of what it was doing, and the others fail with `errc::rank_failed`. A call that has
/// not begun is cancelled when it is its turn.
///
/// Tensors are in memory of the host, with an allocation of their own.
class RINGLOAD_EXPORT group_load {
 public:
  /// Not a load; only assignment and destruction are allowed.
  group_load() noexcept = default;
  explicit group_load(std::shared_ptr<detail::group_job> of) noexcept : job_(std::move(of)) {}

  /// The whole tensor, on every rank.
  template <boost::asio::completion_token_for<detail::tensor_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto tensor_async(std::string_view name, CompletionToken&& token = {}) {
    return call({detail::group_call::what::tensor, {std::string(name)}, 0, 0, {}}, token);
  }

  /// The block of this rank along `dim`: blocks are ceil(size / ranks) long, so the last may be
  /// shorter, or empty. `errc::invalid_selection` where there is no such dimension, or an index of
  /// it is no whole number of bytes.
  template <boost::asio::completion_token_for<detail::tensor_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto shard_async(std::string_view name, std::uint32_t dim, CompletionToken&& token = {}) {
    return call({detail::group_call::what::shard, {std::string(name)}, dim, 0, {}}, token);
  }

  /// The blocks of this rank of several tensors, behind each other along `dim` in the order of
  /// `names`, as one tensor named `as`. `errc::wrong_dtype` or `wrong_shape` where their types or
  /// other dimensions differ.
  template <boost::asio::completion_token_for<detail::tensor_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto fused_async(std::string_view as, std::vector<std::string> names, std::uint32_t dim,
                   CompletionToken&& token = {}) {
    return call({detail::group_call::what::fused, std::move(names), dim, 0, std::string(as)},
                token);
  }

  /// The whole tensor on the rank `to`, and an empty handle on all others.
  template <boost::asio::completion_token_for<detail::tensor_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto push_async(std::string_view name, std::uint32_t to, CompletionToken&& token = {}) {
    return call({detail::group_call::what::push, {std::string(name)}, 0, to, {}}, token);
  }

  /// The checkpoint's, the same on all ranks but for the files' paths. Valid as long as this.
  const ringload::catalog& catalog() const noexcept;
  /// Of this rank's reads; with `group_reading::own` the bytes, reads and seconds of all its calls.
  load_stats stats() const;

 private:
  template <class CompletionToken>
  auto call(detail::group_call what, CompletionToken&& token) {
    return boost::asio::async_initiate<CompletionToken, detail::tensor_signature>(
        detail::initiate_group_call(job_), token, std::move(what));
  }

  std::shared_ptr<detail::group_job> job_;
};

/// Loads with the other ranks: completes when all of them have read their parts, or, with
/// `group_reading::own`, have opened the checkpoint. Each has it in its own file system, under any
/// path; `errc::mismatched_call` where it does not hold the same tensors everywhere.
///
/// `with` is a loader for the host (else `errc::device_unavailable`), and outlives the load. Its
/// last handle waits for the calls that are begun. Cancelling it is as cancelling a call.
template <boost::asio::completion_token_for<detail::group_load_signature> CompletionToken =
              boost::asio::use_awaitable_t<>>
auto load_async(loader& with, std::shared_ptr<group> ranks, std::string_view source,
                group_options how, CompletionToken&& token = {}) {
  return boost::asio::async_initiate<CompletionToken, detail::group_load_signature>(
      detail::initiate_group_load(with), token, std::move(ranks), std::string(source), how);
}

}  // namespace ringload::inline v0
