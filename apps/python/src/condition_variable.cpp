// SPDX-License-Identifier: Apache-2.0

// std::condition_variable::wait, without libstdc++.
//
// Of all that the module takes from there this function alone is of version GLIBCXX_3.4.30, which
// the systems of manylinux_2_34 lack; compiled against libstdc++ 11 it would be of 3.4.11. The
// linker's --wrap leads calls of it here.

#include <pthread.h>

#include <condition_variable>
#include <mutex>

extern "C" __attribute__((visibility("hidden"))) void
__wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(
    std::condition_variable& on, std::unique_lock<std::mutex>& lock) {
  static_cast<void>(::pthread_cond_wait(on.native_handle(), lock.mutex()->native_handle()));
}
