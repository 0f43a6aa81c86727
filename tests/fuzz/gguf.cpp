// SPDX-License-Identifier: Apache-2.0

// For any input, the parser fails or returns tensors inside the file, without gaps except for
// padding.

#include "formats/gguf/gguf.hpp"

#include "entries.hpp"

using namespace ringload;
using ringload::testing::hold;

int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  memory_input from(std::as_bytes(std::span(input, size)));
  const auto strict = parse_gguf(from, strictness::strict);
  const auto lax = parse_gguf(from, strictness::reference);
  if (strict) {
    hold(lax.has_value(), "the reference profile accepts what the strict one does");
    hold(lax->tensors.size() == strict->tensors.size(), "and finds as many tensors");
  } else {
    ringload::testing::hold_fault(strict.error());
  }
  if (!lax) return 0;
  ringload::testing::hold_entries(*lax, size);
  std::uint64_t reached = 0;
  for (const entry& e : lax->tensors) {
    hold(e.offset >= reached, "tensors do not overlap");
    hold(e.type.empty() == e.original_shape.empty(), "blocks say what they mean");
    reached = e.offset + e.bytes;
  }
  std::uint64_t metadata_bytes = 0;
  for (const auto& [key, value] : lax->metadata) metadata_bytes += value.text().size();
  hold(metadata_bytes <= gguf_metadata_bytes_max, "metadata has its limit");
  return 0;
}
