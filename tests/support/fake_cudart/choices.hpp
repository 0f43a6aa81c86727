// SPDX-License-Identifier: Apache-2.0
#pragma once

// The choices of the stand-in: which stream continues, when, and which call fails. By default, a
// fixed sequence of random numbers chooses. A simulation replaces the choices, so that its seed
// decides.

#include <cuda_runtime_api.h>

#include <chrono>
#include <random>
#include <string>

namespace ringload::testing::fake_cudart {

class choices {
 public:
  virtual ~choices() = default;

  // Returns a number below `limit`.
  virtual unsigned below(unsigned limit) { return static_cast<unsigned>(random_() % limit); }

  // The time until the device carries out a task, from the moment at which the task can run.
  virtual std::chrono::nanoseconds delay() {
    if (random_() % late_one_in != 0) return {};
    return std::chrono::microseconds(random_() % late_microseconds_max);
  }

  // The time from the moment at which the bytes of a task are copied until the task ends.
  virtual std::chrono::nanoseconds rest() { return {}; }

  // The failure of this call, or cudaSuccess.
  virtual cudaError_t failure(const std::string&) { return cudaSuccess; }

  // Called for each misuse.
  virtual void misused(const std::string&) {}

  // Returns true if a copy or a kernel overwrites a source that only one device reads.
  virtual bool destroys_sources() const { return true; }

  // Returns true if two tasks must not use the same memory while no stream orders them, unless both
  // read. Such a check does not know the order that an event gives to two streams.
  virtual bool checks_order() const { return false; }

 private:
  static constexpr unsigned late_one_in = 8;
  static constexpr unsigned late_microseconds_max = 400;

  std::minstd_rand random_{1};
};

}  // namespace ringload::testing::fake_cudart
