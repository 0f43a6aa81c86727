// SPDX-License-Identifier: Apache-2.0

// For any input, the parser fails or returns an array inside the file.

#include "formats/npy/npy.hpp"

#include "entries.hpp"

using namespace ringload;

int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  memory_input from(std::as_bytes(std::span(input, size)));
  read_options how;
  for (const strictness strictness : {strictness::strict, strictness::reference}) {
    how.strictness = strictness;
    const auto found = parse_npy(from, "array", how);
    if (found) {
      ringload::testing::hold(found->tensors.size() == 1, "a file is one array");
      ringload::testing::hold_entries(*found, size);
    } else {
      ringload::testing::hold_fault(found.error());
    }
    how.nameless = {dtype::f8_e4m3fn, dtype::bf16};
  }
  return 0;
}
