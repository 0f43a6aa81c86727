// SPDX-License-Identifier: Apache-2.0
#include "describe.hpp"

#include <doctest/doctest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/dtype.hpp>

using ringload::server::json_text;
namespace json = boost::json;

TEST_CASE("json: numbers are plain decimals") {
  json::object of;
  of["seconds"] = 9.803789772;
  of["whole"] = 2.0;
  of["small"] = 0.000012;
  of["least"] = 1e-9;
  of["less"] = -1e-10;
  of["large"] = 12345678901.5;
  of["infinite"] = std::numeric_limits<double>::infinity();
  of["bytes"] = std::numeric_limits<std::uint64_t>::max();
  CHECK(json_text(of) ==
        "{\"seconds\":9.803789772,\"whole\":2,\"small\":0.000012,\"least\":0.000000001,"
        "\"less\":0,\"large\":12345678901.5,\"infinite\":0,\"bytes\":18446744073709551615}\n");
}

TEST_CASE("json: one line, whatever the values") {
  const json::object of = {{"text", "a\"\\\n\xE2\x82\xAC"},
                           {"list", {1, -2, true, nullptr, json::array{}}},
                           {"in", {{"empty", json::object{}}}}};
  CHECK(json_text(of) ==
        "{\"text\":\"a\\\"\\\\\\u000a\xE2\x82\xAC\",\"list\":[1,-2,true,null,[]],"
        "\"in\":{\"empty\":{}}}\n");
  CHECK(json::parse(json_text(of)) == json::value(of));
  // A path may have any bytes.
  CHECK(json_text({{"source", "a\xFF"}}) == "{\"source\":\"a\xEF\xBF\xBD\"}\n");
}

TEST_CASE("describe: while a model is loaded, a dequantised tensor has its original shape") {
  ringload::tensor_info blocks;
  blocks.name = "q";
  blocks.dtype = ringload::dtype::u8;
  blocks.shape = {36};
  blocks.bytes = blocks.stored_bytes = 36;
  blocks.type = "q4_0";
  blocks.original_shape = {2, 32};
  CHECK(json_text(ringload::server::describe(blocks, ringload::dtype::f32)) ==
        "{\"name\":\"q\",\"dtype\":\"F32\",\"shape\":[2,32],\"bytes\":256}\n");
  CHECK(json_text(ringload::server::describe(blocks, ringload::dtype::bf16)) ==
        "{\"name\":\"q\",\"dtype\":\"BF16\",\"shape\":[2,32],\"bytes\":128}\n");
  CHECK(json_text(ringload::server::describe(blocks, std::nullopt)) ==
        "{\"name\":\"q\",\"dtype\":\"U8\",\"shape\":[36],\"bytes\":36}\n");
}
