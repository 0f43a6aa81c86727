// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/copier.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <mutex>
#include <new>
#include <utility>

#include "core/retry_allocation.hpp"
#include "device/cuda/kernels.hpp"
#include "device/cuda/pinned.hpp"
#include "device/cuda/runtime.hpp"

namespace ringload::inline v0::cuda {

// What a host function holds on to. It may come late, or, when the context is broken, never; so it
// does not point at the copier, and the copier does not wait for it.
class bell {
 public:
  explicit bell(copier& of) : of_(&of) {}

  // In a thread of the driver's, where no CUDA call is allowed.
  void ring(std::size_t lane) noexcept {
    const std::lock_guard lock(mutex_);
    if (!of_) return;
    try {
      boost::asio::post(of_->loop_, [of = of_, lane] { of->noticed(lane); });
    } catch (const std::bad_alloc&) {
      // The clock looks too.
    }
  }

  // From here on nobody is called. What was posted before is never run: the loop has ended.
  void silence() noexcept {
    const std::lock_guard lock(mutex_);
    of_ = nullptr;
  }

 private:
  std::mutex mutex_;
  copier* of_;
};

namespace {

struct notice {
  std::shared_ptr<bell> at;
  std::size_t lane;
};

void CUDART_CB deliver(void* what) {
  const std::unique_ptr<notice> mine(static_cast<notice*>(what));
  mine->at->ring(mine->lane);
}

#if CUDART_VERSION >= 12080
constexpr bool has_batches = true;

cudaError_t copy_batch(std::vector<void*>& to, std::vector<const void*>& from,
                       std::vector<std::size_t>& bytes, cudaStream_t on) {
  cudaMemcpyAttributes how = {};
  how.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t how_from = 0;
#if CUDART_VERSION >= 13000
  return cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), bytes.size(), &how, &how_from,
                              1, on);
#else
  std::size_t failed_at = 0;
  return cudaMemcpyBatchAsync(to.data(), const_cast<void**>(from.data()), bytes.data(),
                              bytes.size(), &how, &how_from, 1, &failed_at, on);
#endif
}
#else
constexpr bool has_batches = false;

cudaError_t copy_batch(std::vector<void*>&, std::vector<const void*>&, std::vector<std::size_t>&,
                       cudaStream_t) {
  return cudaErrorNotSupported;
}
#endif

}  // namespace

copier::copier(boost::asio::io_context& loop, const pinned& slots)
    : loop_(loop),
      slots_(slots),
      clock_(loop),
      bell_(std::make_shared<bell>(*this)),
      batches_(has_batches) {}

copier::~copier() {
  bell_->silence();
  for (lane& each : lanes_) {
    if (each.copies) (void)code_of(cudaStreamDestroy(each.copies));
    if (each.notices) (void)code_of(cudaStreamDestroy(each.notices));
  }
  for (const cudaEvent_t event : free_events_) (void)code_of(cudaEventDestroy(event));
}

boost::system::error_code copier::open() {
  for (lane& each : lanes_) {
    for (cudaStream_t* stream : {&each.copies, &each.notices}) {
      if (auto failed = code_of(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking))) {
        *stream = nullptr;
        return failed;
      }
    }
  }
  return {};
}

void copier::start(copy_operation& op) noexcept {
  try {
    begin(op);
  } catch (const std::bad_alloc&) {
    answer_later(op, errc::memory_exceeded);
  }
}

// Throws std::bad_alloc, and has launched nothing then.
void copier::begin(copy_operation& op) {
  if (lost_) {
    answer_later(op, lost_);
    return;
  }
  keep_watch();
  const std::size_t kind = op.converts() ? lanes_of_a_kind : 0;
  lane& on = lanes_[kind + next_lane_++ % lanes_of_a_kind];
  cudaEvent_t ended = nullptr;
  if (auto failed = take_event(ended)) {
    answer_later(op, failed);
    return;
  }
  try {
    on.running.push_back({&op, ended, {}});
  } catch (const std::bad_alloc&) {
    free_events_.push_back(ended);
    throw;
  }
  under_way& mine = on.running.back();

  // What was launched before a failure still reads the slot, so the event is recorded either way,
  // and the failure told when it has come.
  mine.failed = launch(op, on.copies);
  if (auto failed = code_of(cudaEventRecord(mine.ended, on.copies))) {
    if (mine.failed) failed = mine.failed;
    free_events_.push_back(mine.ended);
    on.running.pop_back();
    lost_ = wait_out(on);
    answer_later(op, failed);
    return;
  }
  ask_for_notice(on);
}

