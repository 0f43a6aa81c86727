// SPDX-License-Identifier: Apache-2.0
#pragma once

// A fuzzer states what is true of every answer, whatever the input. `hold` is how it says so: it
// stays in release builds, and what it prints is all that a person sees of a finding.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

namespace ringload::testing {

inline void hold(bool truth, const char* what) {
  if (truth) return;
  std::fprintf(stderr, "fuzzer: this does not hold: %s\n", what);
  std::abort();
}

// Numbers out of the input, and zeros when it has ended.
class number_source {
 public:
  explicit number_source(std::span<const std::byte> from) noexcept : from_(from) {}

  bool empty() const noexcept { return from_.empty(); }

  std::uint64_t take(unsigned bytes) noexcept {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < bytes && !from_.empty(); ++i) {
      value = value << 8 | std::to_integer<std::uint64_t>(from_.front());
      from_ = from_.subspan(1);
    }
    return value;
  }

 private:
  std::span<const std::byte> from_;
};

}  // namespace ringload::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size);
