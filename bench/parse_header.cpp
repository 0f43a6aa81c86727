// SPDX-License-Identifier: Apache-2.0

// Measures how long parsing a large safetensors header takes. No drive speeds up this part of a
// load.

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "formats/safetensors/safetensors.hpp"

namespace {

constexpr std::uint64_t tensor_bytes = 8192;
constexpr int runs = 9;

// Names as long as those of real models with many experts.
std::string header_of(std::uint64_t tensors) {
  std::string text = R"({"__metadata__":{"format":"pt"})";
  for (std::uint64_t i = 0; i < tensors; ++i) {
    const std::uint64_t begin = i * tensor_bytes;
    text += R"(,"model.layers.)" + std::to_string(i / 384) + ".mlp.experts." +
            std::to_string(i % 384) + R"(.down_proj.weight":{"dtype":"BF16","shape":[64,64],)" +
            R"("data_offsets":[)" + std::to_string(begin) + "," +
            std::to_string(begin + tensor_bytes) + "]}";
  }
  return text + "}";
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t tensors = 100'000;
  if (argc == 3 && std::string_view(argv[1]) == "--tensors") {
    std::from_chars(argv[2], argv[2] + std::strlen(argv[2]), tensors);
  } else if (argc != 1) {
    std::fprintf(stderr, "usage: %s [--tensors N]\n", argv[0]);
    return 2;
  }
  const std::string header = header_of(tensors);
  const std::uint64_t file_bytes =
      ringload::safetensors_prefix_bytes + header.size() + tensors * tensor_bytes;

  std::vector<double> milliseconds;
  for (int run = 0; run < runs; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    const auto found = ringload::parse_safetensors(std::as_bytes(std::span(header)), file_bytes,
                                                   ringload::strictness::strict);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    if (!found || found->tensors.size() != tensors) {
      std::fprintf(stderr, "the header was not parsed\n");
      return 1;
    }
    milliseconds.push_back(took.count());
  }
  std::ranges::sort(milliseconds);
  const double median = milliseconds[milliseconds.size() / 2];
  std::printf("parse_header: %llu tensors, %.1f MB of JSON, median of %d: %.1f ms (%.0f MB/s)\n",
              static_cast<unsigned long long>(tensors), static_cast<double>(header.size()) / 1e6,
              runs, median, static_cast<double>(header.size()) / 1e3 / median);
}
