// SPDX-License-Identifier: Apache-2.0

// Descriptions that a keeper sends to a client, unchanged and damaged.

#include "keeper/description.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <functional>
#include <ringload/error.hpp>
#include <string>
#include <vector>

#include "keeper/messages.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;
using namespace ringload::detail;

namespace {

kept_description sample_description() {
  kept_description all;
  all.contents.files = {{"a.safetensors", 5000, "safetensors", 408}};
  tensor_info weight;
  weight.name = "weight";
  weight.dtype = dtype::bf16;
  weight.shape = {4, 6};
  weight.offset = 128;
  weight.bytes = weight.stored_bytes = 48;
  weight.attributes = {{"axis", "1"}};
  tensor_info blocks;
  blocks.name = "blocks";
  blocks.shape = {36};
  blocks.bytes = blocks.stored_bytes = 36;
  blocks.type = "q4_0";
  blocks.original_shape = {2, 32};
  all.contents.tensors = {weight, blocks};
  all.contents.composites = {{"group", "group", "", {2}, {"values"}, 0, {}}};
  all.contents.unreadable = {
      {"u", 0, errc::unsupported_feature, "a.safetensors: u", "a cause", true},
      {"s", 0, system_code(EIO), "a.safetensors: s", "another cause", false}};
  all.contents.metadata = {{"format", "pt"}};
  all.contents.notes = {"a note"};
  const auto q4_0 = element_kind::blocks;
  all.tensors = {{0, 64, {element_kind::bf16, element_kind::f32}},
                 {1, 0, {q4_0, element_kind::f16}}};
  return all;
}

const std::vector<std::uint64_t> sample_regions = {64 + 96, 128};

std::string refusal_of(const kept_description& all,
                       const std::vector<std::uint64_t>& regions = sample_regions) {
  const auto found = unpack_description(pack(all), regions);
  if (found) return "accepted";
  CHECK(found.error().code == errc::malformed_message);
  return message_of(found.error());
}

std::string refusal_after(const std::function<void(kept_description&)>& change) {
  kept_description all = sample_description();
  change(all);
  return refusal_of(all);
}

}  // namespace

TEST_CASE("keeper: a description arrives as it was sent") {
  const auto found = unpack_description(pack(sample_description()), sample_regions);
  REQUIRE(found.has_value());
  const catalog& what = found->contents;
  REQUIRE(what.tensors.size() == 2);
  CHECK(what.files[0].path == "a.safetensors");
  CHECK(what.files[0].bytes == 5000);
  CHECK(what.files[0].header_bytes == 408);
  REQUIRE(what.unreadable.size() == 2);
  CHECK(what.unreadable[0].name == "u");
  CHECK(what.unreadable[0].file == 0);
  CHECK(what.unreadable[0].code == errc::unsupported_feature);
  CHECK(what.unreadable[0].place == "a.safetensors: u");
  CHECK(what.unreadable[0].reason == "a cause");
  CHECK(what.unreadable[0].is_left_out);
  CHECK(what.unreadable[1].code == system_code(EIO));
  CHECK_FALSE(what.unreadable[1].is_left_out);
  CHECK(what.tensors[0].name == "weight");
  CHECK(what.tensors[0].dtype == dtype::bf16);
  CHECK(what.tensors[0].shape == std::vector<std::uint64_t>{4, 6});
  CHECK(what.tensors[0].offset == 128);
  CHECK(what.tensors[0].attributes == attributes{{"axis", "1"}});
  CHECK(what.tensors[1].original_shape == std::vector<std::uint64_t>{2, 32});
  CHECK(what.composites[0].parts == std::vector<std::string>{"values"});
  CHECK(what.metadata[0].second == "pt");
  CHECK(what.notes[0] == "a note");
  CHECK(found->tensors[0].offset == 64);
  CHECK(found->tensors[0].cast == conversion{element_kind::bf16, element_kind::f32});
}

TEST_CASE("keeper: a description that is cut off anywhere is refused, and may lie in a page") {
  std::vector<std::byte> whole = pack(sample_description());
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    CHECK_FALSE(unpack_description(std::span(whole).first(bytes), sample_regions).has_value());
  }
  whole.push_back(std::byte{0});
  CHECK(unpack_description(whole, sample_regions).has_value());
}

TEST_CASE("keeper: with any one byte changed, tensors still lie in their memory or are refused") {
  const std::vector<std::byte> whole = pack(sample_description());
  unsigned accepted = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const unsigned change : {0x01U, 0x80U, 0xFFU}) {
      std::vector<std::byte> damaged = whole;
      damaged[at] ^= std::byte(change);
      const auto found = unpack_description(damaged, sample_regions);
      if (!found) continue;
      ++accepted;
      for (const kept_tensor& each : found->tensors) {
        REQUIRE(each.region < sample_regions.size());
        CHECK(each.offset <= sample_regions[each.region]);
      }
    }
  }
  CHECK(accepted > 0);  // Damaged letters of names are accepted.
}

