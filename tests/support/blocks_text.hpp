// SPDX-License-Identifier: Apache-2.0
#pragma once

// A GGUF file with a tensor of each block type that can be dequantised. The last dimension has
// several blocks, and the bytes are random.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/gguf_text.hpp"
#include "support/made_checkpoint.hpp"

namespace ringload::testing {

struct blocks_text {
  struct row {
    std::string name;
    std::uint32_t id;
    std::uint32_t elements;  // Of a block.
    std::uint32_t bytes;
  };
  const std::vector<row> types = {
      {"q4_0", 2, 32, 18},      {"q4_1", 3, 32, 20},    {"q5_0", 6, 32, 22},
      {"q5_1", 7, 32, 24},      {"q8_0", 8, 32, 34},    {"q2_k", 10, 256, 84},
      {"q3_k", 11, 256, 110},   {"q4_k", 12, 256, 144}, {"q5_k", 13, 256, 176},
      {"q6_k", 14, 256, 210},   {"q8_k", 15, 256, 292}, {"iq4_nl", 20, 32, 18},
      {"iq4_xs", 23, 256, 136}, {"mxfp4", 39, 32, 17}};
  // Each is [planes, rows, blocks * elements].
  static constexpr std::uint64_t planes = 3;
  static constexpr std::uint64_t rows = 5;
  static constexpr std::uint64_t blocks = 4;

  std::string file() const {
    gguf_text out;
    std::uint64_t at = 0;
    for (const row& each : types) {
      out.info(each.name, {blocks * each.elements, rows, planes}, each.id, at);
      at += (planes * rows * blocks * each.bytes + 31) / 32 * 32;
    }
    std::string text = out.file(0);
    return text + noise(at, 11);
  }
};

}  // namespace ringload::testing
