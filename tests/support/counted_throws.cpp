// SPDX-License-Identifier: Apache-2.0
#include "support/counted_throws.hpp"

#if RINGLOAD_COUNTS_THROWS
#include <dlfcn.h>

// The parameters have the types of the declaration in g++.
extern "C" void __cxa_throw(void* object, void* type, void (*destroy)(void*)) {
  ringload::testing::thrown.fetch_add(1);
  using function = void (*)(void*, void*, void (*)(void*));
  static const auto real = reinterpret_cast<function>(::dlsym(RTLD_NEXT, "__cxa_throw"));
  real(object, type, destroy);
  __builtin_unreachable();
}
#endif
