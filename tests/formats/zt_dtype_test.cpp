// SPDX-License-Identifier: Apache-2.0
#include "formats/zt/zt_dtype.hpp"

#include <doctest/doctest.h>

using namespace ringload;

TEST_CASE("zt_dtype: version 1 has short names, version 0.1 has long names") {
  CHECK(zt_dtype("bf16") == dtype::bf16);
  CHECK_FALSE(zt_dtype("bfloat16"));
  CHECK(zt_0_1_dtype("bfloat16") == dtype::bf16);
  CHECK_FALSE(zt_0_1_dtype("bf16"));
  CHECK(zt_dtype_name(dtype::boolean) == "bool");
  CHECK(zt_dtype_name(dtype::f8_e5m2).empty());
}

TEST_CASE("zt_dtype: a type outside the closed list has a stored type and a logical name") {
  const auto element = zt_element_of(dtype::c64);
  REQUIRE(element.has_value());
  CHECK(element->stored == dtype::f32);
  CHECK(element->type == "complex64");
  const auto logical = zt_logical_type("complex64");
  REQUIRE(logical.has_value());
  CHECK(logical->stored == dtype::f32);
  CHECK(logical->logical == dtype::c64);
  CHECK_FALSE(zt_logical_type("q4_0"));
}
