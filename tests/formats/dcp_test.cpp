// SPDX-License-Identifier: Apache-2.0
#include "formats/pytorch/dcp.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "dcp_text.hpp"

using namespace ringload;
using namespace ringload::testing;
using namespace ringload::testing::distributed;

TEST_CASE("dcp: values that are no tensors are left out with a note") {
  two_files source;
  source.make();
  source.text =
      metadata(source.tensors, pickled::text("step") + object("BytesStorageMetadata", {}));
  const auto found = source.read();
  REQUIRE(found.has_value());
  REQUIRE(found->notes.size() == 1);
  CHECK(contains(found->notes[0], "the first is 'step'"));
}

TEST_CASE("dcp: a type that is not read is refused, or left out where that is asked for") {
  two_files source;
  source.tensors.push_back({"q", "qint8", {1}, {}});
  CHECK(source.code() == errc::unsupported_feature);
  const auto found = source.make().read(strictness::reference);
  REQUIRE(found.has_value());
  CHECK(found->tensors.size() == 1);
  CHECK(contains(found->notes.at(0), "tensor 'q'"));
}

TEST_CASE("dcp: a pickle of something else is no metadata") {
  two_files source;
  source.text = pickled::pickle(pickled::dict({}));
  CHECK(source.read().error().code == errc::not_a_checkpoint);
  source.text = pickled::pickle(object("Metadata", {}, "os"));
  CHECK(source.read().error().code == errc::not_a_checkpoint);
  source.text = pickled::pickle(object("Metadata", {}));
  CHECK(source.read().error().code == errc::malformed_header);
}

TEST_CASE("dcp: a name that is there twice is refused") {
  two_files source;
  source.tensors.push_back(source.tensors[0]);
  CHECK(source.code() == errc::duplicate_tensor);
}

TEST_CASE("dcp: the metadata is known by its name") {
  CHECK(is_dcp_metadata(".metadata"));
  CHECK(is_dcp_metadata("step-5/.metadata"));
  CHECK_FALSE(is_dcp_metadata("x.metadata"));
}
