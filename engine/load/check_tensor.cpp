// SPDX-License-Identifier: Apache-2.0

// Implements job::check_work::run(), which checks one tensor in a check thread. A tensor is checked
// when all its bytes are in memory, and before the caller receives the tensor. The digest of the
// tensor is compared with the digest in the checksum list or in the file. For a sparse tensor, the
// indices are checked too.
//
// If the file contains a digest of a compressed tensor, this digest covers the compressed bytes.
// The class stream_state checks this digest while the bytes are decoded.

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

// Number of bytes that are hashed before the next check for cancellation. Device memory is also
// copied to the host in steps of this size.
constexpr std::uint64_t step_bytes = std::uint64_t{1} << 20;

// The task of a check thread. The job keeps the tensor's memory alive until check_work::end() is
// called.
struct hashing {
  job& load;
  std::uint32_t tensor;
  result<void> outcome;

  void operator()() noexcept {
    outcome = catch_as_fault([this] { return hash(); });
    if (!outcome && outcome.error().where().empty()) {
      outcome = catch_as_fault(
          [this]() -> result<void> { return outcome.error().in(load.tensor_in_file(tensor)); });
    }
  }

  hasher begin(const tensor_check& check) const {
    const verification& options = load.options().verify;
    const bool uses_checksum_list = check.from_list && check.algorithm == digest_algorithm::sha256;
    return uses_checksum_list ? options.checksums->sha256()
                              : begin_digest(check.algorithm, options);
  }

  result<void> hash() {
    const tensor_check& check = load.check_of(tensor);
    const hasher digest_hasher = check.has_digest() ? begin(check) : hasher();
    result<void> indices_status;
    std::optional<index_checker> indices;
    if (check.indices) indices.emplace(*check.indices);
    const std::uint64_t bytes = load.named().catalog().tensors[tensor].bytes;
    const placement& place = load.placement_of(tensor);
    std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(bytes, step_bytes)));
    backend& owner = load.destination_memory().backend_of(place.destination);
    for (std::uint64_t offset = 0; offset < bytes && !load.stopped();) {
      const auto step = static_cast<std::size_t>(std::min(bytes - offset, step_bytes));
      auto bytes_read =
          owner.read_back(load.memory(place.destination), place.destination_offset + offset,
                          std::span(buffer).first(step));
      if (!bytes_read) return bytes_read.error();
      if (check.has_digest()) digest_hasher.update(*bytes_read);
      if (indices && indices_status) indices_status = indices->take(*bytes_read);
      offset += step;
    }
    if (load.stopped()) return {};
    if (check.has_digest()) {
      const std::string source =
          check.from_list ? printable_path(load.options().verify.checksums->place) : "the file";
      auto status = end_digest(digest_hasher, check.algorithm, check.digest, source);
      if (!status) return status.error();
    }
    // Wrong indices are reported only if the digest is correct, because damaged bytes can also
    // cause wrong indices.
    if (indices && indices_status) return indices->finish();
    return indices_status;
  }
};

}  // namespace

boost::asio::awaitable<void> job::check_work::run(work_step& step, result<void>& outcome) {
  engine& e = *load_.the_engine;
  hashing task = {load_, step.index, {}};
  co_await on_thread(*e.check_threads, e.loop, task);
  outcome = task.outcome;
}

}  // namespace ringload::inline v0::detail
