// SPDX-License-Identifier: Apache-2.0
#include "fork.hpp"

#include <pthread.h>

#include <atomic>

namespace ringload::python {

namespace {

std::atomic<unsigned> generation = 0;

}  // namespace

unsigned fork_generation() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { ++generation; });
  static_cast<void>(registered);
  return generation.load(std::memory_order_relaxed);
}

}  // namespace ringload::python
