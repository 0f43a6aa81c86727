// SPDX-License-Identifier: Apache-2.0
#pragma once

// How much memory something takes at most, in a child process of its own.

#include <fstream>
#include <string>

#include "support/in_child.hpp"

namespace ringload::testing {

// A sanitizer's own memory cannot be told from ours.
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

// Of this process, so far. Linux's VmHWM.
inline std::uint64_t peak_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6));
  }
  return 0;
}

struct peak_memory {
  std::uint64_t bytes = 0;  // More than the process had before.
  std::string said;         // What `work` returned.
};

template <class Work>
peak_memory peak_memory_of(const Work& work) {
  const std::string said = said_in_child([&] {
    std::ofstream("/proc/self/clear_refs") << "5";  // The peak begins again.
    const std::uint64_t before = peak_kib();
    const std::string answer = work();
    return std::to_string(peak_kib() - before) + " " + answer;
  });
  const std::size_t space = said.find(' ');
  return {std::stoull(said.substr(0, space)) * 1024, said.substr(space + 1)};
}

}  // namespace ringload::testing
