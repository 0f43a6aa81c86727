// SPDX-License-Identifier: Apache-2.0

// Checks one tensor of a load: job::check_work::run(). Once a tensor has all its bytes, and before
// it is handed out, its digest is compared with the digest of the manifest or of the file, and the
// indices of a sparse object are checked. Stored bytes that are decoded are hashed while they are
// decoded: see stream_state.

#include <algorithm>
#include <boost/asio/error.hpp>

#include "base/catch_as_fault.hpp"
#include "base/printable.hpp"
#include "load/job.hpp"
#include "request/digest.hpp"
#include "runtime/engine.hpp"
#include "runtime/on_thread.hpp"

namespace ringload::inline v0::detail {

namespace {

// Hashed between two checks for cancellation; for a device's memory also the size of one copy back.
constexpr std::uint64_t step_bytes = std::uint64_t{1} << 20;

// Runs in a check thread. The job keeps the memory until checked().
struct hashing {
  job& of;
  std::uint32_t tensor;
  result<void> outcome;

  void operator()() noexcept {
    outcome = catch_as_fault([this] { return hash(); });
    if (!outcome && outcome.error().where.empty()) {
      outcome = catch_as_fault(
          [this]() -> result<void> { return outcome.error().in(of.tensor_in_file(tensor)); });
    }
  }

  hasher begin(const tensor_check& wanted) const {
    const verification& how = of.options().verify;
    const bool listed = wanted.of_manifest && wanted.algorithm == digest_algorithm::sha256;
    return listed ? how.checksums->sha256() : begin_digest(wanted.algorithm, how);
  }

  result<void> hash() {
    const tensor_check& wanted = of.check_of(tensor);
    const hasher pass = wanted.compares() ? begin(wanted) : hasher();
    result<void> indices_good;
    std::optional<index_checker> indices;
    if (wanted.indices) indices.emplace(*wanted.indices);
    const std::uint64_t bytes = of.named().catalog().tensors[tensor].bytes;
    const placement& place = of.place_of(tensor);
    std::vector<std::byte> room(static_cast<std::size_t>(std::min(bytes, step_bytes)));
    backend& by = of.into().of(place.destination);
    for (std::uint64_t at = 0; at < bytes && !of.stopped();) {
      const auto step = static_cast<std::size_t>(std::min(bytes - at, step_bytes));
      auto here = by.read_back(of.memory(place.destination), place.destination_offset + at,
                               std::span(room).first(step));
      if (!here) return here.error();
      if (wanted.compares()) pass.update(*here);
      if (indices && indices_good) indices_good = indices->take(*here);
      at += step;
    }
    if (of.stopped()) return {};
    if (wanted.compares()) {
      const std::string said_by =
          wanted.of_manifest ? printable_path(of.options().verify.checksums->place) : "the file";
      auto good = end_digest(pass, wanted.algorithm, wanted.digest, said_by);
      if (!good) return good.error();
    }
    // What the digest has found to be damaged is not looked at any closer.
    if (indices && indices_good) return indices->finish();
    return indices_good;
  }
};

}  // namespace

boost::asio::awaitable<void> job::check_work::run(work_step step, result<void>& outcome) {
  engine& e = *load_.the_engine;
  hashing task = {load_, step.index, {}};
  co_await on_thread(*e.check_threads, e.loop, task);
  outcome = task.outcome;
}

}  // namespace ringload::inline v0::detail
