// SPDX-License-Identifier: Apache-2.0
#pragma once

// RINGLOAD_HAS_FEATURE(address_sanitizer): __has_feature of clang. g++ has macros instead.

#if defined(__has_feature)
#define RINGLOAD_HAS_FEATURE(one) __has_feature(one)
#else
#define RINGLOAD_HAS_FEATURE(one) 0
#endif
