// SPDX-License-Identifier: Apache-2.0
#pragma once

// Shared by the experiments: a table with expected and measured values, and RAII wrappers for CUDA
// objects.

#include <cuda_runtime_api.h>
#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ringload::bench {

inline constexpr std::size_t mib = std::size_t{1} << 20;
inline constexpr std::size_t gib = std::size_t{1} << 30;

inline void check(cudaError_t said) {
  if (said != cudaSuccess) throw std::runtime_error(cudaGetErrorName(said));
}

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of.at(of.size() / 2);
}

// Returns the median of `work` in seconds, after one warm-up run.
template <class Work>
double seconds_of(unsigned runs, Work work) {
  work();
  std::vector<double> all;
  for (unsigned i = 0; i < runs; ++i) {
    const double begin = now();
    work();
    all.push_back(now() - begin);
  }
  return median(all);
}

inline void print_row(const std::string& what, const std::string& expected,
                      const std::string& measured) {
  fmt::print("| {:<58} | {:<22} | {:<22} |\n", what, expected, measured);
  std::fflush(stdout);
}

inline std::string rate(std::size_t bytes, double seconds) {
  return fmt::format("{:.1f} GB/s", static_cast<double>(bytes) * 1e-9 / seconds);
}

class stream {
 public:
  stream() { check(cudaStreamCreateWithFlags(&is_, cudaStreamNonBlocking)); }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream() { (void)cudaStreamDestroy(is_); }
  cudaStream_t get() const noexcept { return is_; }
  void wait() const { check(cudaStreamSynchronize(is_)); }

 private:
  cudaStream_t is_ = nullptr;
};

class event {
 public:
  explicit event(unsigned more_flags = 0) {
    check(cudaEventCreateWithFlags(&is_, cudaEventDisableTiming | more_flags));
  }
  event(const event&) = delete;
  event& operator=(const event&) = delete;
  ~event() { (void)cudaEventDestroy(is_); }
  cudaEvent_t get() const noexcept { return is_; }

 private:
  cudaEvent_t is_ = nullptr;
};

class device_memory {
 public:
  explicit device_memory(std::size_t bytes) { check(cudaMalloc(&is_, bytes)); }
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
  ~device_memory() { (void)cudaFree(is_); }
  std::byte* data() const noexcept { return static_cast<std::byte*>(is_); }

 private:
  void* is_ = nullptr;
};

// Anonymous memory, aligned to 2 MiB and populated. Pinned if requested.
class host_memory {
 public:
  enum class pages { small, huge };

  host_memory(std::size_t bytes, pages kind, bool pinned = true) : bytes_(bytes) {
    whole_ = ::mmap(nullptr, bytes + 2 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                    -1, 0);
    if (whole_ == MAP_FAILED) throw std::runtime_error("mmap fails");
    const auto at = reinterpret_cast<std::uintptr_t>(whole_);
    is_ = static_cast<std::byte*>(whole_) + (2 * mib - at % (2 * mib));
    (void)::madvise(is_, bytes, kind == pages::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    std::fill(is_, is_ + bytes, std::byte{1});
    if (pinned) pin();
  }
  host_memory(const host_memory&) = delete;
  host_memory& operator=(const host_memory&) = delete;
  ~host_memory() {
    unpin();
    ::munmap(whole_, bytes_ + 2 * mib);
  }

  void pin() {
    check(cudaHostRegister(is_, bytes_, cudaHostRegisterDefault));
    pinned_ = true;
  }
  void unpin() {
    if (pinned_) (void)cudaHostUnregister(is_);
    pinned_ = false;
  }
  std::byte* data() const noexcept { return is_; }

 private:
  void* whole_ = nullptr;
  std::byte* is_ = nullptr;
  std::size_t bytes_;
  bool pinned_ = false;
};

// A thread. join() rethrows its exception, and the destructor joins.
class measuring_thread {
 public:
  template <class Work>
  explicit measuring_thread(Work work)
      : thread_([this, work = std::move(work)] {
          try {
            work();
          } catch (...) {
            thrown_ = std::current_exception();
          }
        }) {}
  measuring_thread(const measuring_thread&) = delete;
  measuring_thread& operator=(const measuring_thread&) = delete;
  ~measuring_thread() {
    if (thread_.joinable()) thread_.join();
  }
  void join() {
    thread_.join();
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  std::exception_ptr thrown_;  // Set by the thread. Read after join().
  std::thread thread_;
};

void measure_contract();  // Must be called first in its process.
void measure_machine();
void measure_copies();
void measure_batches();
void measure_large_batch();  // May crash the process.
void measure_conversions();
void measure_notices();
void measure_warm_loads(const std::string& path);
void measure_few_loads(const std::string& path);
void measure_cold_loads(const std::string& path);
void measure_rank_loads(const std::string& path);

}  // namespace ringload::bench
