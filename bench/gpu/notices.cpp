// SPDX-License-Identifier: Apache-2.0

// Measures how soon a thread is notified of the end of a copy, for each method, and how much each
// method slows the copies down. The lower bound is a thread that only polls.

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "gpu.hpp"

namespace ringload::bench {

namespace {

constexpr unsigned rounds = 300;

// Wakes a sleeping thread, as an event loop does.
class wake_up {
 public:
  wake_up() : fd_(::eventfd(0, EFD_CLOEXEC)) {}
  wake_up(const wake_up&) = delete;
  wake_up& operator=(const wake_up&) = delete;
  ~wake_up() { ::close(fd_); }

  static void CUDART_CB ring(void* self) {
    const std::uint64_t one = 1;
    if (::write(static_cast<wake_up*>(self)->fd_, &one, sizeof one) < 0) std::abort();
  }
  void sleep() const {
    std::uint64_t count = 0;
    if (::read(fd_, &count, sizeof count) < 0) std::abort();
  }

 private:
  int fd_;
};

struct scene {
  host_memory from{16 * mib, host_memory::pages::huge};
  device_memory to{16 * mib};
  stream copies;
  stream notices;
  event ended;
  event slept_on{cudaEventBlockingSync};
  wake_up bell;

  void copy(std::size_t bytes) {
    check(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyHostToDevice, copies.get()));
    check(cudaEventRecord(ended.get(), copies.get()));
  }
  bool has_ended() {
    const cudaError_t said = cudaEventQuery(ended.get());
    (void)cudaGetLastError();
    if (said != cudaErrorNotReady) check(said);
    return said == cudaSuccess;
  }
  void ask_for_notice() {
    check(cudaStreamWaitEvent(notices.get(), ended.get(), 0));
    check(cudaLaunchHostFunc(notices.get(), &wake_up::ring, &bell));
  }
};

// Returns the microseconds from the call to the notification.
double round_trip(scene& in, std::size_t bytes, const std::function<void()>& learn) {
  return 1e6 * seconds_of(rounds, [&] {
           in.copy(bytes);
           learn();
         });
}

void measure_latency(scene& in, std::size_t bytes) {
  const auto row = [&](const char* way, const char* expected, const std::function<void()>& learn) {
    print_row(fmt::format("{} KiB copied and noticed: {}", bytes / 1024, way), expected,
              fmt::format("{:.1f} us", round_trip(in, bytes, learn)));
  };
  row("asks all the time", "the floor", [&] {
    while (!in.has_ended()) {
    }
  });
  row("asks every 20 us", "+20 .. 80 us", [&] {
    while (!in.has_ended()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  });
  row("host function on the copies' stream", "+15 .. 40 us", [&] {
    check(cudaLaunchHostFunc(in.copies.get(), &wake_up::ring, &in.bell));
    in.bell.sleep();
  });
  row("host function on a second stream", "+15 .. 50 us", [&] {
    in.ask_for_notice();
    in.bell.sleep();
  });
  row("a thread in cudaEventSynchronize (ours)", "+20 .. 60 us", [&] {
    check(cudaEventRecord(in.slept_on.get(), in.copies.get()));
    check(cudaEventSynchronize(in.slept_on.get()));
  });
}

// Measures how much host functions slow down consecutive copies of 2 MiB.
void measure_disturbance(scene& in) {
  constexpr std::size_t bytes = 2 * mib;
  constexpr unsigned count = 200;
  const auto row = [&](const char* way, const char* expected, const std::function<void()>& more) {
    const double whole = seconds_of(5, [&] {
      for (unsigned i = 0; i < count; ++i) {
        in.copy(bytes);
        more();
      }
      in.copies.wait();
      in.notices.wait();
    });
    print_row(fmt::format("{} copies of 2 MiB, {}", count, way), expected,
              rate(count * bytes, whole));
  };
  row("no notices", "52 .. 56 GB/s", [] {});
  row("each with a host function on its own stream", "25 .. 50 GB/s",
      [&] { check(cudaLaunchHostFunc(in.copies.get(), &wake_up::ring, &in.bell)); });
  row("each with one on a second stream", "as without", [&] { in.ask_for_notice(); });
}

// Measures the same while another stream of the program runs host functions of 5 ms.
void measure_beside_host_functions(scene& in) {
  const stream theirs;
  std::atomic<bool> over = false;
  const auto work = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  measuring_thread busy([&] {
    check(cudaSetDevice(0));
    while (!over) {
      for (int i = 0; i < 4; ++i) check(cudaLaunchHostFunc(theirs.get(), work, nullptr));
      theirs.wait();
    }
  });
  const auto row = [&](const char* way, const char* expected, const std::function<void()>& learn) {
    const double seconds = seconds_of(50, [&] {
      in.copy(2 * mib);
      learn();
    });
    print_row(fmt::format("2048 KiB beside host functions of 5 ms: {}", way), expected,
              fmt::format("{:.1f} us", 1e6 * seconds));
  };
  row("host function on a second stream", "up to 5,000 us", [&] {
    in.ask_for_notice();
    in.bell.sleep();
  });
  row("a thread in cudaEventSynchronize (ours)", "as without", [&] {
    check(cudaEventRecord(in.slept_on.get(), in.copies.get()));
    check(cudaEventSynchronize(in.slept_on.get()));
  });
  over = true;
  busy.join();
}

void measure_calls(scene& in) {
  const auto row = [&](const char* what, const std::function<void()>& call) {
    constexpr unsigned count = 1000;
    const double whole = seconds_of(5, [&] {
      for (unsigned i = 0; i < count; ++i) call();
    });
    in.copies.wait();
    in.notices.wait();
    print_row(fmt::format("a call of {}", what), "1 .. 6 us",
              fmt::format("{:.2f} us", whole * 1e6 / count));
  };
  row("cudaEventRecord", [&] { check(cudaEventRecord(in.ended.get(), in.copies.get())); });
  row("cudaEventQuery", [&] { (void)in.has_ended(); });
  row("cudaStreamWaitEvent",
      [&] { check(cudaStreamWaitEvent(in.notices.get(), in.ended.get(), 0)); });
  row("cudaLaunchHostFunc",
      [&] { check(cudaLaunchHostFunc(in.notices.get(), &wake_up::ring, &in.bell)); });
}

}  // namespace

void measure_notices() {
  scene in;
  for (const std::size_t bytes : {std::size_t{4096}, 2 * mib, 8 * mib}) measure_latency(in, bytes);
  measure_beside_host_functions(in);
  measure_disturbance(in);
  measure_calls(in);
}

}  // namespace ringload::bench
