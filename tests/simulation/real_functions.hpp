// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions of libc that this program defines again.

#include <dlfcn.h>

// The definition in the next library. `version` chooses between two definitions in libc.
#define REAL_OF(function, version)                                                              \
  ([] {                                                                                         \
    static decltype(&::function) found = nullptr;                                               \
    if (!found) {                                                                               \
      found = reinterpret_cast<decltype(&::function)>(::dlvsym(RTLD_NEXT, #function, version)); \
    }                                                                                           \
    return found;                                                                               \
  }())

#define REAL(function)                                                                \
  ([] {                                                                               \
    static decltype(&::function) found = nullptr;                                     \
    if (!found) {                                                                     \
      found = reinterpret_cast<decltype(&::function)>(::dlsym(RTLD_NEXT, #function)); \
    }                                                                                 \
    return found;                                                                     \
  }())

namespace ringload::simulation {

inline constexpr long cachestat_number = 451;

// The answer of cachestat. Defined in drive.cpp.
long simulated_cachestat(const long* arguments);

}  // namespace ringload::simulation

extern "C" {
int __cxa_guard_acquire(std::int64_t* guard);
void __cxa_guard_release(std::int64_t* guard) noexcept;
void __cxa_guard_abort(std::int64_t* guard) noexcept;
}
