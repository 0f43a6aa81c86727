// SPDX-License-Identifier: Apache-2.0
#pragma once

// The number of exceptions that the process has thrown. Needs counted_throws.cpp, which replaces
// __cxa_throw.

#include <atomic>

#include "support/has_feature.hpp"

#if defined(__GLIBC__) && !RINGLOAD_HAS_FEATURE(address_sanitizer) &&            \
    !RINGLOAD_HAS_FEATURE(thread_sanitizer) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define RINGLOAD_COUNTS_THROWS 1
#else
#define RINGLOAD_COUNTS_THROWS 0  // A sanitizer replaces __cxa_throw itself.
#endif

namespace ringload::testing {

inline constexpr bool counts_throws = RINGLOAD_COUNTS_THROWS != 0;
inline std::atomic<int> thrown = 0;  // Stays 0 if counts_throws is false.

}  // namespace ringload::testing
