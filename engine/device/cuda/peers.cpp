// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/peers.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "base/mapping.hpp"
#include "device/cuda/device_memory.hpp"
#include "device/cuda/pinned.hpp"
#include "device/cuda/raii.hpp"
#include "device/cuda/runtime.hpp"

namespace ringload::inline v0::cuda {

namespace {

using boost::system::error_code;

constexpr std::size_t test_bytes = std::size_t{64} << 10;
constexpr std::chrono::seconds copy_time_max{2};
constexpr std::chrono::microseconds query_interval{50};

// Memory and a stream on one of the two devices. The device of the memory must be the current
// device in open() and copy().
struct test_side {
  device_buffer memory;
  stream copies;
  event copied;
  bool is_running = false;  // True if a copy did not end in time.

  error_code open(const allocation_log& log) {
    if (auto failed = memory.take(test_bytes, log)) return failed;
    if (auto failed = copies.open()) return failed;
    return copied.make();
  }

  // Returns when the copy has ended. If the copy runs for longer than copy_time_max, returns an
  // error and sets `is_running`.
  error_code copy(std::byte* to, const std::byte* from, cudaMemcpyKind kind) {
    auto failed = code_of(cudaMemcpyAsync(to, from, test_bytes, kind, copies.get()));
    if (failed) return failed;
    failed = copied.record(copies.get());
    if (!failed) failed = wait();
    if (failed && !is_running) (void)code_of(cudaStreamSynchronize(copies.get()));
    return failed;
  }

 private:
  error_code wait() {
    const auto limit = std::chrono::steady_clock::now() + copy_time_max;
    for (;;) {
      const cudaError_t state = cudaEventQuery(copied.get());
      const auto failed = code_of(state);
      if (state != cudaErrorNotReady) return failed;
      is_running = std::chrono::steady_clock::now() >= limit;
      if (is_running) return failed;
      std::this_thread::sleep_for(query_interval);
    }
  }
};

// The host memory of the test, for sent and received bytes.
class test_memory {
 public:
  error_code open(const allocation_log& log) {
    auto created = mapping::make(2 * test_bytes, page_kind::small);
    if (!created) return created.error().code;
    memory_ = std::move(*created);
    memory_.note_in(log);
    pinned_.emplace(
        slot_region{.memory = memory_.span(), .slot_bytes = memory_.bytes(), .shared = true});
    if (auto failed = pinned_->pin(memory_.span())) return failed;
    // Each 8-byte word is unique, so that the test also finds words at wrong offsets.
    for (std::size_t at = 0; at < test_bytes; at += sizeof(std::uint64_t)) {
      const std::uint64_t number = (at + 1) * 0x9E37'79B9'7F4A'7C15;
      std::memcpy(sent() + at, &number, sizeof number);
    }
    return {};
  }

  std::byte* sent() const noexcept { return memory_.data(); }
  std::byte* received() const noexcept { return memory_.data() + test_bytes; }
  bool are_equal() const noexcept { return std::memcmp(sent(), received(), test_bytes) == 0; }

 private:
  mapping memory_;
  std::optional<pinned> pinned_;
};

// Sends bytes from the host to device `peer`, from there to device `index`, and back to the host.
class connection_test {
 public:
  connection_test(int index, int peer) : index_(index), peer_(peer) {}
  connection_test(const connection_test&) = delete;
  connection_test& operator=(const connection_test&) = delete;
  ~connection_test() {
    destroy_later(index_, std::move(near_));
    destroy_later(peer_, std::move(far_));
    destroy_later(index_, std::move(host_));
  }

  bool run(const allocation_log& log) {
    const auto failed = send_around(log);
    return !failed && host_->are_equal();
  }

  bool is_between(int index, int peer) const noexcept { return index_ == index && peer_ == peer; }

  // Returns true if a device may still use the memory.
  bool is_running() const noexcept { return near_->is_running || far_->is_running; }

  connection_test* next = nullptr;  // Next test that did not end.

 private:
  error_code send_around(const allocation_log& log) {
    if (auto failed = use_device(peer_)) return failed;
    if (auto failed = far_->open(log)) return failed;
    if (auto failed = use_device(index_)) return failed;
    if (auto failed = near_->open(log)) return failed;
    if (auto failed = host_->open(log)) return failed;
    if (auto failed = use_device(peer_)) return failed;
    if (auto failed = far_->copy(far_->memory.data(), host_->sent(), cudaMemcpyHostToDevice)) {
      return failed;
    }
    if (auto failed = use_device(index_)) return failed;
    if (auto failed = near_->copy(near_->memory.data(), far_->memory.data(), cudaMemcpyDefault)) {
      return failed;
    }
    return near_->copy(host_->received(), near_->memory.data(), cudaMemcpyDeviceToHost);
  }

  const int index_;
  const int peer_;
  std::unique_ptr<test_side> near_ = std::make_unique<test_side>();
  std::unique_ptr<test_side> far_ = std::make_unique<test_side>();
  std::unique_ptr<test_memory> host_ = std::make_unique<test_memory>();
};

// The tests that did not end. Their memory is never freed, because a device may still use the
// memory.
std::atomic<connection_test*> unfinished_tests{nullptr};

// Returns true if an earlier test of the connection did not end. Such a connection is not tested
// again, because a test that does not end leaks its memory.
bool was_unfinished(int index, int peer) noexcept {
  for (const connection_test* test = unfinished_tests.load(); test != nullptr; test = test->next) {
    if (test->is_between(index, peer)) return true;
  }
  return false;
}

// Returns true if a copy of 64 KiB arrives unchanged.
bool copies_correctly(int index, int peer, const allocation_log& log) {
  auto test = std::make_unique<connection_test>(index, peer);
  const bool is_correct = test->run(log);
  if (test->is_running()) {
    connection_test* const kept = test.release();
    kept->next = unfinished_tests.load();
    while (!unfinished_tests.compare_exchange_weak(kept->next, kept)) {
    }
  }
  return is_correct;
}

}  // namespace

bool reaches(int index, int peer, const allocation_log& log) noexcept {
  int can = 0;
  if (use_device(index) || was_unfinished(index, peer)) return false;
  if (code_of(cudaDeviceCanAccessPeer(&can, index, peer))) return false;
  if (can == 0) return false;
  const cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
  if (code_of(status) && status != cudaErrorPeerAccessAlreadyEnabled) return false;
  bool is_correct = false;
  try {
    is_correct = copies_correctly(index, peer, log);
  } catch (const std::bad_alloc&) {
    is_correct = false;
  }
  return !use_device(index) && is_correct;
}

}  // namespace ringload::inline v0::cuda
