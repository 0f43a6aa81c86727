// SPDX-License-Identifier: Apache-2.0

// The device of each tensor, and the part of the tensor on each device.

#include <doctest/doctest.h>

#include <ringload/selection.hpp>
#include <string>
#include <vector>

#include "request/choose.hpp"

using namespace ringload;

namespace {

catalog layers() {
  catalog made;
  made.files.push_back({"model.safetensors", 1 << 20});
  const auto add = [&](const char* name, std::vector<std::uint64_t> shape) {
    tensor_info info;
    info.name = name;
    info.dtype = dtype::f32;
    info.bytes = 4;
    for (const std::uint64_t each : shape) info.bytes *= each;
    info.shape = std::move(shape);
    made.tensors.push_back(std::move(info));
  };
  add("embed", {100, 4});
  add("norm", {4});
  add("q", {10, 4});
  add("k", {10, 4});
  return made;
}

// "embed@0[100,4] norm@0[4]": name, device and shape of each.
std::string placed(const selection& wanted, std::uint32_t devices) {
  const catalog from = layers();
  const auto which = choose(from, name_index(from), wanted.requests(), "here", devices);
  if (!which) return which.error().where() + ": " + which.error().cause();
  std::string text;
  for (const chosen_tensor& each : *which) {
    text += (text.empty() ? "" : " ") + each.name + "@" + std::to_string(each.device) + "[";
    for (std::size_t d = 0; d < each.shape.size(); ++d) {
      text += (d > 0 ? "," : "") + std::to_string(each.shape[d]);
    }
    text += each.replicated ? "]r" : "]";
  }
  return text;
}

}  // namespace

TEST_CASE("devices: what nothing is said of goes to the first, and names and globs to theirs") {
  CHECK(placed(select(), 2) == "embed@0[100,4] norm@0[4] q@0[10,4] k@0[10,4]");
  CHECK(placed(select().on("q", 1), 2) == "embed@0[100,4] norm@0[4] q@1[10,4] k@0[10,4]");
  CHECK(placed(select().names({"q", "k"}).on("*", 1), 2) == "q@1[10,4] k@1[10,4]");
}

TEST_CASE("devices: the last that matches decides, whatever kind it is") {
  CHECK(placed(select().on("*", 1).on("[qk]", 0), 2) ==
        "embed@1[100,4] norm@1[4] q@0[10,4] k@0[10,4]");
  CHECK(placed(select().shard("*", 0).replicate("*").on("[enk]*", 1), 2) ==
        "embed@1[100,4] norm@1[4] q@0[10,4]r q@1[10,4]r k@1[10,4]");
}

TEST_CASE("devices: a function says a device, or all of them") {
  const auto by_size = [](const tensor_info& t) {
    return t.shape.size() == 1 ? all_devices : t.shape.front() > 50 ? 1U : 0U;
  };
  CHECK(placed(select().on(by_size), 2) ==
        "embed@1[100,4] norm@0[4]r norm@1[4]r q@0[10,4] k@0[10,4]");
}

TEST_CASE("devices: shards are by the ceil rule, the last may be shorter, or empty") {
  const auto shards = [](std::uint32_t devices) {
    return placed(select().names({"q"}).shard("q", 0), devices);
  };
  CHECK(shards(2) == "q@0[5,4] q@1[5,4]");
  CHECK(shards(3) == "q@0[4,4] q@1[4,4] q@2[2,4]");
  CHECK(shards(4) == "q@0[3,4] q@1[3,4] q@2[3,4] q@3[1,4]");
  CHECK(shards(6) == "q@0[2,4] q@1[2,4] q@2[2,4] q@3[2,4] q@4[2,4] q@5[0,4]");
  CHECK(placed(select().names({"q"}).shard("q", 1), 2) == "q@0[10,2] q@1[10,2]");
  // With one device, the shard is the whole tensor, so its digest can be verified.
  CHECK(shards(1) == "q@0[10,4]");
}

TEST_CASE("devices: a shard of what is sliced in another dimension") {
  CHECK(placed(select().names({"q"}).slice("q", 1, 1, 2).shard("q", 0), 2) == "q@0[5,2] q@1[5,2]");
  CHECK(placed(select().names({"q"}).slice("q", 0, 1, 2).shard("q", 0), 2) ==
        "model.safetensors: tensor 'q': two ranges are selected in dimension 0, expected one");
}

TEST_CASE("devices: fused tensors go where their first part goes, with the shards of their parts") {
  const auto fused = [] { return select().names({}).fused("qk", {"q", "k"}, 0); };
  CHECK(placed(fused().on("q", 1), 2) == "qk@1[20,4]");
  CHECK(placed(fused().replicate("*"), 2) == "qk@0[20,4]r qk@1[20,4]r");
  CHECK(placed(fused().shard("*", 0), 3) == "qk@0[8,4]r qk@1[8,4]r qk@2[4,4]r");
}

TEST_CASE("devices: spread evens out the bytes") {
  CHECK(placed(select().spread("*"), 2) == "embed@0[100,4] norm@1[4] q@1[10,4] k@1[10,4]");
  CHECK(placed(select().on("*", 1).spread("norm").spread("k"), 3) ==
        "embed@1[100,4] norm@0[4] q@1[10,4] k@2[10,4]");
}

TEST_CASE("devices: one that is not there is refused, with the tensor") {
  const std::string tensor = "model.safetensors: tensor 'q': ";
  CHECK(placed(select().on("q", 2), 2) == tensor + "device 2 was requested, expected less than 2");
  CHECK(placed(select().on("q", 1), 1) == tensor + "device 1 was requested, expected less than 1");
  CHECK(placed(select().on("q", 9).on("q", 1), 2).starts_with("embed@0"));
}

TEST_CASE("devices: a glob that no tensor fits is refused, unless that is allowed") {
  CHECK(placed(select().on("v", 1), 2) == "here: selection: no tensor matches 'v'");
  CHECK(placed(select().names({"q"}).shard("k", 0), 2) == "here: selection: no tensor matches 'k'");
  CHECK(placed(select().names({"q"}).on("v", 1).allow_missing(), 2) == "q@0[10,4]");
  CHECK(placed(select().shard("norm", 1), 2) ==
        "model.safetensors: tensor 'norm': there is no dimension 1 in its shape [4]");
}

TEST_CASE("devices: chosen() tells of each tensor once and whole") {
  const catalog all = chosen(layers(), select().replicate("*").shard("q", 0).on("k", 7));
  REQUIRE(all.tensors.size() == 4);
  CHECK(all.tensors[2].shape.front() == 10);
}
