// SPDX-License-Identifier: Apache-2.0

// The device of each tensor.

#include "request/choose_devices.hpp"

#include <doctest/doctest.h>

using namespace ringload;

namespace {

catalog catalog_of(const std::vector<std::pair<std::string, std::uint64_t>>& tensors) {
  catalog made;
  made.files.resize(1);
  for (const auto& [name, bytes] : tensors) {
    tensor_info info;
    info.name = name;
    info.bytes = bytes;
    info.shape = {bytes};
    made.tensors.push_back(info);
  }
  return made;
}

const catalog three = catalog_of({{"a", 100}, {"b", 10}, {"c", 10}});

result<std::vector<device_choice>> choose(const selection& wanted, std::uint32_t devices,
                                          const std::function<bool(std::uint32_t)>& is_chosen) {
  return choose_devices(three, wanted.requests(), is_chosen, devices, "model");
}

result<std::vector<device_choice>> choose(const selection& wanted, std::uint32_t devices) {
  return choose(wanted, devices, [](std::uint32_t) { return true; });
}

}  // namespace

TEST_CASE("choose_devices: without a rule every tensor goes to the first device") {
  const auto choice = choose(select(), 2);
  REQUIRE(choice.has_value());
  for (const device_choice& tensor : *choice) CHECK(tensor.device == 0);
}

TEST_CASE("choose_devices: the last rule that matches decides") {
  const auto choice = choose(select().on("*", 1).on("b", 0), 2);
  REQUIRE(choice.has_value());
  CHECK((*choice)[0].device == 1);
  CHECK((*choice)[1].device == 0);
  CHECK((*choice)[2].device == 1);
}

TEST_CASE("choose_devices: spread gives each tensor to the device with the fewest bytes") {
  // 100 bytes are placed on device 0, then 10 and 10 on device 1.
  const auto choice = choose(select().spread("*"), 2);
  REQUIRE(choice.has_value());
  CHECK((*choice)[0].device == 0);
  CHECK((*choice)[1].device == 1);
  CHECK((*choice)[2].device == 1);
}

TEST_CASE("choose_devices: tensors that are not chosen take no part in spreading") {
  const auto choice = choose(select().spread("*"), 2, [](std::uint32_t t) { return t != 0; });
  REQUIRE(choice.has_value());
  CHECK((*choice)[1].device == 0);
  CHECK((*choice)[2].device == 1);
}

TEST_CASE("choose_devices: replicated and sharded tensors go to all devices") {
  const auto choice = choose(select().replicate("a").shard("b", 0), 2);
  REQUIRE(choice.has_value());
  CHECK((*choice)[0].on_all_devices);
  CHECK_FALSE((*choice)[0].dim.has_value());
  CHECK((*choice)[1].on_all_devices);
  CHECK((*choice)[1].dim == 0);
  CHECK_FALSE((*choice)[2].on_all_devices);
}

TEST_CASE("choose_devices: on one device a shard is the whole tensor") {
  const auto choice = choose(select().shard("b", 0), 1);
  REQUIRE(choice.has_value());
  CHECK_FALSE((*choice)[1].dim.has_value());
}

TEST_CASE("choose_devices: a device that the loader does not have is an error with the tensor") {
  CHECK(choose(select().on("*", 1), 2).has_value());
  const auto choice = choose(select().on("*", 2), 2);
  REQUIRE_FALSE(choice.has_value());
  CHECK(choice.error().code == errc::invalid_selection);
  CHECK(choice.error().where().find("'a'") != std::string::npos);
}

TEST_CASE("choose_devices: a rule that matches nothing is an error, unless missing is allowed") {
  const auto refused = choose(select().on("none*", 0), 2);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == errc::no_such_tensor);
  CHECK(choose(select().on("none*", 0).allow_missing(), 2).has_value());
  const auto on_second = [](const tensor_info&) { return 1U; };
  const auto none_chosen = [](std::uint32_t) { return false; };
  const auto after_a_function = choose(select().on(on_second).on("none*", 0), 2, none_chosen);
  CHECK_FALSE(after_a_function.has_value());
}
