// SPDX-License-Identifier: Apache-2.0

// Implements std::condition_variable::wait without libstdc++.
//
// With the function of libstdc++, the module would require GLIBCXX_3.4.30, which the systems of
// manylinux_2_34 do not have. The linker option --wrap replaces calls of that function by calls of
// the function below.

#include <pthread.h>

#include <condition_variable>
#include <mutex>

extern "C" __attribute__((visibility("hidden"))) void
__wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(
    std::condition_variable& on, std::unique_lock<std::mutex>& lock) {
  static_cast<void>(::pthread_cond_wait(on.native_handle(), lock.mutex()->native_handle()));
}
