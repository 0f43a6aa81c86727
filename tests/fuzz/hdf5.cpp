// SPDX-License-Identifier: Apache-2.0

// For any message about an HDF5 file, the result is a fault or tensors inside the file.

#include "formats/hdf5.hpp"

#include <string>

#include "entries.hpp"
#include "formats/hdf5/pipe_protocol.hpp"

using namespace ringload;
using ringload::testing::hold;

int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  constexpr std::uint64_t file_bytes = 100'000;
  // The beginning of a message is always right.
  std::string message = "ringload hdf5 1\n";
  for (unsigned i = 0; i < 8; ++i) {
    message += static_cast<char>(static_cast<std::uint64_t>(size) >> (8 * i) & 0xFFU);
  }
  message.append(reinterpret_cast<const char*>(input), size);
  auto said = h5::decode_message(std::as_bytes(std::span(message)));
  if (!said) {
    hold(said.error().code.failed(), "a refusal has a code");
    return 0;
  }
  for (const strictness strictness : {strictness::strict, strictness::reference}) {
    const auto found = parse_hdf5(*said, file_bytes, strictness);
    if (found) {
      ringload::testing::hold_entries(*found, file_bytes);
    } else {
      ringload::testing::hold_fault(found.error());
    }
  }
  return 0;
}
