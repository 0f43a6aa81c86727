// SPDX-License-Identifier: Apache-2.0
#include "layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "json.hpp"
#include "noise.hpp"

namespace ringload::tool {

namespace {

// The types of mixed_tensors(), which every reader supports. Their elements have whole bytes, and
// every bit pattern is a valid value.
constexpr std::array mixed_types = {dtype::f32,     dtype::bf16, dtype::u8,        dtype::f16,
                                    dtype::i64,     dtype::i8,   dtype::f8_e4m3fn, dtype::f64,
                                    dtype::f8_e5m2, dtype::i32,  dtype::u16};

std::uint64_t width(dtype type) noexcept { return bits(type) / 8; }

// Returns the first type, from the index `preferred` on, whose elements have at most `bytes` bytes.
// Returns u8 for 0 bytes.
dtype type_within(std::uint64_t bytes, std::size_t preferred) noexcept {
  for (std::size_t i = 0; i < mixed_types.size(); ++i) {
    const dtype type = mixed_types[(preferred + i) % mixed_types.size()];
    if (width(type) <= bytes) return type;
  }
  return dtype::u8;
}

// Returns the widest float whose size divides `bytes`.
dtype type_dividing(std::uint64_t bytes) noexcept {
  if (bytes % 4 == 0) return dtype::f32;
  return bytes % 2 == 0 ? dtype::bf16 : dtype::u8;
}

// Returns a shape with this number of elements, two-dimensional if possible.
std::vector<std::uint64_t> shape_of(std::uint64_t elements) {
  for (const std::uint64_t columns : {4096U, 1024U, 256U, 64U, 16U, 3U}) {
    if (elements >= columns * 2 && elements % columns == 0) return {elements / columns, columns};
  }
  return {elements};
}

// Returns total * part / whole without overflow. Requires part <= whole < 2^32.
std::uint64_t share(std::uint64_t total, std::uint64_t part, std::uint64_t whole) noexcept {
  return total / whole * part + total % whole * part / whole;
}

struct llama {
  std::uint64_t hidden;
  std::uint64_t layers;
  std::uint64_t vocabulary;

  std::uint64_t keys() const noexcept { return hidden % 4 == 0 ? hidden / 4 : hidden; }
  std::uint64_t intermediate() const noexcept {
    const std::uint64_t step = hidden >= 1024 ? 256 : 1;
    return (hidden * 8 / 3 + step - 1) / step * step;
  }
  std::uint64_t layer() const noexcept {
    return 2 * hidden * hidden + 2 * keys() * hidden + 3 * intermediate() * hidden + 2 * hidden;
  }
  // Returns the number of elements of all tensors.
  std::uint64_t elements() const noexcept {
    return 2 * vocabulary * hidden + layers * layer() + hidden;
  }
};

// Chooses the widest model that has at most `elements` elements with its usual depth and
// vocabulary. Then increases the depth as far as possible, and then the vocabulary.
llama llama_within(std::uint64_t elements) noexcept {
  constexpr std::array<std::uint64_t, 28> widths = {
      16384, 12288, 8192, 6144, 5120, 4096, 3072, 2560, 2048, 1536, 1024, 768, 512, 384,
      256,   192,   128,  96,   64,   48,   32,   24,   16,   12,   8,    4,   2,   1};
  llama made = {};
  for (const std::uint64_t hidden : widths) {
    made = {hidden, std::max<std::uint64_t>(1, hidden / 128),
            std::min<std::uint64_t>(32000, 8 * hidden)};
    if (made.elements() <= elements) break;
  }
  made.layers += (elements - made.elements()) / made.layer();
  made.vocabulary += (elements - made.elements()) / (2 * made.hidden);
  return made;
}

}  // namespace

std::vector<planned_tensor> mixed_tensors(std::uint64_t bytes, std::uint32_t count,
                                          std::uint64_t seed) {
  // Tensor i has a weight of 1 to 16, and gets a proportional share of the bytes. Bytes that are
  // not a whole number of elements are added to the next tensor, and the last tensor gets all
  // remaining bytes.
  const auto weight = [seed](std::uint32_t i) { return 1 + noise(seed, i) % 16; };
  std::uint64_t weights = 0;
  for (std::uint32_t i = 0; i < count; ++i) weights += weight(i);

  const std::size_t digits = std::to_string(count).size();
  std::vector<planned_tensor> tensors;
  tensors.reserve(count);
  std::uint64_t weighed = 0;
  std::uint64_t given = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    weighed += weight(i);
    const std::uint64_t due = share(bytes, weighed, weights) - given;
    const bool last = i + 1 == count;
    const dtype type = last ? type_dividing(due) : type_within(due, i % mixed_types.size());
    const std::uint64_t elements = due / width(type);
    tensors.push_back({fmt::format("tensor.{:0{}}", i, digits), type, shape_of(elements),
                       elements * width(type)});
    given += elements * width(type);
  }
  return tensors;
}