boost::system::error_code copier::take_event(cudaEvent_t& event) {
  if (free_events_.empty()) {
    // Room for every event there is, this one too: giving one back then never allocates.
    std::size_t count = 1;
    for (const lane& each : lanes_) count += each.running.size();
    free_events_.reserve(count);
    return code_of(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  event = free_events_.back();
  free_events_.pop_back();
  return {};
}

boost::system::error_code copier::launch(const copy_operation& op, cudaStream_t on) {
  const bool mapped = std::any_of(op.copies.begin(), op.copies.end(),
                                  [](const copy_op& c) { return c.map != no_index; });
  if (mapped) return code_of(cudaErrorNotSupported);
  if (auto failed = launch_copies(op, on)) return failed;
  return launch_kernels(op, on);
}

boost::system::error_code copier::launch_copies(const copy_operation& op, cudaStream_t on) {
  const auto count = std::count_if(op.copies.begin(), op.copies.end(),
                                   [](const copy_op& c) { return !c.as.needed(); });
  if (batches_ && static_cast<std::size_t>(count) >= batch_copies_min) {
    if (launch_batch(op, on)) return {};
    // An older driver, or one that does not get on with batches. If the device itself is gone, the
    // plain copies below will say so.
    batches_ = false;
  }
  for (const copy_op& c : op.copies) {
    if (c.as.needed()) continue;
    for (std::size_t done = 0; done < c.bytes; done += copy_bytes_max) {
      const std::size_t bytes = std::min<std::size_t>(c.bytes - done, copy_bytes_max);
      auto failed =
          code_of(cudaMemcpyAsync(op.destination(c) + done, op.slot + c.slot_offset + done, bytes,
                                  cudaMemcpyHostToDevice, on));
      if (failed) return failed;
    }
  }
  return {};
}

// False if nothing was launched that could be relied on.
bool copier::launch_batch(const copy_operation& op, cudaStream_t on) {
  try {
    to_.clear();
    from_.clear();
    bytes_.clear();
    for (const copy_op& c : op.copies) {
      if (c.as.needed()) continue;
      if (c.bytes > copy_bytes_max) return false;
      to_.push_back(op.destination(c));
      from_.push_back(op.slot + c.slot_offset);
      bytes_.push_back(c.bytes);
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  return !code_of(copy_batch(to_, from_, bytes_, on));
}

// A kernel takes as many pieces as follow one another and are converted alike.
boost::system::error_code copier::launch_kernels(const copy_operation& op, cudaStream_t on) const {
  conversion_batch batch = {};
  conversion how;
  const auto flush = [&] {
    if (batch.count == 0) return boost::system::error_code();
    const cudaError_t said = launch_conversions(batch, how, on);
    batch.count = 0;
    return code_of(said);
  };
  for (const copy_op& c : op.copies) {
    if (!c.as.needed()) continue;
    if (batch.count == conversion_batch::pieces_max || !(c.as == how)) {
      if (auto failed = flush()) return failed;
    }
    how = c.as;
    batch.pieces[batch.count++] = {slots_.on_device(op.slot) + c.slot_offset, op.destination(c),
                                   c.bytes / how.from_bytes()};
  }
  return flush();
}

void copier::ask_for_notice(lane& of) {
  if (of.notice_on_its_way || of.running.empty()) return;
  // Where one of these fails there is no notice, and the clock finds out what has ended.
  std::unique_ptr<notice> what(new (std::nothrow) notice);
  if (!what) return;
  what->at = bell_;
  what->lane = static_cast<std::size_t>(&of - lanes_.data());
  if (code_of(cudaStreamWaitEvent(of.notices, of.running.front().ended, 0))) return;
  if (code_of(cudaLaunchHostFunc(of.notices, deliver, what.get()))) return;
  (void)what.release();  // It belongs to the host function now.
  of.notice_on_its_way = true;
}

void copier::noticed(std::size_t of_lane) {
  lanes_[of_lane].notice_on_its_way = false;
  look();
}

void copier::look() {
  for (lane& each : lanes_) look_at(each);
  bool quiet = true;
  for (lane& each : lanes_) {
    ask_for_notice(each);
    quiet = quiet && each.running.empty();
  }
  if (quiet && clock_runs_) {
    clock_runs_ = false;
    clock_.cancel();
  }
}

// Answers for the copies that have ended. Who is answered may start the next one, which goes to the
// end of a lane and has its own turn.
void copier::look_at(lane& at) {
  for (std::size_t left = at.running.size(); left > 0 && !at.running.empty(); --left) {
    under_way first = at.running.front();
    const cudaError_t said = cudaEventQuery(first.ended);
    auto failed = code_of(said);
    if (said == cudaErrorNotReady) return;
    if (failed) {
      lost_ = wait_out(at);
      if (!first.failed) first.failed = failed;
    }
    at.running.pop_front();
    free_events_.push_back(first.ended);
    first.op->done(*first.op, first.failed);
  }
}

// Blocks until the lane has let go of all slots; an error says that it cannot be known.
boost::system::error_code copier::wait_out(lane& which) {
  return code_of(cudaStreamSynchronize(which.copies));
}

void copier::answer_later(copy_operation& op, boost::system::error_code failed) {
  retry_allocation([&] { boost::asio::post(loop_, [&op, failed] { op.done(op, failed); }); });
}

void copier::keep_watch() {
  if (clock_runs_) return;
  clock_.expires_after(look_every);
  const auto rings = [this](boost::system::error_code stopped) {
    if (stopped) return;
    clock_runs_ = false;
    bool quiet = true;
    for (const lane& each : lanes_) quiet = quiet && each.running.empty();
    if (quiet) return;
    keep_watch();
    look();
  };
  // Without it a copy whose notice does not come would never end.
  retry_allocation([&] { clock_.async_wait(rings); });
  clock_runs_ = true;
}

}  // namespace ringload::inline v0::cuda
