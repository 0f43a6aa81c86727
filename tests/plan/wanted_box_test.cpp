// SPDX-License-Identifier: Apache-2.0
#include "plan/wanted_box.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using namespace ringload;

TEST_CASE("wanted_box: a box of a row-major tensor is dense in its destination") {
  const std::vector<std::uint64_t> shape = {4, 6};
  const std::vector<range> box = {{1, 3}, {2, 6}};
  tensor_form form;
  form.shape = shape;
  form.element_bits = 16;
  form.box = box;
  const wanted_box wanted = box_of(form, {}).value();
  CHECK(wanted.elements() == 8);
  CHECK(wanted.bytes == 16);
  CHECK(wanted.dimensions[0].source_stride == 12);
  CHECK(wanted.dimensions[0].destination_stride == 8);
  CHECK(wanted.dimensions[1].destination_stride == 2);
}

TEST_CASE("wanted_box: elements of 4 bits are counted as rows of whole bytes") {
  const std::vector<std::uint64_t> shape = {3, 8};
  std::vector<range> box = {{0, 3}, {2, 6}};
  tensor_form form;
  form.shape = shape;
  form.element_bits = 4;
  form.box = box;
  const wanted_box wanted = box_of(form, {}).value();
  REQUIRE(wanted.dimensions.size() == 2);
  CHECK(wanted.dimensions[1].wanted == range{1, 3});
  CHECK(wanted.bytes == 6);

  box[1] = {1, 6};
  CHECK(box_of(form, {}).error().code == errc::fractional_bytes);
}

TEST_CASE("wanted_box: a shape that does not fit 64 bits is refused") {
  const std::vector<std::uint64_t> shape = {std::uint64_t{1} << 40, std::uint64_t{1} << 40};
  tensor_form form;
  form.shape = shape;
  CHECK(box_of(form, {}).error().code == errc::size_overflow);
}

TEST_CASE("wanted_box: a byte before or past the destination is refused") {
  const std::vector<std::uint64_t> shape = {4};
  std::vector<std::int64_t> strides = {8};
  tensor_form form;
  form.shape = shape;
  form.element_bits = 32;
  form.destination_strides = strides;
  const wanted_box wanted = box_of(form, {}).value();
  CHECK(check_destination_size(form, wanted, 28).has_value());
  CHECK(check_destination_size(form, wanted, 27).error().code == errc::memory_exceeded);

  strides[0] = -8;
  const wanted_box backwards = box_of(form, {}).value();
  CHECK(check_destination_size(form, backwards, 28).error().code == errc::memory_exceeded);
  form.destination_offset = 24;
  CHECK(check_destination_size(form, backwards, 28).has_value());
}

TEST_CASE("wanted_box: a box without elements fits at any offset of its destination") {
  const std::vector<std::uint64_t> shape = {4, 8};
  const std::vector<range> box = {{4, 4}, {0, 8}};
  const std::vector<std::int64_t> strides = {64, 4};
  tensor_form form;
  form.shape = shape;
  form.element_bits = 32;
  form.box = box;
  form.destination_offset = 256;
  CHECK(check_destination_size(form, box_of(form, {}).value(), 0).has_value());
  form.destination_strides = strides;
  CHECK(check_destination_size(form, box_of(form, {}).value(), 240).has_value());
}

TEST_CASE("wanted_box: a box without elements of 4 or 6 bits needs no whole bytes") {
  const std::vector<std::uint64_t> shape = {8, 3, 7};
  tensor_form form;
  form.shape = shape;
  for (const std::uint32_t bits : {4U, 6U}) {
    form.element_bits = bits;
    for (const std::vector<range>& box :
         {std::vector<range>{{3, 3}, {0, 3}, {0, 7}}, std::vector<range>{{0, 8}, {1, 1}, {0, 7}},
          std::vector<range>{{1, 2}, {1, 2}, {7, 7}}}) {
      form.box = box;
      const auto wanted = box_of(form, {});
      REQUIRE(wanted.has_value());
      CHECK(wanted->bytes == 0);
      CHECK(wanted->elements() == 0);
    }
  }
  const std::vector<std::uint64_t> empty_shape = {8, 0, 8};
  const std::vector<range> part = {{0, 8}, {0, 0}, {7, 7}};
  form.shape = empty_shape;
  form.box = part;
  CHECK(box_of(form, {}).value().elements() == 0);
}
