// SPDX-License-Identifier: Apache-2.0
#pragma once

// RINGLOAD_HAS_FEATURE(address_sanitizer): clang's __has_feature; g++ has none, and macros instead.

#if defined(__has_feature)
#define RINGLOAD_HAS_FEATURE(one) __has_feature(one)
#else
#define RINGLOAD_HAS_FEATURE(one) 0
#endif
