// SPDX-License-Identifier: Apache-2.0
#pragma once

// Returns true if the processor has AVX2. Used by loops that are compiled with and without AVX2.

namespace ringload::inline v0 {

#if defined(__x86_64__)
inline bool has_avx2() noexcept {
  static const bool is_supported = __builtin_cpu_supports("avx2") != 0;
  return is_supported;
}
#endif

}  // namespace ringload::inline v0