std::vector<planned_tensor> llama_tensors(std::uint64_t bytes) {
  const llama of = llama_within(bytes / 2);
  std::vector<planned_tensor> tensors;
  const auto add = [&tensors](std::string name, std::vector<std::uint64_t> shape) {
    std::uint64_t elements = 1;
    for (const std::uint64_t dimension : shape) elements *= dimension;
    tensors.push_back({std::move(name), dtype::bf16, std::move(shape), elements * 2});
  };

  add("model.embed_tokens.weight", {of.vocabulary, of.hidden});
  for (std::uint64_t i = 0; i < of.layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    add(layer + "input_layernorm.weight", {of.hidden});
    add(layer + "self_attn.q_proj.weight", {of.hidden, of.hidden});
    add(layer + "self_attn.k_proj.weight", {of.keys(), of.hidden});
    add(layer + "self_attn.v_proj.weight", {of.keys(), of.hidden});
    add(layer + "self_attn.o_proj.weight", {of.hidden, of.hidden});
    add(layer + "post_attention_layernorm.weight", {of.hidden});
    add(layer + "mlp.gate_proj.weight", {of.intermediate(), of.hidden});
    add(layer + "mlp.up_proj.weight", {of.intermediate(), of.hidden});
    add(layer + "mlp.down_proj.weight", {of.hidden, of.intermediate()});
  }
  add("model.norm.weight", {of.hidden});
  // The remaining bytes, less than two rows of the vocabulary, become a tensor that early Llama
  // models have.
  const std::uint64_t rest = bytes / 2 - of.elements();
  if (rest > 0) add("model.rotary_emb.inv_freq", {rest});
  add("lm_head.weight", {of.vocabulary, of.hidden});
  return tensors;
}

std::vector<std::vector<planned_tensor>> into_shards(std::vector<planned_tensor> tensors,
                                                     std::uint32_t count) {
  const std::uint64_t total = bytes_of(tensors);
  std::vector<std::vector<planned_tensor>> shards(count);
  std::uint64_t given = 0;
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    // Leaves at least one tensor for each later shard.
    const std::size_t end = tensors.size() - (count - 1 - i);
    const std::uint64_t due = share(total, i + 1, count);
    const bool last = i + 1 == count;
    while (next < end && (last || shards[i].empty() || given + tensors[next].bytes <= due)) {
      given += tensors[next].bytes;
      shards[i].push_back(std::move(tensors[next]));
      ++next;
    }
  }
  return shards;
}

void sort_by_dtype(std::vector<planned_tensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
  });
}

void sort_by_name(std::vector<planned_tensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
}

std::uint64_t bytes_of(const std::vector<planned_tensor>& tensors) noexcept {
  std::uint64_t bytes = 0;
  for (const planned_tensor& tensor : tensors) bytes += tensor.bytes;
  return bytes;
}

std::string header_of(const std::vector<planned_tensor>& tensors) {
  std::string header = R"(........{"__metadata__":{"format":"pt"})";
  std::uint64_t offset = 0;
  for (const planned_tensor& tensor : tensors) {
    header += ',';
    append_json(header, tensor.name);
    fmt::format_to(std::back_inserter(header),
                   R"(:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", name(tensor.dtype),
                   fmt::join(tensor.shape, ","), offset, offset + tensor.bytes);
    offset += tensor.bytes;
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');
  const std::uint64_t length = header.size() - 8;
  for (std::size_t i = 0; i < 8; ++i) header[i] = static_cast<char>(length >> (8 * i) & 0xff);
  return header;
}

std::string shard_name(std::uint32_t position, std::uint32_t count) {
  if (count == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", position + 1, count);
}

std::string index_of(const std::vector<std::vector<planned_tensor>>& shards) {
  const auto count = static_cast<std::uint32_t>(shards.size());
  std::uint64_t total = 0;
  std::map<std::string_view, std::uint32_t> shard_of;
  for (std::uint32_t i = 0; i < count; ++i) {
    total += bytes_of(shards[i]);
    for (const planned_tensor& tensor : shards[i]) shard_of[tensor.name] = i;
  }

  std::string text = fmt::format(
      "{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{", total);
  const char* before = "\n    ";
  for (const auto& [name, shard] : shard_of) {
    text += before;
    append_json(text, name);
    text += ": ";
    append_json(text, shard_name(shard, count));
    before = ",\n    ";
  }
  return text + "\n  }\n}\n";
}

}  // namespace ringload::tool
