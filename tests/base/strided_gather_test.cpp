// SPDX-License-Identifier: Apache-2.0
#include "base/numeric/strided_gather.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <random>

using namespace ringload;

namespace {

struct gathered_case {
  std::uint32_t element_bytes = 1;
  std::vector<std::uint64_t> shape;
  std::vector<std::int64_t> stride_bytes;
};

// Copies element by element, by the index in each dimension.
std::vector<std::byte> expected_of(const gathered_case& of, const std::byte* first) {
  std::uint64_t count = 1;
  for (const std::uint64_t size : of.shape) count *= size;
  std::vector<std::byte> out(count * of.element_bytes);
  for (std::uint64_t n = 0; n < count; ++n) {
    const std::byte* at = first;
    std::uint64_t rest = n;
    for (std::size_t d = of.shape.size(); d-- > 0;) {
      at += static_cast<std::int64_t>(rest % of.shape[d]) * of.stride_bytes[d];
      rest /= of.shape[d];
    }
    std::memcpy(out.data() + n * of.element_bytes, at, of.element_bytes);
  }
  return out;
}

}  // namespace

TEST_CASE("strided gather: dense elements are known as such, whatever their shape") {
  const std::vector<std::uint64_t> shape = {2, 1, 3};
  CHECK(strided_elements(4, shape, std::vector<std::int64_t>{12, 99, 4}).dense());
  CHECK_FALSE(strided_elements(4, shape, std::vector<std::int64_t>{16, 99, 4}).dense());
  CHECK_FALSE(strided_elements(4, shape, std::vector<std::int64_t>{4, 99, 8}).dense());
  CHECK(strided_elements(4, {}, {}).dense());
  CHECK(strided_elements(4, {}, {}).count() == 1);
  const std::vector<std::uint64_t> none = {2, 0};
  CHECK(strided_elements(4, none, std::vector<std::int64_t>{7, 7}).dense());
  CHECK(strided_elements(4, none, std::vector<std::int64_t>{7, 7}).count() == 0);
}

TEST_CASE("strided gather: any range of any strided elements comes as an index gives them") {
  std::mt19937_64 random(5);
  std::vector<std::byte> memory(400'000);
  for (std::byte& one : memory) one = static_cast<std::byte>(random());
  const std::byte* const middle = memory.data() + memory.size() / 2;
  for (int round = 0; round < 400; ++round) {
    gathered_case one;
    one.element_bytes = 1U << random() % 5;
    for (std::uint64_t d = 0; d < random() % 5; ++d) {
      one.shape.push_back(random() % 9 == 0 ? 0 : 1 + random() % 6);
      const auto step = static_cast<std::int64_t>(random() % 60) - 30;
      one.stride_bytes.push_back(step * static_cast<std::int64_t>(one.element_bytes));
    }
    if (random() % 2 == 0) {  // The inner dimensions are dense.
      auto dense = static_cast<std::int64_t>(one.element_bytes);
      for (std::size_t d = one.shape.size(); d-- > random() % (one.shape.size() + 1);) {
        one.stride_bytes[d] = dense;
        dense *= static_cast<std::int64_t>(one.shape[d]);
      }
    }
    const strided_elements elements(one.element_bytes, one.shape, one.stride_bytes);
    const std::vector<std::byte> wanted = expected_of(one, middle);
    REQUIRE(elements.count() * one.element_bytes == wanted.size());
    std::vector<std::byte> found(wanted.size());
    for (std::uint64_t at = 0; at < elements.count();) {
      const std::uint64_t count = 1 + random() % (elements.count() - at);
      elements.gather(middle, at, count, found.data() + at * one.element_bytes);
      at += count;
    }
    CHECK(found == wanted);
    if (elements.dense() && !wanted.empty()) {
      CHECK(std::memcmp(middle, wanted.data(), wanted.size()) == 0);
    }
  }
}
