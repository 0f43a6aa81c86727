// SPDX-License-Identifier: Apache-2.0
#pragma once

// Random tensors with shapes, and the comparison of what a rank gets with the bytes of the file.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <ringload/group_load.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/made_checkpoint.hpp"
#include "support/safetensors_text.hpp"
#include "support/waiting.hpp"

namespace ringload::testing {

struct shaped {
  std::string name;
  std::string dtype;
  std::uint64_t width;  // Of an element, in bytes.
  std::vector<std::uint64_t> shape;
  std::string bytes = {};

  std::uint64_t elements() const {
    std::uint64_t all = 1;
    for (const std::uint64_t size : shape) all *= size;
    return all;
  }
};

inline std::vector<shaped> random_shapes(std::mt19937_64& random) {
  const std::vector<std::pair<const char*, std::uint64_t>> types = {
      {"F32", 4}, {"BF16", 2}, {"U8", 1}, {"I64", 8}};
  std::vector<shaped> all;
  const std::size_t count = 1 + random() % 6;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [type, width] = types[random() % types.size()];
    shaped tensor = {"t" + std::to_string(i), type, width, {}};
    const std::size_t dims = random() % 4;
    for (std::size_t d = 0; d < dims; ++d) {
      tensor.shape.push_back(random() % 15 == 0 ? 0 : 1 + random() % 60);
    }
    all.push_back(tensor);
  }
  return all;
}

// Returns the text of the file, and sets the bytes of each tensor.
inline std::string shaped_text(std::vector<shaped>& all, std::uint64_t seed) {
  std::string header = "{";
  std::string data;
  for (shaped& t : all) {
    t.bytes = noise(t.elements() * t.width, seed++);
    std::string dims;
    for (const std::uint64_t size : t.shape)
      dims += (dims.empty() ? "" : ",") + std::to_string(size);
    if (header.size() > 1) header += ',';
    header += tensor_text(t.name, t.dtype, dims, data.size(), data.size() + t.bytes.size());
    data += t.bytes;
  }
  return safetensors_text(header + "}", data);
}

// Returns the bytes of the indices [begin, end) of a dimension, element by element.
inline std::string block_of_elements(const shaped& t, std::size_t dim, std::uint64_t begin,
                                     std::uint64_t end) {
  std::uint64_t inner = 1;
  for (std::size_t d = dim + 1; d < t.shape.size(); ++d) inner *= t.shape[d];
  std::string out;
  for (std::uint64_t e = 0; e < t.elements(); ++e) {
    const std::uint64_t index = e / inner % t.shape[dim];
    if (index >= begin && index < end) out += t.bytes.substr(e * t.width, t.width);
  }
  return out;
}

inline std::string shard_of(const shaped& t, std::size_t dim, std::uint32_t rank,
                            std::uint32_t ranks) {
  const std::uint64_t length = (t.shape[dim] + ranks - 1) / ranks;
  return block_of_elements(t, dim, length * rank, length * (rank + 1));
}

template <class Read>
std::string wrong_in(const model& loaded, std::span<const shaped> tensors, const Read& read) {
  if (loaded.size() != tensors.size()) return "the model has another number of tensors";
  for (const shaped& t : tensors) {
    const tensor whole = loaded.at(t.name);
    if (read(whole) != t.bytes) return t.name + " differs in the model";
    if (!std::ranges::equal(whole.shape(), t.shape)) return t.name + " has another shape";
  }
  return {};
}

// The model of all tensors, then the model of every second tensor, whose names are in reverse
// order.
template <class Read>
std::string wrong_in_models(group_load& load, const std::vector<shaped>& tensors,
                            const Read& read) {
  const std::string wrong = wrong_in(get(load.model_async(use_future)), tensors, read);
  if (!wrong.empty()) return wrong;
  std::vector<shaped> some;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < tensors.size(); i += 2) {
    some.push_back(tensors[i]);
    names.insert(names.begin(), tensors[i].name);
  }
  return wrong_in(get(load.model_async(names, use_future)), some, read);
}

// Makes each kind of call for each tensor. `read` returns the bytes of a tensor. Returns an empty
// string if all results are the bytes of the file.
template <class Read>
std::string all_right(group_load& load, const std::vector<shaped>& tensors, std::uint32_t rank,
                      std::uint32_t ranks, const Read& read) {
  const std::string wrong = wrong_in_models(load, tensors, read);
  if (!wrong.empty()) return wrong;
  for (const shaped& t : tensors) {
    const tensor whole = get(load.tensor_async(t.name, use_future));
    if (read(whole) != t.bytes) return t.name + " differs";
    if (whole.name() != t.name) return t.name + " has another name";
    if (!std::ranges::equal(whole.shape(), t.shape)) return t.name + " has another shape";
    const std::uint32_t to = static_cast<std::uint32_t>(t.elements() % ranks);
    const tensor pushed = get(load.push_async(t.name, to, use_future));
    if (static_cast<bool>(pushed) != (rank == to)) return t.name + " was pushed to another rank";
    if (pushed && read(pushed) != t.bytes) return t.name + " was pushed and differs";
    for (std::uint32_t dim = 0; dim < t.shape.size(); ++dim) {
      const tensor shard = get(load.shard_async(t.name, dim, use_future));
      if (read(shard) != shard_of(t, dim, rank, ranks)) {
        return t.name + " differs along dimension " + std::to_string(dim);
      }
    }
  }
  return {};
}

// The same for tensors in host memory.
inline std::string all_right(group_load& load, const std::vector<shaped>& tensors,
                             std::uint32_t rank, std::uint32_t ranks) {
  return all_right(load, tensors, rank, ranks, [](const tensor& t) { return bytes_of(t); });
}

}  // namespace ringload::testing
