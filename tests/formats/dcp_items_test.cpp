// SPDX-License-Identifier: Apache-2.0
#include "formats/pytorch/dcp.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "dcp_text.hpp"

using namespace ringload;
using namespace ringload::testing;
using namespace ringload::testing::distributed;

TEST_CASE("dcp: boxes of several files are one tensor") {
  two_files source;
  const auto found = source.make().read();
  REQUIRE_MESSAGE(found.has_value(), source.message());
  REQUIRE(found->tensors.size() == 1);
  const entry& w = found->tensors.front();
  CHECK(w.name == "w");
  CHECK(w.dtype == dtype::f32);
  CHECK(w.shape == std::vector<std::uint64_t>{4, 3});
  CHECK(w.bytes == 48);
  CHECK(found->external_files == std::vector<std::string>{"__0_0.distcp", "__1_0.distcp"});
  REQUIRE(w.stored != nullptr);
  REQUIRE(w.stored->pieces.size() == 2);
  const std::string* files[] = {&source.first, &source.second};
  for (std::uint32_t i = 0; i < 2; ++i) {
    const piece& part = w.stored->pieces[i];
    CHECK(part.stored.file == i + 1);
    CHECK(part.stored.bytes == 24);
    CHECK(part.origin == std::vector<std::uint64_t>{2 * i, 0});
    CHECK(part.stride_bytes == std::vector<std::uint64_t>{12, 4});
    CHECK(files[i]->substr(part.stored.offset, 24) == std::string(24, "ab"[i]));
  }
}

TEST_CASE("dcp: an item may be a view with strides") {
  two_files source;
  pickled::saved_tensor transposed;
  transposed.stride = {1, 2};
  source.first = item('a', transposed);
  source.tensors[0].boxes[0].bytes = static_cast<std::int64_t>(source.first.size());
  const auto found = source.make().read();
  REQUIRE_MESSAGE(found.has_value(), source.message());
  CHECK(found->tensors.front().stored->pieces[0].stride_bytes == std::vector<std::uint64_t>{4, 8});
}

TEST_CASE("dcp: an item that does not fit the metadata is refused") {
  two_files source;
  dcp_box& second = source.tensors[0].boxes[1];
  SUBCASE("another type") {
    source.tensors[0].type = "int32";
    CHECK(contains(source.message(), "the item is of type F32 and shape [2, 3], expected I32"));
  }
  SUBCASE("another shape") {
    pickled::saved_tensor flat;
    flat.size = {6};
    flat.stride = {1};
    source.second = "12345" + item('b', flat);
    second.bytes = static_cast<std::int64_t>(source.second.size() - 5);
    CHECK(contains(source.message(), "and shape [6], expected F32 and [2, 3]"));
  }
  SUBCASE("a tensor of an unsupported kind") {
    source.second = "12345" + item('b', {.elements = 24, .storage = "QInt8Storage"});
    second.bytes = static_cast<std::int64_t>(source.second.size() - 5);
    CHECK(source.code() == errc::unsupported_feature);
    CHECK(contains(source.message(), "the item at byte 5: it is a quantised tensor"));
  }
  SUBCASE("past the end of its file") {
    second.bytes += 1;
    CHECK(source.code() == errc::extent_outside_file);
    CHECK(contains(source.message(), "tensor 'w': __1_0.distcp: the item at byte 5"));
  }
  SUBCASE("no archive") {
    second.offset = 4;
    CHECK(source.code() == errc::malformed_header);
  }
  SUBCASE("written through an extension") {
    second.more = pickled::text("transform_descriptors") + pickled::list({pickled::text("zstd")});
    CHECK(source.code() == errc::unsupported_feature);
  }
  SUBCASE("outside of the folder") {
    second.file = "../secret";
    CHECK(source.code() == errc::path_outside_source);
  }
}

TEST_CASE(
    "dcp: a tensor with an item of an unsupported kind is left out by the reference profile") {
  pickled::saved_tensor conjugate{.storage = "ComplexFloatStorage",
                                  .metadata = pickled::dict({pickled::text("conj"), "\x88"})};
  const std::string sparse =
      pickled::call(pickled::global("torch._utils", "_rebuild_sparse_tensor"),
                    {pickled::call(pickled::global("torch.serialization", "_get_layout"),
                                   {pickled::text("torch.sparse_coo")}),
                     pickled::tuple({pickled::saved_tensor()(), pickled::saved_tensor()(),
                                     pickled::numbers({2, 3}), "\x89"})});
  two_files source;
  std::string reason;
  SUBCASE("a conjugate view") {
    source.second = "12345" + item('b', conjugate);
    reason = "it is a conjugate or negative view";
  }
  SUBCASE("a sparse tensor") {
    source.second =
        "12345" + pickled::archive(pickled::pickle(sparse), {{"0", std::string(24, 'b')}});
    reason = "the item is a tensor of the layout 'sparse_coo'";
  }
  SUBCASE("no tensor") {
    source.second = "12345" + pickled::archive(pickled::pickle(pickled::text("x")), {});
    reason = "the item holds no tensor: 1 values that are not tensors";
  }
  const auto bytes = static_cast<std::int64_t>(source.second.size() - 5);
  source.tensors[0].boxes[1].bytes = bytes;
  source.tensors.push_back(
      {"v",
       "float32",
       {2, 3},
       {{{0, 0}, {2, 3}, "__0_0.distcp", 0, static_cast<std::int64_t>(source.first.size())}}});
  CHECK(source.code() == errc::unsupported_feature);
  CHECK(contains(source.message(), "tensor 'w': __1_0.distcp: the item at byte 5: " + reason));
  const auto found = source.make().read(strictness::reference);
  REQUIRE_MESSAGE(found.has_value(), message_of(found.error()));
  REQUIRE(found->tensors.size() == 1);
  CHECK(found->tensors[0].name == "v");
  REQUIRE(found->notes.size() == 1);
  CHECK(contains(found->notes[0], "tensor 'w'"));
  CHECK(contains(found->notes[0], "left out: " + reason));
  source.tensors[0].boxes[1].offset = 4;
  CHECK(!source.make().read(strictness::reference).has_value());
}
