// SPDX-License-Identifier: Apache-2.0

// compare_blocks FILE...: dequantises every quantised tensor NAME of GGUF files that also contain a
// tensor NAME.f32, and compares the two bit by bit. tests/data/gguf/make.py makes such files.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "base/numeric/dequantize.hpp"
#include "formats/gguf/gguf.hpp"

namespace {

using namespace ringload;

std::vector<std::uint32_t> words(const std::byte* at, std::size_t count) {
  std::vector<std::uint32_t> out(count);
  std::memcpy(out.data(), at, count * sizeof(std::uint32_t));
  return out;
}

template <float_type To>
bool narrowed_right(block_type type, const std::byte* from, std::size_t blocks,
                    const std::vector<std::uint32_t>& wanted) {
  using word = typename float_bits<To>::word;
  std::vector<std::byte> made(wanted.size() * sizeof(word));
  dequantize(type, from, made.data(), blocks, To);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    word found = 0;
    std::memcpy(&found, made.data() + i * sizeof found, sizeof found);
    const word expected = float_bits<To>::narrow(wanted[i]);
    if (found == expected) continue;
    std::fprintf(stderr, "element %zu: %x, and not %x\n", i, unsigned{found}, unsigned{expected});
    return false;
  }
  return true;
}

bool compare(const entry& blocks, const entry& floats, const std::vector<std::byte>& file) {
  const auto type = block_type_named(blocks.type);
  if (!type) return false;
  const std::size_t count = blocks.bytes / size_of(*type).bytes;
  if (count * size_of(*type).elements * 4 != floats.bytes) return false;
  const auto wanted = words(file.data() + floats.offset, floats.bytes / 4);
  const std::byte* const from = file.data() + blocks.offset;
  return narrowed_right<float_type::f32>(*type, from, count, wanted) &&
         narrowed_right<float_type::f16>(*type, from, count, wanted) &&
         narrowed_right<float_type::bf16>(*type, from, count, wanted);
}

bool compare_file(const char* path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::byte> file(text.size());
  std::memcpy(file.data(), text.data(), text.size());
  memory_input from(file);
  const auto found = parse_gguf(from, strictness::strict);
  if (!found) {
    std::fprintf(stderr, "%s: %s\n", path, message_of(found.error()).c_str());
    return false;
  }
  std::map<std::string, const entry*> by_name;
  for (const entry& each : found->tensors) by_name[each.name] = &each;
  std::size_t compared = 0;
  for (const auto& [name, each] : by_name) {
    const auto floats = by_name.find(name + ".f32");
    if (floats == by_name.end()) continue;
    ++compared;
    if (compare(*each, *floats->second, file)) continue;
    std::fprintf(stderr, "%s: tensor '%s' differs\n", path, name.c_str());
    return false;
  }
  std::printf("%s: %zu tensors are equal\n", path, compared);
  return compared > 0;
}

}  // namespace

int main(int argc, char** argv) {
  bool right = argc > 1;
  for (int i = 1; i < argc; ++i) right = compare_file(argv[i]) && right;
  return right ? 0 : 1;
}
