// SPDX-License-Identifier: Apache-2.0

// A group over NCCL. Each call is launched on the stream, and an event after it is polled until it
// completes, NCCL reports an error, the rank is interrupted, or the deadline passes. A call that
// does not end normally is aborted, because NCCL's kernels would wait on the device forever.

#include <atomic>
#include <cerrno>
#include <exception>
#include <optional>
#include <ringload/cuda.hpp>
#include <ringload/error.hpp>
#include <ringload/nccl.hpp>
#include <string>
#include <thread>
#include <utility>

#include "device/cuda/raii.hpp"
#include "device/cuda/runtime.hpp"
#include "ranks/nccl/nccl_library.hpp"

namespace ringload::inline v0 {

namespace {

constexpr unsigned busy_queries = 1000;
constexpr std::chrono::microseconds between_queries{20};

std::string rank_name(std::uint32_t rank) { return "rank " + std::to_string(rank); }

class nccl_ranks final : public group {
 public:
  nccl_ranks(std::shared_ptr<group> hosts, int device, void* stream,
             std::shared_ptr<const nccl::library> nccl_library, std::chrono::milliseconds timeout)
      : hosts_(std::move(hosts)),
        device_(device),
        stream_(static_cast<cudaStream_t>(stream)),
        nccl_(std::move(nccl_library)),
        timeout_(timeout) {}

  ~nccl_ranks() override {
    if (comm_ != nullptr) (void)nccl_->ncclCommDestroy(comm_);
  }

  // Must be called by all ranks together.
  void connect(const nccl::unique_id& id) {
    in_device([&] {
      require(
          nccl_->ncclCommInitRank(&comm_, static_cast<int>(size()), id, static_cast<int>(rank())),
          "ncclCommInitRank");
    });
  }

  std::uint32_t rank() const noexcept override { return hosts_->rank(); }
  std::uint32_t size() const noexcept override { return hosts_->size(); }
  device_kind memory() const noexcept override { return device_kind::cuda; }

  void send(std::span<const std::byte> bytes, std::uint32_t to) override {
    carry_out(bytes.size(), [&] { return put(bytes, to); });
  }
  void receive(std::span<std::byte> bytes, std::uint32_t from) override {
    carry_out(bytes.size(), [&] { return take(bytes, from); });
  }
  void broadcast(std::span<std::byte> bytes, std::uint32_t root) override {
    carry_out(bytes.size(), [&] {
      return nccl_->ncclBroadcast(bytes.data(), bytes.data(), bytes.size(), nccl::byte_type,
                                  static_cast<int>(root), comm_, stream_);
    });
  }
  // The root sends to itself too. One group of calls ensures that none of them waits for another.
  void scatter(std::span<const std::span<const std::byte>> parts, std::span<std::byte> into,
               std::uint32_t root) override {
    carry_out(1, [&] {
      nccl::result_code outcome = nccl_->ncclGroupStart();
      for (std::uint32_t r = 0; r < size() && rank() == root && outcome == nccl::success; ++r) {
        if (!parts[r].empty()) outcome = put(parts[r], r);
      }
      if (!into.empty() && outcome == nccl::success) outcome = take(into, root);
      const nccl::result_code ended = nccl_->ncclGroupEnd();
      return outcome == nccl::success ? ended : outcome;
    });
  }
  void barrier() override {
    check_ended();
    hosts_->barrier();
  }

  void fail(std::string_view reason) noexcept override {
    abort();
    hosts_->fail(reason);
    if (!ended_) ended_.emplace(errc::rank_failed, rank_name(rank()), std::string(reason));
  }
  void interrupt() noexcept override {
    interrupted_ = true;
    hosts_->interrupt();
  }

 private:
  static error interruption() {
    return {boost::system::error_code(ECANCELED, boost::system::system_category()), "group",
            "interrupted"};
  }

  void check_ended() const {
    if (ended_) throw *ended_;
    if (interrupted_) throw interruption();
  }

  nccl::result_code put(std::span<const std::byte> bytes, std::uint32_t to) {
    return nccl_->ncclSend(bytes.data(), bytes.size(), nccl::byte_type, static_cast<int>(to), comm_,
                           stream_);
  }
  nccl::result_code take(std::span<std::byte> bytes, std::uint32_t from) {
    return nccl_->ncclRecv(bytes.data(), bytes.size(), nccl::byte_type, static_cast<int>(from),
                           comm_, stream_);
  }

  void require(nccl::result_code outcome, const char* call) const {
    if (outcome == nccl::success) return;
    throw error(errc::rank_failed, std::string("NCCL: ") + call,
                nccl_->ncclGetErrorString(outcome));
  }

  // Runs `work` with the device as the current one. Rethrows its exceptions.
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

  // Skips empty calls on all ranks.
  template <class Call>
  void carry_out(std::size_t bytes, const Call& call) {
    check_ended();
    if (bytes == 0) return;
    try {
      in_device([&] {
        require(call(), "a call");
        cuda::event end;
        auto failed = end.make();
        if (!failed) failed = end.record(stream_);
        if (failed) throw error(failed, "NCCL", {});
        wait_for(end);
      });
    } catch (...) {
      abort();
      throw;
    }
  }

  void wait_for(const cuda::event& end) {
    const auto until = std::chrono::steady_clock::now() + timeout_;
    for (unsigned queries = 0;; ++queries) {
      const cudaError_t reached = cudaEventQuery(end.get());
      const auto failed = cuda::code_of(reached);
      if (reached == cudaSuccess) return;
      if (reached != cudaErrorNotReady) throw error(failed, "NCCL", {});
      nccl::result_code outcome = nccl::success;
      require(nccl_->ncclCommGetAsyncError(comm_, &outcome), "ncclCommGetAsyncError");
      if (outcome != nccl::in_progress) require(outcome, "another rank");
      if (interrupted_) throw interruption();
      if (std::chrono::steady_clock::now() > until) {
        throw error(errc::rank_failed, "NCCL",
                    "a call did not end within " + std::to_string(timeout_.count()) + " ms");
      }
      if (queries < busy_queries) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(between_queries);
      }
    }
  }

  // Ends NCCL's kernels, so that the stream continues.
  void abort() noexcept {
    if (comm_ == nullptr) return;
    (void)nccl_->ncclCommAbort(std::exchange(comm_, nullptr));
    if (!ended_ && !interrupted_) {
      ended_.emplace(errc::rank_failed, rank_name(rank()), "an earlier call was aborted");
    }
  }

  const std::shared_ptr<group> hosts_;
  const int device_;
  const cudaStream_t stream_;
  const std::shared_ptr<const nccl::library> nccl_;
  const std::chrono::milliseconds timeout_;
  nccl::comm* comm_ = nullptr;  // Null: not connected yet, or aborted.
  std::optional<error> ended_;  // The error of every further call.
  std::atomic<bool> interrupted_ = false;
};

}  // namespace

std::unique_ptr<group> nccl_group(std::shared_ptr<group> hosts, int device, void* stream,
                                  std::string_view library, std::chrono::milliseconds timeout) {
  group& host_ranks = *hosts;
  try {
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
        std::make_unique<nccl_ranks>(hosts, device, stream, std::move(*nccl_library), timeout);
    ranks->connect(id);
    return ranks;
  } catch (const error& problem) {
    host_ranks.fail(problem.what());
    throw;
  }
}

}  // namespace ringload::inline v0
