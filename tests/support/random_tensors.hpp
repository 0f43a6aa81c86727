// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tensors of any type, shape and strides, and the dense bytes that a file must have, computed
// element by element.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <ringload/save.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/made_checkpoint.hpp"

namespace ringload::testing {

struct saved_tensor {
  tensor_ref view;
  std::string dense;  // Row-major, without gaps.
};

// The dense bytes of a strided tensor whose element 0 is at `first`.
inline std::string dense_bytes_of(const tensor_ref& one, const char* first) {
  const std::size_t width = bits(one.dtype) / 8;
  std::uint64_t count = 1;
  for (const std::uint64_t size : one.shape) count *= size;
  std::string out;
  for (std::uint64_t n = 0; n < count; ++n) {
    std::uint64_t rest = n;
    std::int64_t at = 0;
    for (std::size_t d = one.shape.size(); d-- > 0;) {
      at += static_cast<std::int64_t>(rest % one.shape[d]) * one.strides[d];
      rest /= one.shape[d];
    }
    out.append(first + at * static_cast<std::int64_t>(width), width);
  }
  return out;
}

// At most about `bytes` bytes.
inline saved_tensor random_tensor(std::mt19937_64& random, std::string name, std::uint64_t bytes) {
  const auto type = static_cast<dtype>(random() % (dtype_count - 1));  // Without c128.
  saved_tensor out;
  tensor_ref& view = out.view;
  view.name = std::move(name);
  view.dtype = type;
  const bool in_bytes = bits(type) % 8 == 0;
  std::uint64_t left = 1 + random() % std::max<std::uint64_t>(bytes, 2);
  const std::uint64_t rank = random() % 5;
  for (std::uint64_t d = 0; d < rank; ++d) {
    const std::uint64_t size =
        random() % 12 == 0 ? 0 : 1 + random() % std::min<std::uint64_t>(left, 300);
    view.shape.push_back(size);
    left = std::max<std::uint64_t>(1, left / std::max<std::uint64_t>(size, 1));
  }
  if (!in_bytes) view.shape.push_back(4 * left);
  std::uint64_t elements = 1;
  for (const std::uint64_t size : view.shape) elements *= size;
  const std::uint64_t dense_bytes = elements * bits(type) / 8;

  // Up to three times the memory, so that strides may have gaps. Sometimes misaligned.
  const bool strided = in_bytes && elements > 0 && random() % 2 == 0;
  const std::uint64_t width = bits(type) / 8;
  const auto memory = std::make_shared<std::string>(noise(3 * dense_bytes + 64, random()));
  const char* first = memory->data() + random() % 9;
  if (strided) {
    view.strides.resize(view.shape.size());
    std::vector<std::size_t> order(view.shape.size());
    for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
    std::shuffle(order.begin(), order.end(), random);
    std::int64_t step = 1 + static_cast<std::int64_t>(random() % 2);  // Innermost first.
    for (const std::size_t d : order) {
      const bool repeated = random() % 10 == 0;
      const bool back = random() % 4 == 0;
      view.strides[d] = repeated ? 0 : back ? -step : step;
      if (back && !repeated) {
        first += static_cast<std::int64_t>((view.shape[d] - 1) * width) * step;
      }
      step *= static_cast<std::int64_t>(view.shape[d]);
    }
    out.dense = dense_bytes_of(view, first);
  } else {
    out.dense.assign(first, dense_bytes);
  }
  view.data = first;
  view.owner = memory;
  return out;
}

}  // namespace ringload::testing
