// SPDX-License-Identifier: Apache-2.0

// Implements `group` over NCCL, for device memory. The communicator is non-blocking: a call of
// NCCL returns immediately, unless it ends the communicator. The rank polls NCCL until the call is
// launched on a CUDA stream, and then polls an event of the stream. A blocking communicator would
// wait inside NCCL for a peer that never makes the matching call. A rank aborts the communicator
// after every failure: an error of NCCL or CUDA, an interruption, an expired deadline, or a call of
// fail(). Without the abort, NCCL's kernels would wait on the device forever.
//
// The NCCL calls that destroy or abort a communicator block until all ranks of the machine have
// made one of these calls. Therefore the call runs in its own thread, and the rank waits at most
// end_wait_max for this thread.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <ringload/cuda.hpp>
#include <ringload/error.hpp>
#include <ringload/nccl.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/bounded_timeout.hpp"
#include "base/retry_allocation.hpp"
#include "base/signals_blocked.hpp"
#include "device/cuda/raii.hpp"
#include "device/cuda/runtime.hpp"
#include "ranks/nccl/nccl_library.hpp"

namespace ringload::inline v0 {

namespace {

// Number of queries that a waiting rank makes without a pause.
constexpr unsigned busy_queries = 1000;
constexpr std::chrono::microseconds between_queries{20};
// Number of queries between two checks whether another rank has failed, after `busy_queries`
// queries. The checks are needed, because NCCL may not report the failure.
constexpr unsigned queries_between_checks = 50;
// Maximum time that a rank waits for the other ranks when a communicator ends. A longer wait would
// often be useless, because the other ranks may notice a failure only after this rank has returned
// its error.
constexpr std::chrono::milliseconds end_wait_max{5000};

std::string rank_name(std::uint32_t rank) { return "rank " + std::to_string(rank); }

// Runs `work` in a new thread. Returns false if the thread has not ended within `limit`. The thread
// then continues, so `work` must own all objects that `work` uses. `work` must not throw.
template <class Work>
bool ends_within(std::chrono::milliseconds limit, Work work) {
  struct progress {
    std::mutex mutex;
    std::condition_variable changed;
    bool has_ended = false;
  };
  const auto state = std::make_shared<progress>();
  try {
    const signals_blocked mask;
    std::thread([state, work = std::move(work)]() mutable {
      work();
      const std::lock_guard lock(state->mutex);
      state->has_ended = true;
      state->changed.notify_all();
    }).detach();
  } catch (const std::system_error& failed) {
    throw error({failed.code().value(), boost::system::system_category()}, "NCCL: a thread", {});
  }
  std::unique_lock lock(state->mutex);
  return state->changed.wait_for(lock, limit, [&] { return state->has_ended; });
}

class nccl_ranks final : public group {
 public:
  nccl_ranks(std::shared_ptr<group> host_group, int device, void* stream,
             std::shared_ptr<const nccl::library> nccl_library, std::chrono::milliseconds timeout)
      : host_group_(std::move(host_group)),
        device_(device),
        stream_(static_cast<cudaStream_t>(stream)),
        nccl_(std::move(nccl_library)),
        timeout_(detail::bounded_timeout(timeout)) {}

  ~nccl_ranks() override { end_communicator(nccl_->ncclCommDestroy); }

  // Creates the communicator. All ranks must call this function at the same time.
  void connect(const nccl::unique_id& id) {
    try {
      in_device([&] {
        const auto until = deadline();
        const nccl::config options;
        const nccl::result_code outcome = nccl_->ncclCommInitRankConfig(
            comm_.get(), static_cast<int>(size()), id, static_cast<int>(rank()), &options);
        wait_for_launch(outcome, "ncclCommInitRankConfig", until);
      });
    } catch (...) {
      abort();
      throw;
    }
  }

  std::uint32_t rank() const noexcept override { return host_group_->rank(); }
  std::uint32_t size() const noexcept override { return host_group_->size(); }
  device memory() const noexcept override { return cuda_device(device_); }
  group& host_group() noexcept override { return host_group_->host_group(); }

