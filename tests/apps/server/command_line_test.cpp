// SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"

#include <doctest/doctest.h>

#include <string>
#include <variant>
#include <vector>

#include "run_program.hpp"

using namespace ringload::server;
using ringload::tool::usage_error;

namespace {

std::variant<settings, std::string> parsed(std::vector<const char*> words) {
  words.insert(words.begin(), {"model-server", "--root", "."});
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

settings parsed_settings(const std::vector<const char*>& words) {
  return std::get<settings>(parsed(words));
}

std::string complaint(const std::vector<const char*>& words) {
  try {
    parsed(words);
  } catch (const usage_error& wrong) {
    return wrong.what();
  }
  return "";
}

}  // namespace

TEST_CASE("server's command line: what is not said is as the library has it") {
  const settings by_default = parsed_settings({});
  const ringload::loader_options usual;
  CHECK(by_default.device == "host");
  CHECK_FALSE(by_default.dtype.has_value());
  CHECK(by_default.options.slots == usual.slots);
  CHECK(by_default.options.slot_bytes == usual.slot_bytes);
  CHECK(by_default.options.arena_bytes_max == usual.arena_bytes_max);
  CHECK(by_default.options.engine == usual.engine);
}

TEST_CASE("server's command line: a size means what it means to the tool") {
  const auto slot_bytes = [](const char* text) {
    return parsed_settings({"--slot-bytes", text}).options.slot_bytes;
  };
  CHECK(slot_bytes("65536") == 65'536);
  CHECK(slot_bytes("4M") == 4'194'304);
  CHECK(slot_bytes("4MB") == 4'000'000);
  const settings of = parsed_settings(
      {"--model-bytes-max", "1.5G", "--cached-bytes", "2GB", "--bytes-in-flight", "0.5MiB"});
  CHECK(of.options.arena_bytes_max == 1'610'612'736);
  CHECK(of.options.cached_bytes == 2'000'000'000);
  CHECK(of.options.bytes_in_flight == 524'288);
  CHECK(complaint({"--cached-bytes", "1 G"})
            .starts_with("--cached-bytes: '1 G' is invalid, expected a size"));
}

TEST_CASE("server's command line: how to load arrives") {
  const settings of =
      parsed_settings({"--device", "cuda:2", "--dtype", "bf16", "--engine", "threads", "--slots",
                       "3", "--copy-threads", "5", "--reader-threads", "7"});
  CHECK(of.device == "cuda:2");
  CHECK(of.dtype == ringload::dtype::bf16);
  CHECK(of.options.engine == ringload::read_engine::threads);
  CHECK(of.options.slots == 3);
  CHECK(of.options.copy_threads == 5);
  CHECK(of.options.reader_threads == 7);
  CHECK(complaint({"--device", "gpu"}).starts_with("--device: "));
  CHECK(complaint({"--dtype", "i8"}).starts_with("--dtype: "));
  CHECK(complaint({"--engine", "uring"}).starts_with("--engine: "));
}

TEST_CASE("server's command line: a model without an id is called main") {
  const settings of = parsed_settings({"--model", "a", "--model", "x=b/c=d"});
  REQUIRE(of.preload.size() == 2);
  CHECK(of.preload[0] == std::pair<std::string, std::string>("main", "a"));
  CHECK(of.preload[1] == std::pair<std::string, std::string>("x", "b/c=d"));
  CHECK(complaint({"--model", "a/b=c"}) == "--model: 'a/b' is not a valid id");
}

TEST_CASE("server's command line: no two models have one id") {
  CHECK(complaint({"--model", "a", "--model", "b"}) ==
        "--model: 'a' and 'b' have the same id, 'main': write ID=SOURCE");
  CHECK(complaint({"--model", "x=a", "--model", "x=a"}) ==
        "--model: 'a' and 'a' have the same id, 'x': write ID=SOURCE");
}

TEST_CASE("server's command line: more models than there is room for name the limit") {
  const std::vector<const char*> three = {"--model", "a=a", "--model", "b=b", "--model", "c=c"};
  const auto with = [&three](std::vector<const char*> more) {
    more.insert(more.end(), three.begin(), three.end());
    return complaint(more);
  };
  CHECK(with({"--loads-max", "3"}).empty());
  CHECK(with({"--loads-max", "2"}) == "--model: more models than --loads-max");
  CHECK(with({"--loads-max", "3", "--models-max", "2"}) ==
        "--model: more models than --models-max");
}

TEST_CASE("server's command line: help has the library's own defaults") {
  const std::string text = std::get<std::string>(parsed({"--help"}));
  const ringload::loader_options usual;
  CHECK(text.find("for each GPU up to 128). Default: " + std::to_string(usual.slots)) !=
        std::string::npos);
  CHECK(text.find("SIZE is a number of bytes") != std::string::npos);
}

TEST_CASE("server's command line: an address is one") {
  CHECK(parsed_settings({"--address", "::1"}).address == "::1");
  CHECK(complaint({"--address", "localhost"}) == "--address: 'localhost' is not an IP address");
}
