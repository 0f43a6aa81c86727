// SPDX-License-Identifier: Apache-2.0

// Implements save_job::digest_work::run(), which computes the digest of one tensor of a save in a
// check thread.

#include <algorithm>
#include <utility>
#include <vector>

#include "base/catch_as_fault.hpp"
#include "base/crc32c_hasher.hpp"
#include "base/printable.hpp"
#include "runtime/engine.hpp"
#include "runtime/on_thread.hpp"
#include "save/save_job.hpp"

namespace ringload::inline v0::detail {

namespace {

// Number of bytes that are hashed before the next check for cancellation.
constexpr std::uint64_t digest_bytes = std::uint64_t{1} << 20;

struct digest_task {
  save_job& job;
  std::uint32_t tensor;
  result<tensor_digest> digest = fault();

  void operator()() noexcept {
    digest = catch_as_fault([this] { return hash(); });
  }

  result<tensor_digest> hash() {
    tensor_bytes& source = *job.group()->sources[tensor];
    tensor_digest out;
    out.name = source.view().name;
    out.algorithm = *job.options().digest;
    const hasher pass =
        out.algorithm == digest_algorithm::crc32c ? begin_crc32c() : job.options().sha256();
    std::vector<std::byte> buffer;
    for (std::uint64_t offset = 0; offset < source.bytes() && !job.stopped();) {
      const auto step = static_cast<std::size_t>(std::min(digest_bytes, source.bytes() - offset));
      if (const std::byte* const memory = source.memory_at(offset)) {
        pass.update({memory, step});
      } else {
        buffer.resize(step);
        if (auto status = source.read(offset, buffer); !status) {
          return status.error().in(tensor_place(out.name));
        }
        pass.update(buffer);
      }
      offset += step;
    }
    out.bytes = pass.finish();
    return out;
  }
};

}  // namespace

boost::asio::awaitable<void> save_job::digest_work::run(work_step& step, result<void>& outcome) {
  engine& e = *save_.the_engine;
  digest_task task = {save_, step.index, fault()};
  co_await on_thread(*e.check_threads, e.loop, task);
  if (task.digest) {
    save_.result_.digests[step.index] = std::move(*task.digest);
  } else {
    outcome = task.digest.error();
  }
}

}  // namespace ringload::inline v0::detail
