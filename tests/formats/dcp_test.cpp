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

TEST_CASE("dcp: a shared list of chunks counts for each tensor, and more for a long name") {
  const std::string chunk = object("ChunkStorageMetadata", {pickled::text("offsets"), size({0}),
                                                            pickled::text("sizes"), size({0})});
  std::string chunks = "](" + chunk + "q\x20";
  for (std::uint64_t i = 1; i < dcp_visits_max / 100; ++i) chunks += "h\x20";
  const std::string description =
      object("TensorStorageMetadata",
             {pickled::text("properties"), properties("float32"), pickled::text("size"), size({0}),
              pickled::text("chunks"), chunks + "e"}) +
      "q\x21";
  two_files source;
  source.make();
  const std::string name(10'000, 'e');  // Each chunk of this tensor counts 40 times.
  std::string state = pickled::text(name + "1") + description + pickled::text(name + "2") + "h\x21";
  source.text = metadata(source.tensors, state);
  const auto found = source.read();
  REQUIRE_MESSAGE(found.has_value(), message_of(found.error()));
  CHECK(found->tensors.size() == 3);
  state += pickled::text(name + "3") + "h\x21";
  source.text = metadata(source.tensors, state);
  const auto refused = source.read();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == errc::header_too_large);
  CHECK(contains(message_of(refused.error()), "repeats its chunks too often"));
}

TEST_CASE("dcp: an object with more than 64 attributes is refused") {
  std::string attributes = "}(" + pickled::text("state_dict_metadata") + "}";
  for (int i = 0; i < 63; ++i) attributes += pickled::text(std::to_string(i)) + "N";
  const auto message = [&](const std::string& more) {
    two_files source;
    source.text = pickled::pickle(pickled::global(metadata_module, "Metadata") + ")\x81" +
                                  attributes + more + "ub");
    return message_of(source.read().error());
  };
  CHECK(contains(message(""), "has no 'storage_data'"));
  CHECK(contains(message(pickled::text("storage_data") + "}"), "more than 64 attributes"));
}

TEST_CASE("dcp: the shapes of very many tensors count as descriptions") {
  dcp_dims shape(64, 1);
  shape[0] = 0;
  std::string state = pickled::text("first") + described({"", "float32", shape, {}}) + "q\x20";
  for (int i = 0; i < 30'000; ++i) state += pickled::text(std::to_string(i)) + "h\x20";
  two_files source;
  source.make();
  source.text = metadata(source.tensors, state);
  const auto refused = source.read();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == errc::header_too_large);
  CHECK(contains(message_of(refused.error()), "than strict reading allows"));
  CHECK(source.read(strictness::reference).has_value());
}

TEST_CASE("dcp: the metadata is known by its name") {
  CHECK(is_dcp_metadata(".metadata"));
  CHECK(is_dcp_metadata("step-5/.metadata"));
  CHECK_FALSE(is_dcp_metadata("x.metadata"));
}
