// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/has_feature.hpp"

// How many of its random settings a long test tries: under a sanitizer, or without optimising, each
// takes many times as long.

namespace ringload::testing {

#if defined(__OPTIMIZE__) && !RINGLOAD_HAS_FEATURE(address_sanitizer) && \
    !RINGLOAD_HAS_FEATURE(thread_sanitizer)
inline constexpr unsigned effort_percent = 100;
#else
inline constexpr unsigned effort_percent = 20;
#endif

}  // namespace ringload::testing
