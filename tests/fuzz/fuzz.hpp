// SPDX-License-Identifier: Apache-2.0
#pragma once

// A fuzzer states properties of the result for every input. `hold` checks a property, also in
// release builds, and prints the name of a violated property.

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

// Reads numbers from the input. Returns zeros after its end.
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
