// SPDX-License-Identifier: Apache-2.0
#include "conversion.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <map>
#include <ringload/error.hpp>
#include <string>
#include <utility>

namespace tool = ringload::tool;

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

ringload::catalog catalog_of_bytes(std::uint64_t bytes) {
  ringload::catalog made;
  ringload::tensor_info info;
  info.name = "w";
  info.dtype = ringload::dtype::u8;
  info.shape = {bytes};
  info.bytes = bytes;
  made.tensors.push_back(info);
  return made;
}

}  // namespace

TEST_CASE("memory_for: without a limit, a conversion has a window of 192 MiB") {
  const tool::conversion_memory memory = tool::memory_for(std::nullopt);
  CHECK(memory.window_bytes == 192 * mib);
  CHECK(memory.kept_bytes == 96 * mib);
  CHECK(memory.window_bytes_max == std::numeric_limits<std::uint64_t>::max());
  CHECK(tool::memory_for(8192 * mib).window_bytes == 192 * mib);
}

TEST_CASE("memory_for: window, kept memory and slots together fit into what is available") {
  for (const std::uint64_t available : {0 * mib, 16 * mib, 64 * mib, 256 * mib, 512 * mib}) {
    const tool::conversion_memory memory = tool::memory_for(available);
    CAPTURE(available);
    CHECK(memory.window_bytes + memory.kept_bytes + available / 8 <= available);
    CHECK(memory.window_bytes_max + memory.kept_bytes + available / 8 <= available);
  }
  CHECK(tool::memory_for(256 * mib).window_bytes == 100 * mib);
  CHECK(tool::memory_for(256 * mib).kept_bytes == 50 * mib);
}

TEST_CASE("window_for: a large tensor gets a larger window, or the error has both numbers") {
  const tool::conversion_memory memory = tool::memory_for(256 * mib);
  CHECK(tool::window_for(catalog_of_bytes(mib), {}, memory) == 100 * mib);
  CHECK(tool::window_for(catalog_of_bytes(140 * mib), {}, memory) == 144 * mib);
  std::string message;
  try {
    (void)tool::window_for(catalog_of_bytes(200 * mib), {}, memory);
  } catch (const ringload::error& failed) {
    CHECK(failed.code() == ringload::errc::memory_exceeded);
    message = failed.what();
  }
  CHECK(message ==
        "tensor 'w': the conversion needs a window of 213,909,504 bytes for the tensor, but the "
        "268,435,456 bytes of memory that are available leave 157,286,400");
}

TEST_CASE("second_names: a tensor is a second name only if its attributes are the same") {
  ringload::catalog contents = catalog_of_bytes(mib);
  contents.files.push_back({"model.zt", mib, "zt"});
  const auto add = [&](const char* name, ringload::attributes attributes) {
    ringload::tensor_info info = contents.tensors.front();
    info.name = name;
    info.attributes = std::move(attributes);
    contents.tensors.push_back(std::move(info));
  };
  add("tied", {});
  add("scaled", {{"scale", 2}});
  add("scaled_again", {{"scale", 2}});
  add("other_scale", {{"scale", 3}});
  add("tied_again", {});
  const auto found = tool::second_names(contents, {}, {});
  const std::map<std::string, std::string, std::less<>> expected = {
      {"tied", "w"}, {"tied_again", "w"}, {"scaled_again", "scaled"}};
  CHECK(found == expected);
}