  void send(std::span<const std::byte> bytes, std::uint32_t to) override {
    carry_out(bytes.size(), "ncclSend", [&] { return put(bytes, to); });
  }
  void receive(std::span<std::byte> bytes, std::uint32_t from) override {
    carry_out(bytes.size(), "ncclRecv", [&] { return take(bytes, from); });
  }
  void broadcast(std::span<std::byte> bytes, std::uint32_t root) override {
    carry_out(bytes.size(), "ncclBroadcast", [&] {
      return nccl_->ncclBroadcast(bytes.data(), bytes.data(), bytes.size(), nccl::byte_type,
                                  static_cast<int>(root), *comm_, stream_);
    });
  }
  // The root also sends to itself. All calls are in one NCCL group, because otherwise the calls
  // would wait for each other.
  void scatter(std::span<const std::span<const std::byte>> parts, std::span<std::byte> into,
               std::uint32_t root) override {
    carry_out(1, "ncclGroupEnd", [&] {
      nccl::result_code outcome = nccl_->ncclGroupStart();
      for (std::uint32_t r = 0; r < size() && rank() == root && !has_failed(outcome); ++r) {
        if (!parts[r].empty()) outcome = put(parts[r], r);
      }
      if (!into.empty() && !has_failed(outcome)) outcome = take(into, root);
      const nccl::result_code ended = nccl_->ncclGroupEnd();
      return has_failed(outcome) ? outcome : ended;
    });
  }
  void barrier() override {
    check_ended();
    host_group_->barrier();
  }

  void check_ranks() override {
    check_ended();
    host_group_->check_ranks();
  }

  void fail(std::string_view reason) noexcept override {
    // The other ranks are notified first, because abort() waits for the other ranks.
    host_group_->fail(reason);
    set_lasting_error(reason);
    abort();
  }
  void interrupt() noexcept override {
    interrupted_ = true;
    host_group_->interrupt();
  }

 private:
  static error interrupted_error() {
    return {boost::system::error_code(ECANCELED, boost::system::system_category()), "group",
            "interrupted"};
  }

  void check_ended() const {
    if (lasting_error_) throw *lasting_error_;
    if (interrupted_) throw interrupted_error();
  }

  nccl::result_code put(std::span<const std::byte> bytes, std::uint32_t to) {
    return nccl_->ncclSend(bytes.data(), bytes.size(), nccl::byte_type, static_cast<int>(to),
                           *comm_, stream_);
  }
  nccl::result_code take(std::span<std::byte> bytes, std::uint32_t from) {
    return nccl_->ncclRecv(bytes.data(), bytes.size(), nccl::byte_type, static_cast<int>(from),
                           *comm_, stream_);
  }

  static bool has_failed(nccl::result_code outcome) noexcept {
    return outcome != nccl::success && outcome != nccl::in_progress;
  }

  void require(nccl::result_code outcome, const char* call) const {
    if (!has_failed(outcome)) return;
    throw error(errc::rank_failed, std::string("NCCL: ") + call,
                nccl_->ncclGetErrorString(outcome));
  }

  std::chrono::steady_clock::time_point deadline() const {
    return std::chrono::steady_clock::now() + timeout_;
  }

  // Makes the device current and calls `work`. Rethrows the exceptions of `work`.
  template <class Work>
  void in_device(const Work& work) {
    std::exception_ptr thrown;
    const auto failed = cuda::on_device(device_, [&] {
      try {
        work();
      } catch (...) {
        thrown = std::current_exception();
      }
    });
    if (failed) throw error(failed, "cuda:" + std::to_string(device_), {});
    if (thrown) std::rethrow_exception(thrown);
  }

  // Text for the error of a call that exceeds the timeout.
  struct late_call {
    const char* name;
    const char* cause;
  };
  static constexpr const char* no_answer = "a rank did not answer";

  // Launches a call on the stream and waits until the call completes. A call with 0 bytes is
  // skipped, because the call has 0 bytes on all ranks.
  //
  // The call is launched only when the stream has completed its earlier work. Otherwise the NCCL
  // kernel could start after the call has failed and the caller has freed the memory. After a
  // failure, abort() ends only kernels that have started.
  template <class Call>
  void carry_out(std::size_t bytes, const char* name, const Call& call) {
    check_ended();
    if (bytes == 0) return;
    try {
      in_device([&] {
        const auto until = deadline();
        cuda::event end;
        if (auto failed = end.make()) throw error(failed, "NCCL", {});
        wait_for_stream(end, {name, "earlier work on the stream did not end"}, until);
        wait_for_launch(call(), name, until);
        wait_for_stream(end, {name, no_answer}, until);
      });
    } catch (...) {
      abort();
      throw;
    }
  }

  // Waits until the call is launched on the stream. Until then, the next call on the communicator
  // must not be made.
  void wait_for_launch(nccl::result_code outcome, const char* call,
                       std::chrono::steady_clock::time_point until) {
    require(outcome, call);
    if (outcome == nccl::success) return;
    poll({call, no_answer}, until, [&] { return !is_launching(); });
  }

  // Records `end` on the stream and waits until the stream has completed all work before `end`.
  void wait_for_stream(cuda::event& end, const late_call& late,
                       std::chrono::steady_clock::time_point until) {
    if (auto failed = end.record(stream_)) throw error(failed, "NCCL", {});
    poll(late, until, [&] {
      const cudaError_t reached = cudaEventQuery(end.get());
      const auto failed = cuda::code_of(reached);
      if (reached == cudaSuccess) return true;
      if (reached != cudaErrorNotReady) throw error(failed, "NCCL", {});
      (void)is_launching();  // Throws the errors that NCCL has found since the launch.
      return false;
    });
  }

