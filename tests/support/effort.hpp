// SPDX-License-Identifier: Apache-2.0
#pragma once

// How many of its random settings a long test tries: without optimising, as under a sanitizer, each
// takes twenty times as long.

namespace ringload::testing {

#if defined(__OPTIMIZE__)
inline constexpr unsigned effort_percent = 100;
#else
inline constexpr unsigned effort_percent = 20;
#endif

}  // namespace ringload::testing
