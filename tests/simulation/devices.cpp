// SPDX-License-Identifier: Apache-2.0
#include "devices.hpp"

#include <cstring>
#include <optional>
#include <set>
#include <system_error>

#include "drive.hpp"
#include "memory.hpp"
#include "support/fake_cudart/fake_cudart.hpp"
#include "support/fake_cudart/runtime.hpp"
#include "world.hpp"

namespace ringload::simulation {

namespace fake_cudart = testing::fake_cudart;

namespace {

constexpr std::size_t device_threads = 2;  // One carries out tasks, one calls host functions.

// Longer than the library waits for memory that a stream uses.
constexpr std::int64_t freeing_time_max = 60'000'000'000;

class seeded_choices final : public fake_cudart::choices {
 public:
  unsigned below(unsigned limit) override { return static_cast<unsigned>(random(limit)); }

  // One task in four is carried out soon.
  std::chrono::nanoseconds delay() override {
    return std::chrono::nanoseconds(random(4) == 0 ? 0 : transfer_nanoseconds());
  }
  std::chrono::nanoseconds rest() override { return delay(); }

  // cudaStreamSynchronize fails only if the device is broken. Otherwise the library could not know
  // whether the device still uses memory.
  cudaError_t failure(const std::string& function) override {
    if (certain_calls::exist() || !happens(settings().faults.device_call)) return cudaSuccess;
    if (function == "cudaStreamSynchronize") return cudaSuccess;
    count_hard_fault();
    static const std::set<std::string> allocations = {"cudaMalloc", "cudaHostRegister",
                                                      "cudaEventCreateWithFlags",
                                                      "cudaStreamCreateWithPriority"};
    return allocations.contains(function) ? cudaErrorMemoryAllocation : cudaErrorIllegalAddress;
  }

  void misused(const std::string& text) override { violation("misuse of CUDA: " + text); }
  // The host may read a slot while a device copies it: a tensor may be on the host too.
  bool destroys_sources() const override { return false; }
  bool checks_order() const override { return true; }
};

std::optional<seeded_choices> made_choices;

}  // namespace

thread_local int certain_calls::depth = 0;

void begin_devices() {
  if (settings().devices == 0) return;
  const certain_memory simulation;
  fake_cudart::reset();
  fake_cudart::current_device = 0;
  fake_cudart::capture_mode = cudaStreamCaptureModeGlobal;
  fake_cudart::have_devices(static_cast<int>(settings().devices));
  fake_cudart::choose_by(made_choices.emplace());
  if (settings().faults.device_call != 0) fake_cudart::expect_pageable();
  if (settings().breaks_devices) {
    fake_cudart::break_at_copy(1 + static_cast<unsigned>(random(400)), cudaErrorECCUncorrectable);
  }
  for (;;) {
    try {
      fake_cudart::start();
      return;
    } catch (const std::system_error&) {
    }
  }
}

void await_freed_memory() {
  const std::size_t left = 1 + (settings().devices == 0 ? 0 : device_threads);
  const std::int64_t limit = now() + (settings().devices == 0 ? 0 : freeing_time_max);
  while (threads_alive() != left) {
    if (now() >= limit) violation("the threads of a loader run after its end");
    sleep_for(100'000);
  }
}

void end_devices() {
  if (settings().devices == 0) return;
  const certain_memory simulation;
  await_freed_memory();
  const std::string left = fake_cudart::left_over();
  if (!left.empty()) violation("left on the devices: " + left);
  fake_cudart::reset();
}

// Only one thread runs, and no thread stops while it changes a list of the devices. So the mutex of
// the devices is not needed, and another thread may hold it.
bool devices_use(const std::byte* memory, std::uint64_t bytes) {
  if (settings().devices == 0) return false;
  const fake_cudart::device_side& device = fake_cudart::the().device;
  return device.is_used(memory, bytes) || device.is_used(memory + fake_cudart::mapped_at, bytes);
}

bool devices_are_broken() {
  return settings().devices != 0 && fake_cudart::the().device.broken != cudaSuccess;
}

std::string bytes_on_device(const void* address, std::size_t bytes, int device) {
  if (bytes == 0) return {};
  const std::byte* const memory = fake_cudart::the().device.memory.behind(address, bytes, device);
  if (!memory) violation("a tensor is not in the memory of its device");
  return {reinterpret_cast<const char*>(memory), bytes};
}

}  // namespace ringload::simulation
