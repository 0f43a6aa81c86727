// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/has_feature.hpp"

// The number of random inputs of a long test. With a sanitizer, or without optimisation, each input
// takes many times as long.

namespace ringload::testing {

#if defined(__OPTIMIZE__) && !RINGLOAD_HAS_FEATURE(address_sanitizer) && \
    !RINGLOAD_HAS_FEATURE(thread_sanitizer)
inline constexpr unsigned effort_percent = 100;
#else
inline constexpr unsigned effort_percent = 20;
#endif

}  // namespace ringload::testing
