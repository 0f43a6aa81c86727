// SPDX-License-Identifier: Apache-2.0

// Measures side effects of CUDA calls: which calls create a context, which calls wait for a running
// kernel, whether other threads wait meanwhile, and the effect of a device-wide synchronisation on
// a capture. tests/cuda/contract_test.cpp tests the properties that the library relies on.

#include <dlfcn.h>

#include <atomic>
#include <functional>
#include <ringload/cuda.hpp>
#include <ringload/loader.hpp>
#include <thread>

#include "gpu.hpp"
#include "spin.hpp"

namespace ringload::bench {

namespace {

constexpr unsigned spin_ms = 100;

// Returns the result of the driver's functions: "active", "none", or the reason why it is unknown.
std::string context_of(int device) {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) return "no driver library";
  using function = int (*)(int, unsigned*, int*);
  const auto state = reinterpret_cast<function>(::dlsym(driver, "cuDevicePrimaryCtxGetState"));
  if (!state) return "no such function";
  unsigned flags = 0;
  int active = 0;
  const int said = state(device, &flags, &active);
  if (said != 0) return fmt::format("error {}", said);
  return active != 0 ? "active" : "none";
}

// Must run in a process that has not called CUDA before.
void measure_context() {
  (void)context_of(0);
  print_row("context after cudaGetDeviceCount", "none", context_of(0));
  int device = 0;
  check(cudaGetDevice(&device));
  print_row("context after cudaGetDevice", "none", context_of(0));
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  check(cudaThreadExchangeStreamCaptureMode(&mode));
  print_row("context after a bare cudaThreadExchangeStreamCaptureMode", "active", context_of(0));
}

// Measures how long the call takes during a kernel of 100 ms, and how long a copy in another thread
// takes at most.
void measure_waiting(const std::string& what, const char* expected,
                     const std::function<void()>& call) {
  const stream busy;
  const stream copies;
  const host_memory from(2 * mib, host_memory::pages::huge);
  const device_memory to(2 * mib);
  check(launch_spin(1, busy.get()));
  busy.wait();

  std::atomic<bool> over = false;
  double longest = 0;
  check(launch_spin(spin_ms, busy.get()));
  measuring_thread other([&] {
    check(cudaSetDevice(0));
    do {
      const double begin = now();
      check(cudaMemcpyAsync(to.data(), from.data(), 2 * mib, cudaMemcpyHostToDevice, copies.get()));
      copies.wait();
      longest = std::max(longest, now() - begin);
    } while (!over);
  });
  const double begin = now();
  call();
  const double took = now() - begin;
  over = true;
  other.join();
  busy.wait();
  print_row(what + ", a kernel of 100 ms under way", expected,
            fmt::format("{:.2f} ms, a copy beside it {:.2f} ms", took * 1e3, longest * 1e3));
}

void measure_free(std::size_t bytes, const char* name, const char* expected) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes));
  measure_waiting(std::string("cudaFree of ") + name, expected, [&] { check(cudaFree(memory)); });
}

void measure_all_waiting() {
  measure_free(64 * 1024, "64 KiB", "perhaps not");
  measure_free(gib, "1 GiB", "waits");
  void* memory = nullptr;
  measure_waiting("cudaMalloc of 4 MiB", "does not", [&] { check(cudaMalloc(&memory, 4 * mib)); });
  check(cudaFree(memory));
  {
    host_memory pinned(64 * mib, host_memory::pages::huge);
    measure_waiting("cudaHostUnregister of 64 MiB", "?", [&] { pinned.unpin(); });
    measure_waiting("cudaHostRegister of 64 MiB", "?", [&] { pinned.pin(); });
  }
  {
    cudaStream_t idle = nullptr;
    check(cudaStreamCreateWithFlags(&idle, cudaStreamNonBlocking));
    measure_waiting("cudaStreamDestroy of an idle stream", "does not",
                    [&] { check(cudaStreamDestroy(idle)); });
  }
  measure_waiting("a loader made and destroyed", "waits", [] { loader(cuda_device(0)); });
  const stream on;
  measure_waiting("the first launch of a kernel", "waits",
                  [&] { check(launch_unloaded(on.get())); });
  measure_waiting("its second launch", "does not", [&] { check(launch_unloaded(on.get())); });
}

void measure_capture(cudaStreamCaptureMode mode, const char* name) {
  const stream captured;
  check(cudaStreamBeginCapture(captured.get(), mode));
  cudaError_t said = cudaSuccess;
  measuring_thread([&] {
    check(cudaSetDevice(0));
    cudaStreamCaptureMode relaxed = cudaStreamCaptureModeRelaxed;
    check(cudaThreadExchangeStreamCaptureMode(&relaxed));
    said = cudaDeviceSynchronize();
    (void)cudaGetLastError();
  }).join();
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(captured.get(), &graph);
  (void)cudaGetLastError();
  if (graph) (void)cudaGraphDestroy(graph);
  print_row(fmt::format("cudaDeviceSynchronize, relaxed, beside a {} capture", name),
            "invalidates it",
            fmt::format("{}; then {}", cudaGetErrorName(said), cudaGetErrorName(ended)));
}

}  // namespace

void measure_contract() {
  measure_context();
  check(cudaSetDevice(0));
  measure_all_waiting();
  measure_capture(cudaStreamCaptureModeGlobal, "global");
  measure_capture(cudaStreamCaptureModeThreadLocal, "thread-local");
}

}  // namespace ringload::bench