TEST_CASE("keeper: memory that ends with the last tensor is enough, and a byte less is not") {
  CHECK(refusal_of(sample_description(), {160, 128}) == "accepted");
  CHECK(holds(refusal_of(sample_description(), {159, 128}), "ends past the 159 bytes"));
  CHECK(holds(refusal_of(sample_description(), {160}), "its memory region was not received"));
}

TEST_CASE("keeper: an empty tensor may have dimensions whose product has more than 64 bits") {
  CHECK(refusal_after([](kept_description& all) {
          tensor_info& empty = all.contents.tensors[0];
          empty.shape = {std::uint64_t{1} << 62, 4, 0};
          empty.bytes = 0;
        }) == "accepted");
}

TEST_CASE("keeper: a description that contradicts itself says which tensor does") {
  const auto sizes = "its type, shape and size are inconsistent";
  const auto of_weight = [&](const auto& change) {
    return refusal_after([&](kept_description& all) { change(all.contents.tensors[0]); });
  };
  CHECK(refusal_after([](kept_description&) {}) == "accepted");
  CHECK(holds(of_weight([](tensor_info& t) { t.bytes = 50; }), sizes));
  CHECK(holds(of_weight([](tensor_info& t) { t.shape = {~0ULL, ~0ULL}; }), sizes));
  CHECK(holds(of_weight([](tensor_info& t) { t.dtype = dtype::f64; }), sizes));
  CHECK(holds(of_weight([](tensor_info& t) { t.dtype = dtype::f16; }), sizes));
  CHECK(holds(of_weight([](tensor_info& t) { t.name = "\xFF"; }), "its name is not UTF-8"));
  CHECK(holds(of_weight([](tensor_info& t) { t.file = 1; }), "its file is not listed"));
  CHECK(holds(of_weight([](tensor_info& t) { t.name = "blocks"; }), "duplicate tensor name"));
  CHECK(holds(refusal_after([](kept_description& all) { all.tensors[0].offset = 62; }),
              "tensor 'weight'"));
  CHECK(holds(refusal_after([](kept_description& all) { all.tensors[0].offset = ~0ULL; }),
              "ends past the 160 bytes"));
  // Blocks that are not converted: the client would use `original_shape` as the shape.
  CHECK(holds(refusal_after([](kept_description& all) {
                all.tensors[1].cast.to = all.tensors[1].cast.from;
                all.contents.tensors[1].original_shape = {std::uint64_t{1} << 40};
              }),
              sizes));
  CHECK(holds(refusal_after(
                  [](kept_description& all) { all.tensors[1].cast.to = all.tensors[1].cast.from; }),
              sizes));
  CHECK(refusal_after([](kept_description& all) { all.tensors[1].cast = {}; }) == "accepted");
  CHECK(holds(refusal_after(
                  [](kept_description& all) { all.contents.tensors[1].original_shape = {2, 64}; }),
              sizes));
  CHECK(holds(refusal_after([](kept_description& all) { all.tensors.pop_back(); }),
              "there are 1 tensor placements, expected 2"));
  CHECK(holds(refusal_after([](kept_description& all) { all.contents.composites[0].file = 7; }),
              "its file is not listed"));
  CHECK(holds(refusal_after([](kept_description& all) { all.contents.unreadable[1].file = 1; }),
              "s: its file is not listed"));
}

TEST_CASE("keeper: requests and replies arrive as they were sent, and nothing else is one") {
  const auto request = pack(keep_request{"a model", keep_action::attach_next, {5, 6}});
  CHECK(unpack_request(request)->name == "a model");
  CHECK(unpack_request(request)->action == keep_action::attach_next);
  CHECK(unpack_request(request)->current == kept_version{5, 6});
  CHECK_FALSE(unpack_request(pack(keep_request{"m", static_cast<keep_action>(9)})).has_value());
  CHECK(request.size() <= packet_bytes_max);
  CHECK(pack(keep_request{std::string(name_bytes_max, 'x')}).size() <= packet_bytes_max);
  CHECK_FALSE(unpack_request(pack(keep_request{std::string(name_bytes_max + 1, 'x')})).has_value());

  const auto reply = pack(keep_reply{keep_answer::attached, {7, 3}, 2});
  CHECK(unpack_reply(reply)->version == kept_version{7, 3});
  CHECK(unpack_reply(reply)->host_regions == 2);
  CHECK_FALSE(
      unpack_reply(pack(keep_reply{keep_answer::attached, {7, 3}, descriptors_max})).has_value());
  CHECK_FALSE(unpack_reply(pack(keep_reply{static_cast<keep_answer>(9), {7, 3}, 2})).has_value());
  CHECK_FALSE(unpack_request(reply).has_value());
  CHECK_FALSE(unpack_reply(request).has_value());
  CHECK_FALSE(unpack_request({}).has_value());
  CHECK_FALSE(unpack_reply(std::span(reply).first(reply.size() - 1)).has_value());
}
