// SPDX-License-Identifier: Apache-2.0

// Implements std::condition_variable::wait without libstdc++.
//
// Only this function would require GLIBCXX_3.4.30, which the systems of manylinux_2_34 lack.
// Compiled against libstdc++ 11, it would require 3.4.11. The linker option --wrap replaces its
// calls by calls of this function.

#include <pthread.h>

#include <condition_variable>
#include <mutex>

extern "C" __attribute__((visibility("hidden"))) void
__wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(
    std::condition_variable& on, std::unique_lock<std::mutex>& lock) {
  static_cast<void>(::pthread_cond_wait(on.native_handle(), lock.mutex()->native_handle()));
}
