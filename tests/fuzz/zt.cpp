// SPDX-License-Identifier: Apache-2.0

// For any input, the parser fails or returns tensors inside the file. The first byte states whether
// the rest is a whole file or a manifest, to which the test adds the other bytes of a file.

#include "formats/zt/zt.hpp"

#include <string>

#include "entries.hpp"

using namespace ringload;
using ringload::testing::hold;

namespace {

std::string around(std::string_view manifest, std::uint8_t choice) {
  const bool is_0_1 = choice % 4 == 1;
  std::string file(is_0_1 ? zt_0_1_magic : zt_magic);
  file.resize(512);
  file += manifest;
  for (unsigned i = 0; i < 8; ++i) file += static_cast<char>(manifest.size() >> (8 * i));
  if (!is_0_1) file += zt_magic;
  return file;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(input) + 1, size - 1);
  const std::string file = input[0] % 4 == 0 ? std::string(rest) : around(rest, input[0]);
  memory_input from(std::as_bytes(std::span(file)));
  const auto found = parse_zt(from, strictness::strict);
  if (!found) {
    ringload::testing::hold_fault(found.error());
    return 0;
  }
  ringload::testing::hold_entries(*found, file.size());
  std::size_t parts = 0;
  for (const composite& each : found->composites) {
    for (const std::string& part : each.parts) {
      const std::string name = each.name + each.separator + part;
      std::size_t times = 0;
      for (const entry& e : found->tensors) times += e.name == name ? 1 : 0;
      hold(times == 1, "each part is a tensor");
      ++parts;
      if (parts > 100) return 0;  // A limit for the running time.
    }
  }
  return 0;
}