  bool is_launching() const {
    nccl::result_code outcome = nccl::success;
    require(nccl_->ncclCommGetAsyncError(*comm_, &outcome), "ncclCommGetAsyncError");
    require(outcome, "another rank");
    return outcome == nccl::in_progress;
  }

  template <class Done>
  void poll(const late_call& late, std::chrono::steady_clock::time_point until,
            const Done& is_done) {
    for (unsigned queries = 0; !is_done(); ++queries) {
      if (interrupted_) throw interrupted_error();
      if (std::chrono::steady_clock::now() > until) {
        throw error(errc::rank_failed, std::string("NCCL: ") + late.name,
                    late.cause + (" within " + std::to_string(timeout_.count()) + " ms"));
      }
      if (queries < busy_queries) {
        std::this_thread::yield();
      } else {
        if (queries % queries_between_checks == 0) host_group_->check_ranks();
        std::this_thread::sleep_for(between_queries);
      }
    }
  }

  // Ends the communicator by calling `end`, which waits for all ranks of the machine. The thread of
  // this call may outlive the group, because the NCCL library is never unloaded.
  void end_communicator(nccl::result_code (*end)(nccl::comm*)) noexcept {
    if (comm_released_ || *comm_ == nullptr) return;
    comm_released_ = true;
    // NCCL's kernels may run until the communicator ends, so a lack of memory must not prevent this
    // end.
    retry_allocation([this, end] {
      try {
        (void)ends_within(std::min(timeout_, end_wait_max), [end, owned = comm_, device = device_] {
          (void)cuda::use_device(device);
          (void)end(*owned);
        });
      } catch (const error&) {
        // No thread could be started. The kernels of a broken communicator may still write to
        // memory of the caller, so a broken communicator is aborted in this thread. An intact
        // communicator is leaked.
        if (end == nccl_->ncclCommAbort) (void)end(*comm_);
      }
    });
  }

  // Sets the error of every later call. Does nothing if the error is already set.
  void set_lasting_error(std::string_view reason) noexcept {
    if (lasting_error_) return;
    retry_allocation([this, reason] {
      lasting_error_.emplace(errc::rank_failed, rank_name(rank()), std::string(reason));
    });
  }

  // Aborts the communicator, which ends NCCL's kernels. The stream can then continue.
  void abort() noexcept {
    if (comm_released_) return;
    end_communicator(nccl_->ncclCommAbort);
    if (!interrupted_) set_lasting_error("an earlier call was aborted");
  }

  const std::shared_ptr<group> host_group_;
  const int device_;
  const cudaStream_t stream_;
  const std::shared_ptr<const nccl::library> nccl_;
  const std::chrono::milliseconds timeout_;
  // Shared with the thread that ends the communicator. The pointer must stay valid until that
  // thread has ended.
  const std::shared_ptr<nccl::comm*> comm_ = std::make_shared<nccl::comm*>(nullptr);
  // True once end_communicator() has started to destroy or abort the communicator.
  bool comm_released_ = false;
  std::optional<error> lasting_error_;  // Every later call throws this error.
  std::atomic<bool> interrupted_ = false;
};

}  // namespace

std::unique_ptr<group> nccl_group(std::shared_ptr<group> host_group, int device, void* stream,
                                  std::string_view library, std::chrono::milliseconds timeout) {
  group& host_ranks = *host_group;
  try {
    if (host_ranks.memory() != host()) {
      throw error(
          errc::device_unavailable, "nccl_group",
          "the group exchanges memory of " + host_ranks.memory().name() + ", expected host memory");
    }
    auto nccl_library = nccl::load_library(std::string(library));
    if (!nccl_library) throw to_error(nccl_library.error());
    nccl::unique_id id = {};
    if (host_ranks.rank() == 0) {
      const nccl::result_code outcome = (*nccl_library)->ncclGetUniqueId(&id);
      if (outcome != nccl::success) {
        throw error(errc::rank_failed, "NCCL: ncclGetUniqueId",
                    (*nccl_library)->ncclGetErrorString(outcome));
      }
    }
    host_ranks.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
    // Ensures that all ranks have loaded the library.
    host_ranks.barrier();
    auto ranks =
        std::make_unique<nccl_ranks>(host_group, device, stream, std::move(*nccl_library), timeout);
    ranks->connect(id);
    return ranks;
  } catch (const error& problem) {
    host_ranks.fail(problem.what());
    throw;
  } catch (const std::bad_alloc&) {
    host_ranks.fail("out of memory");
    throw;
  }
}

}  // namespace ringload::inline v0
