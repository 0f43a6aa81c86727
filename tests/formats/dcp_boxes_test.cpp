// SPDX-License-Identifier: Apache-2.0
#include "formats/pytorch/dcp_boxes.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "dcp_text.hpp"

using namespace ringload;
using namespace ringload::testing;
using namespace ringload::testing::distributed;

TEST_CASE("dcp_boxes: boxes cover the tensor once") {
  two_files source;
  SUBCASE("a box is missing") {
    source.tensors[0].boxes.pop_back();
    CHECK(source.code() == errc::missing_tensor);
    CHECK(contains(source.message(), "its chunks cover 6 of its 12 elements"));
  }
  SUBCASE("boxes overlap") {
    source.tensors[0].boxes[1].offsets = {1, 0};
    CHECK(contains(source.message(), "overlaps the chunk at [1, 0]"));
  }
  SUBCASE("boxes of different sizes begin at the same element") {
    source.tensors[0].boxes.push_back({{2, 0}, {1, 3}, "__1_0.distcp", 5, 9});
    CHECK(contains(source.message(), "two chunks of different sizes begin at [2, 0]"));
  }
  SUBCASE("a box extends past the shape") {
    source.tensors[0].shape = {3, 3};
    CHECK(contains(source.message(), "extends past the shape [3, 3]"));
  }
  SUBCASE("a box of another rank") {
    source.tensors[0].shape = {12};
    CHECK(source.code() == errc::malformed_header);
  }
  SUBCASE("a box that is listed twice counts once") {
    source.tensors[0].boxes.push_back(source.tensors[0].boxes[0]);
    CHECK(source.code() == boost::system::error_code());
  }
  SUBCASE("a box without elements needs no item") {
    source.tensors[0].boxes.push_back({{4, 0}, {0, 3}});
    CHECK(source.code() == boost::system::error_code());
  }
}
