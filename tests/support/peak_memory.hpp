// SPDX-License-Identifier: Apache-2.0
#pragma once

// Measures the peak memory of a function in a child process.

#include <fstream>
#include <string>

#include "support/in_child.hpp"

namespace ringload::testing {

// The memory of a sanitizer cannot be distinguished from that of the process.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool peak_memory_is_ours = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool peak_memory_is_ours = false;
#else
inline constexpr bool peak_memory_is_ours = true;
#endif
#else
inline constexpr bool peak_memory_is_ours = true;
#endif

// The peak of this process so far (VmHWM).
inline std::uint64_t peak_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6));
  }
  return 0;
}

struct peak_memory {
  std::uint64_t bytes = 0;  // In addition to the memory before the call.
  std::string said;         // The result of `work`.
};

template <class Work>
peak_memory peak_memory_of(const Work& work) {
  const std::string said = said_in_child([&] {
    std::ofstream("/proc/self/clear_refs") << "5";  // Resets the peak.
    const std::uint64_t before = peak_kib();
    const std::string answer = work();
    return std::to_string(peak_kib() - before) + " " + answer;
  });
  const std::size_t space = said.find(' ');
  return {std::stoull(said.substr(0, space)) * 1024, said.substr(space + 1)};
}

}  // namespace ringload::testing
