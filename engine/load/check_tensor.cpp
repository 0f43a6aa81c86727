// SPDX-License-Identifier: Apache-2.0

// Checks one tensor of a load: job::check_work::run(). The check runs when a tensor has all its
// bytes, before the tensor is handed out. The digest is compared with the digest of the manifest or
// of the file, and the indices of a sparse object are checked. stream_state hashes stored bytes
// that are decoded.

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

// Bytes that are hashed between two checks for cancellation. Also the size of one copy from device
// memory.
constexpr std::uint64_t step_bytes = std::uint64_t{1} << 20;

// Runs in a check thread. The job keeps the memory until job::checked().
struct hashing {
  job& load;
  std::uint32_t tensor;
  result<void> outcome;

  void operator()() noexcept {
    outcome = catch_as_fault([this] { return hash(); });
    if (!outcome && outcome.error().where.empty()) {
      outcome = catch_as_fault(
          [this]() -> result<void> { return outcome.error().in(load.tensor_in_file(tensor)); });
    }
  }

  hasher begin(const tensor_check& wanted) const {
    const verification& options = load.options().verify;
    const bool uses_checksum_list =
        wanted.of_manifest && wanted.algorithm == digest_algorithm::sha256;
    return uses_checksum_list ? options.checksums->sha256()
                              : begin_digest(wanted.algorithm, options);
  }

  result<void> hash() {
    const tensor_check& wanted = load.check_of(tensor);
    const hasher pass = wanted.compares() ? begin(wanted) : hasher();
    result<void> indices_status;
    std::optional<index_checker> indices;
    if (wanted.indices) indices.emplace(*wanted.indices);
    const std::uint64_t bytes = load.named().catalog().tensors[tensor].bytes;
    const placement& place = load.place_of(tensor);
    std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(bytes, step_bytes)));
    backend& owner = load.into().of(place.destination);
    for (std::uint64_t offset = 0; offset < bytes && !load.stopped();) {
      const auto step = static_cast<std::size_t>(std::min(bytes - offset, step_bytes));
      auto bytes_read =
          owner.read_back(load.memory(place.destination), place.destination_offset + offset,
                          std::span(buffer).first(step));
      if (!bytes_read) return bytes_read.error();
      if (wanted.compares()) pass.update(*bytes_read);
      if (indices && indices_status) indices_status = indices->take(*bytes_read);
      offset += step;
    }
    if (load.stopped()) return {};
    if (wanted.compares()) {
      const std::string source =
          wanted.of_manifest ? printable_path(load.options().verify.checksums->place) : "the file";
      auto status = end_digest(pass, wanted.algorithm, wanted.digest, source);
      if (!status) return status.error();
    }
    // A damaged tensor was reported above, so its indices are not checked.
    if (indices && indices_status) return indices->finish();
    return indices_status;
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
