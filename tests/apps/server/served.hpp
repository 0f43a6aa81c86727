// SPDX-License-Identifier: Apache-2.0
#pragma once

// A server process with a few checkpoints, and functions that read its responses.

#include <doctest/doctest.h>

#include <boost/json/parse.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "client.hpp"
#include "process.hpp"
#include "support/safetensors_text.hpp"
#include "support/temporary_folder.hpp"

namespace ringload::testing {

inline constexpr std::uint64_t big_bytes = std::uint64_t{1} << 30;

// A sparse file of zeros that ends with "tail".
inline void write_big(const std::filesystem::path& path) {
  const std::string size = std::to_string(big_bytes);
  const std::string head =
      safetensors_text(header_text({tensor_text("big", "U8", size, 0, big_bytes),
                                    tensor_text("tail", "U8", "4", big_bytes, big_bytes + 4)}));
  write_file(path, head);
  std::filesystem::resize_file(path, head.size() + big_bytes);
  std::ofstream(path, std::ios::binary | std::ios::app) << "tail";
}

struct served {
  explicit served(std::vector<std::string> more = {}, std::string program = MODEL_SERVER)
      : server(arguments(in.path(), std::move(more)), (in.path() / "errors").string(),
               std::move(program)) {
    REQUIRE(server.port() != 0);
  }

  static std::vector<std::string> arguments(const std::filesystem::path& root,
                                            std::vector<std::string> more) {
    write_file(root / "one.safetensors", one_tensor_text("a/b", "0123456789"));
    write_file(root / "two.safetensors", one_tensor_text("a/b", "abcdefghij"));
    write_file(root / "bad.safetensors", "no checkpoint at all");
    write_big(root / "big.safetensors");
    more.insert(more.end(), {"--root", root.string(), "--slots", "1", "--slot-bytes", "65536",
                             "--bytes-in-flight", "65536"});
    return more;
  }

  // The last event: the outcome of the load.
  boost::json::value end_of(const std::string& id) const {
    const response events = client(server.port()).get("/models/" + id, "text/event-stream");
    REQUIRE(events.result() == http::status::ok);
    const std::size_t last = events.body().rfind("event: end\ndata: ");
    REQUIRE(last != std::string::npos);
    return boost::json::parse(events.body().substr(last + 17));
  }

  // The text that the server has written to standard error.
  std::string errors() const {
    std::ifstream file(in.path() / "errors");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string metric(const std::string& name) const {
    const std::string text = client(server.port()).get("/metrics").body();
    const std::size_t at = text.find("\n" + name + " ");
    if (at == std::string::npos) return "none";
    const std::size_t value = at + name.size() + 2;
    return text.substr(value, text.find('\n', value) - value);
  }

  temporary_folder in;
  server_process server;
};

inline request post(const std::string& source, const std::string& id) {
  return make_request(http::verb::post, "/models",
                      R"({"source":")" + source + R"(","id":")" + id + "\"}");
}

inline std::string text_in(const boost::json::value& of, const char* field) {
  return of.at(field).as_string().c_str();
}

inline std::string state_of(const response& of) { return text_in(json_of(of), "state"); }

inline bool is_under_way(const response& of) {
  return state_of(of) == "opening" || state_of(of) == "loading";
}

}  // namespace ringload::testing
