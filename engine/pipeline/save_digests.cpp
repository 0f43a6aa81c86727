// SPDX-License-Identifier: Apache-2.0
#include "pipeline/save_digests.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <vector>

#include "core/attempt.hpp"
#include "core/crc32c_hasher.hpp"
#include "core/retry_allocation.hpp"
#include "formats/printable.hpp"
#include "pipeline/engine.hpp"
#include "pipeline/on_thread.hpp"
#include "pipeline/save_job.hpp"

namespace ringload::inline v0::detail {

namespace {

// Hashed between two looks at whether the save was stopped.
constexpr std::uint64_t digest_bytes = std::uint64_t{1} << 20;

// For on_thread().
struct digest_task {
  save_job& of;
  std::uint32_t tensor;
  result<tensor_digest> found = fault();

  void operator()() noexcept {
    found = attempt([this] { return hash(); });
  }

  result<tensor_digest> hash() {
    tensor_bytes& source = *of.all().sources[tensor];
    tensor_digest out;
    out.name = source.view().name;
    out.algorithm = *of.how().digest;
    const hasher pass =
        out.algorithm == digest_algorithm::crc32c ? begin_crc32c() : of.how().sha256();
    std::vector<std::byte> room;
    for (std::uint64_t at = 0; at < source.bytes() && !of.stopped();) {
      const auto step = static_cast<std::size_t>(std::min(digest_bytes, source.bytes() - at));
      if (const std::byte* const memory = source.at(at)) {
        pass.update({memory, step});
      } else {
        room.resize(step);
        if (auto good = source.read(at, room); !good) {
          return good.error().in(tensor_place(out.name));
        }
        pass.update(room);
      }
      at += step;
    }
    out.bytes = pass.finish();
    return out;
  }
};

// Its end is counted however its coroutine ends, also if that is never begun.
class digesting {
 public:
  explicit digesting(std::shared_ptr<save_job> of) noexcept : of_(std::move(of)) {
    of_->begin_digesting();
  }
  digesting(digesting&& other) noexcept = default;
  digesting& operator=(digesting&& other) = delete;
  ~digesting() {
    if (of_) of_->end_digesting();
  }

  save_job& of() const noexcept { return *of_; }

 private:
  std::shared_ptr<save_job> of_;
};

boost::asio::awaitable<void> make_digests(engine& e, digesting one) {
  save_job& of = one.of();
  for (auto tensor = of.take_digest(); tensor; tensor = of.take_digest()) {
    digest_task work = {of, *tensor};
    try {
      co_await on_thread(*e.check_threads, e.loop, work);
    } catch (const std::bad_alloc&) {
      work.found = fault{errc::memory_exceeded, {}};
    }
    of.digested(*tensor, std::move(work.found));
  }
}

}  // namespace

void begin_digests(engine& e, const std::shared_ptr<save_job>& one) {
  bool any = false;
  for (std::uint32_t i = 0; i < e.within.copy_threads; ++i) {
    try {
      boost::asio::co_spawn(e.loop, make_digests(e, digesting(one)), boost::asio::detached);
      any = true;
    } catch (const std::bad_alloc&) {
      // The others do its part.
    }
  }
  if (!any) one->stop({errc::memory_exceeded, {}});
}

}  // namespace ringload::inline v0::detail
