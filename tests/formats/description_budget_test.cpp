// SPDX-License-Identifier: Apache-2.0

// The limit for names, shapes and metadata.

#include "formats/description_budget.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ringload;

namespace {

entry tensor_named(std::string name) {
  entry out;
  out.name = std::move(name);
  return out;
}

}  // namespace

TEST_CASE("description budget: 131,072 tensors without bytes fit, and not one more") {
  description_budget budget(strictness::strict);
  for (int i = 0; i < 131'072; ++i) REQUIRE(budget.take_tensor(0, 0));
  CHECK_FALSE(budget.take_tensor(0, 0));
  CHECK(budget.cause() ==
        "the names, shapes and metadata need more memory than strict reading allows, which is "
        "67,108,864 bytes: the size of the files and 67,108,864");
}

TEST_CASE("description budget: the limit grows with the files") {
  description_budget budget(strictness::strict, 512);
  budget.add_file(512);
  for (int i = 0; i < 131'074; ++i) REQUIRE(budget.take_tensor(0, 0));
  CHECK_FALSE(budget.take_tensor(0, 0));
}

TEST_CASE("description budget: names, dimensions, keys and values count") {
  const std::size_t half = description_bytes_max / 2;
  CHECK_FALSE(description_budget(strictness::strict).take_tensor(half, 0));
  CHECK_FALSE(description_budget(strictness::strict).take_tensor(0, half / 16));
  CHECK(description_budget(strictness::strict).take_piece(half / 16));
  CHECK_FALSE(description_budget(strictness::strict).take_piece(half / 8));
  CHECK_FALSE(description_budget(strictness::strict).take_attribute(half, 0));
  CHECK_FALSE(description_budget(strictness::strict).take_attribute(0, half));
  CHECK_FALSE(description_budget(strictness::strict).take_unreadable(half));
  CHECK(description_budget(strictness::strict).take_attribute(half / 4, half / 4));
}

TEST_CASE("description budget: reference reading has no limit") {
  description_budget budget(strictness::reference);
  CHECK(budget.take_tensor(4 * description_bytes_max, 0));
}

TEST_CASE("description budget: everything that a parser found counts") {
  const std::string long_text(description_bytes_max, 'x');
  const auto fits = [](const file_entries& found) {
    return description_budget(strictness::strict).take(found);
  };
  file_entries found;
  CHECK(fits(found));
  found.tensors.push_back(tensor_named("a"));
  found.metadata.emplace_back("key", "value");
  CHECK(fits(found));

  file_entries with_name = found;
  with_name.tensors.push_back(tensor_named(long_text));
  CHECK_FALSE(fits(with_name));
  file_entries with_metadata = found;
  with_metadata.metadata.emplace_back("key", long_text);
  CHECK_FALSE(fits(with_metadata));
  file_entries with_attribute = found;
  with_attribute.tensors.front().attributes.emplace_back("key", long_text);
  CHECK_FALSE(fits(with_attribute));
  file_entries with_composite = found;
  with_composite.composites.emplace_back().parts = {long_text};
  CHECK_FALSE(fits(with_composite));
  file_entries with_unreadable = found;
  with_unreadable.unreadable.push_back({long_text, {}, false});
  CHECK_FALSE(fits(with_unreadable));
}
