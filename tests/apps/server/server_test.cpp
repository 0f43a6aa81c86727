// SPDX-License-Identifier: Apache-2.0

// The server as a process, with real sockets. A request that must arrive during a load is sent in
// one write with the request that starts the load. Loading a gigabyte through one small slot takes
// longer than the next few responses on any machine. No test uses a clock.

#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <ringload/delta.hpp>
#include <ringload/error.hpp>
#include <ringload/keeper.hpp>
#include <ringload/loader.hpp>
#include <string_view>
#include <thread>
#include <tuple>

#include "client.hpp"
#include "served.hpp"
#include "support/safetensors_text.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload::testing;
namespace fs = std::filesystem;

namespace {

// Field 19 of proc(5)'s stat; field 2 is the name, in parentheses.
int niceness(const fs::path& stat) {
  std::ifstream file(stat);
  std::string field;
  std::getline(file, field, ')');
  for (int i = 3; i <= 19; ++i) file >> field;
  return std::stoi(field);
}

}  // namespace

TEST_CASE("server: answers while it loads, and cancels on request") {
  const served with;
  const auto answers =
      client(with.server.port())
          .ask_all({post("big.safetensors", "a"), make_request(http::verb::get, "/models/a"),
                    make_request(http::verb::get, "/health"),
                    make_request(http::verb::delete_, "/models/a")});
  CHECK(answers[0].result() == http::status::accepted);
  CHECK(answers[0][http::field::location] == "/models/a");
  CHECK(is_under_way(answers[1]));
  CHECK(answers[2].body() == "{\"status\":\"ok\"}\n");
  CHECK(answers[3].result() == http::status::accepted);
  CHECK(state_of(answers[3]) == "cancelling");

  client poll(with.server.port());
  while (poll.get("/models/a").result() != http::status::not_found) {
  }
  CHECK(with.metric("model_server_loads_total{result=\"cancelled\"}") == "1");
  CHECK(with.metric("model_server_loads_total{result=\"ready\"}") == "0");
}

TEST_CASE("server: loads run at the given niceness") {
  for (const int more : {0, 7}) {
    const served with({"--load-nice", std::to_string(more)});
    const std::string pid = std::to_string(with.server.pid());
    std::vector<int> loading;
    for (const auto& thread : fs::directory_iterator("/proc/" + pid + "/task")) {
      const int nice = niceness(thread.path() / "stat");
      if (thread.path().filename() == pid) {
        CHECK(nice == niceness("/proc/self/stat"));
      } else {
        loading.push_back(nice);
      }
    }
    CHECK(loading.size() > 1);
    for (const int nice : loading) CHECK(nice == std::min(19, niceness("/proc/self/stat") + more));
  }
}

TEST_CASE("server: serves the old model until the new one is ready, and skips superseded loads") {
  const served with;
  client one(with.server.port());
  CHECK(one.ask(post("one.safetensors", "m")).result() == http::status::accepted);
  CHECK(text_in(with.end_of("m"), "state") == "ready");

  request bytes = make_request(http::verb::get, "/models/m/tensors/a%2Fb");
  bytes.set(http::field::accept, "application/octet-stream");
  const auto answers =
      one.ask_all({post("big.safetensors", "m"), make_request(http::verb::get, "/models/m"), bytes,
                   post("two.safetensors", "m")});
  CHECK(is_under_way(answers[1]));
  CHECK(text_in(json_of(answers[1]), "serving") == (with.in.path() / "one.safetensors").string());
  CHECK(answers[2].body() == "0123456789");
  CHECK(state_of(answers[3]) == "cancelling");

  // Each event stream ends with the load that is in progress.
  boost::json::value end = with.end_of("m");
  while (text_in(end, "source") != (with.in.path() / "two.safetensors").string())
    end = with.end_of("m");
  CHECK(text_in(end, "state") == "ready");
  CHECK(one.ask(bytes).body() == "abcdefghij");
  CHECK(with.metric("model_server_loads_total{result=\"cancelled\"}") == "1");
  CHECK(with.metric("model_server_loads_total{result=\"ready\"}") == "2");
}

TEST_CASE("server: reuses the memory of a model for the next, if configured") {
  for (const bool keeps : {false, true}) {
    const served with({"--cached-bytes", keeps ? "16M" : "0"});
    write_file(with.in.path() / "large.safetensors",
               one_tensor_text("a", std::string(std::size_t{4} << 20, 'x')));
    client one(with.server.port());
    for (const bool again : {false, true}) {
      CHECK(one.ask(post("large.safetensors", "m")).result() == http::status::accepted);
      const boost::json::value end = with.end_of("m");
      CHECK(text_in(end, "state") == "ready");
      CHECK(end.at("memory_kept").as_bool() == (keeps && again));
      CHECK(one.ask(make_request(http::verb::delete_, "/models/m")).result() ==
            http::status::no_content);
    }
    CHECK(with.metric("ringload_bytes_in_flight") == "65536");
  }
}

TEST_CASE("server: sends a tensor before the rest is loaded") {
  const served with;
  client one(with.server.port());
  CHECK(one.ask(post("big.safetensors", "a")).result() == http::status::accepted);
  while (state_of(one.get("/models/a")) == "opening") {
  }
  CHECK(one.get("/models/a/tensors/tail", "application/octet-stream").body() == "tail");
  CHECK(json_of(one.get("/models/a/tensors/big")).at("bytes") == big_bytes);
}

TEST_CASE("server: ranges, heads and lists") {
  const served with({"--model", "one.safetensors"});
  client one(with.server.port());
  CHECK(with.end_of("main").at("tensors") == 1);

  request bytes = make_request(http::verb::get, "/models/main/tensors/a/b");
  bytes.set(http::field::accept, "application/octet-stream");
  CHECK(one.ask(bytes).body() == "0123456789");
  bytes.set(http::field::range, "bytes=3-5");
  const response part = one.ask(bytes);
  CHECK(part.result() == http::status::partial_content);
  CHECK(part[http::field::content_range] == "bytes 3-5/10");
  CHECK(part.body() == "345");
  bytes.set(http::field::range, "bytes=10-");
  CHECK(one.ask(bytes).result() == http::status::range_not_satisfiable);
  bytes.method(http::verb::head);
  for (const char* ignored : {"bytes=3-5", "bytes=10-"}) {
    bytes.set(http::field::range, ignored);
    const response head = one.ask(bytes);
    CHECK(head.result() == http::status::ok);
    CHECK(head[http::field::content_length] == "10");
  }
  bytes.erase(http::field::range);
  CHECK(one.ask(bytes)[http::field::content_length] == "10");

  const auto list = json_of(one.get("/models/main/tensors"));
  CHECK(list.at("total") == 1);
  CHECK(text_in(list.at("tensors").at(0), "name") == "a/b");
  CHECK(json_of(one.get("/models/main/tensors?offset=1")).at("tensors").as_array().empty());
  CHECK(json_of(one.get("/models/main/tensors?limit=0")).at("tensors").as_array().empty());
  CHECK(json_of(one.get("/models")).at("models").as_array().size() == 1);
  CHECK(one.get("/")[http::field::content_type] == "text/html; charset=utf-8");
  CHECK(one.ask(make_request(http::verb::delete_, "/models/main")).result() ==
        http::status::no_content);
  CHECK(one.get("/models/main").result() == http::status::not_found);
}

TEST_CASE("server: a load that fails says why, and leaves what is served") {
  const served with({"--model", "m=one.safetensors"});
  client one(with.server.port());
  CHECK(text_in(with.end_of("m"), "state") == "ready");
  one.ask(post("bad.safetensors", "m"));
  const auto end = with.end_of("m");
  CHECK(text_in(end, "state") == "failed");
  CHECK(text_in(end, "error").find("bad.safetensors") != std::string::npos);
  CHECK(one.get("/models/m/tensors/a/b", "application/octet-stream").body() == "0123456789");
}

TEST_CASE("server: says which of its first models failed, and goes on") {
  const served with({"--model", "good=one.safetensors", "--model", "bad.safetensors"});
  client one(with.server.port());
  CHECK(text_in(with.end_of("main"), "state") == "failed");
  CHECK(text_in(with.end_of("good"), "state") == "ready");
  const std::string said = with.errors();
  CHECK(said.starts_with("model-server: error: main: " + (with.in.path() / "bad").string()));
  CHECK(std::ranges::count(said, '\n') == 1);
  CHECK(one.get("/models/good/tensors/a/b", "application/octet-stream").body() == "0123456789");
}

TEST_CASE("server: limits the number of concurrent loads") {
  const served with({"--loads-max", "1"});
  client one(with.server.port());
  const auto answers = one.ask_all({post("big.safetensors", "a"), post("one.safetensors", "b"),
                                    make_request(http::verb::get, "/models/b"),
                                    make_request(http::verb::delete_, "/models/a")});
  CHECK(answers[0].result() == http::status::accepted);
  CHECK(answers[1].result() == http::status::service_unavailable);
  CHECK(answers[1][http::field::retry_after] == "1");
  CHECK(text_in(json_of(answers[1]), "error") == "the limit of loads at once is reached");
  CHECK(answers[2].result() == http::status::not_found);

  // When memory is free, the load starts.
  response again = one.ask(post("one.safetensors", "b"));
  while (again.result() != http::status::accepted) again = one.ask(post("one.safetensors", "b"));
  CHECK(text_in(with.end_of("b"), "state") == "ready");
}

TEST_CASE("server: refuses a model larger than the limit") {
  const served with({"--model-bytes-max", "1M"});
  client one(with.server.port());
  CHECK(one.ask(post("big.safetensors", "a")).result() == http::status::accepted);
  const auto end = with.end_of("a");
  CHECK(text_in(end, "state") == "failed");
  CHECK(end.at("bytes") == 0);
  CHECK(one.ask(post("one.safetensors", "b")).result() == http::status::accepted);
  CHECK(text_in(with.end_of("b"), "state") == "ready");
}

TEST_CASE("server: converts tensors, and describes what it sends") {
  const served with({"--dtype", "f32"});
  // 1.5 and -2 as BF16, the low byte first.
  const std::string_view halves("\xC0\x3F\x00\xC0", 4);
  write_file(with.in.path() / "half.safetensors",
             safetensors_text(header_text({tensor_text("a", "BF16", "2", 0, 4)}), halves));
  client one(with.server.port());
  CHECK(one.ask(post("half.safetensors", "m")).result() == http::status::accepted);
  CHECK(text_in(with.end_of("m"), "state") == "ready");

  const response bytes = one.get("/models/m/tensors/a", "application/octet-stream");
  CHECK(bytes["X-Tensor-Dtype"] == "F32");
  CHECK(bytes.body() == std::string_view("\x00\x00\xC0\x3F\x00\x00\x00\xC0", 8));
  const auto alone = json_of(one.get("/models/m/tensors/a"));
  CHECK(text_in(alone, "dtype") == "F32");
  CHECK(alone.at("bytes") == 8);
  CHECK(json_of(one.get("/models/m/tensors")).at("tensors").at(0) == alone);
}

TEST_CASE("server: loads a part of a checkpoint") {
  const served with;
  write_file(with.in.path() / "parts.safetensors",
             safetensors_text(header_text({tensor_text("w", "U8", "4,2", 0, 8),
                                           tensor_text("x", "U8", "2", 8, 10)}),
                              "abcdefghij"));
  client one(with.server.port());
  const auto load = [&](const std::string& parts) {
    const response begun = one.ask(make_request(
        http::verb::post, "/models", R"({"source":"parts.safetensors","id":"m",)" + parts + "}"));
    CHECK(begun.result() == http::status::accepted);
    return with.end_of("m");
  };
  const auto bytes = [&one](const char* name) {
    return one.get(std::string("/models/m/tensors/") + name, "application/octet-stream").body();
  };
  CHECK(load(R"("select":["w"])").at("tensors_total") == 1);
  CHECK(bytes("w") == "abcdefgh");
  CHECK(one.get("/models/m/tensors/x").result() == http::status::not_found);
  CHECK(text_in(load(R"("shard":["w:0"],"rank":"2/3")"), "state") == "ready");
  CHECK(bytes("w").empty());  // Blocks of 2, 2 and 0 rows.
  CHECK(bytes("x") == "ij");
  CHECK(text_in(load(R"("shard":["w:1"],"rank":"1/2")"), "state") == "ready");
  CHECK(bytes("w") == "bdfh");
  CHECK(json_of(one.get("/models/m/tensors/w")).at("shape") == boost::json::array{4, 1});
  CHECK(text_in(load(R"("slice":["w[1:3]"])"), "state") == "ready");
  CHECK(bytes("w") == "cdef");

  const auto failed = load(R"("slice":["w[9]"])");
  CHECK(text_in(failed, "state") == "failed");
  CHECK(text_in(failed, "error").find("slice 'w[9]'") != std::string::npos);
  CHECK(bytes("w") == "cdef");
}

TEST_CASE("server: sends tensors that lie in a GPU") {
  const served with({"--device", "cuda:1"}, MODEL_SERVER_ON_FAKE);
  // More than two pieces, the last one odd.
  std::string text((std::size_t{2} << 20) + 777, '\0');
  std::ranges::generate(text, [n = 0U]() mutable { return static_cast<char>(n += 7919); });
  write_file(with.in.path() / "text.safetensors", one_tensor_text("t", text));
  client one(with.server.port());
  CHECK(one.ask(post("text.safetensors", "m")).result() == http::status::accepted);
  CHECK(text_in(with.end_of("m"), "state") == "ready");

  request bytes = make_request(http::verb::get, "/models/m/tensors/t");
  bytes.set(http::field::accept, "application/octet-stream");
  CHECK((one.ask(bytes).body() == text));
  bytes.set(http::field::range, "bytes=1000-2000000");
  CHECK((one.ask(bytes).body() == text.substr(1000, 1'999'001)));
}

TEST_CASE("server: shuts down gracefully in the middle of a load, with clients connected") {
  for (const int signal : {SIGTERM, SIGINT}) {
    served with;
    client one(with.server.port());
    client idle(with.server.port());
    CHECK(one.ask(post("big.safetensors", "a")).result() == http::status::accepted);
    with.server.signal(signal);
    CHECK(with.server.exit_code() == 0);
  }
}

TEST_CASE("server: saves a model where that is allowed, and nowhere without an option") {
  const temporary_folder target;
  const auto save = [](const served& at, const std::string& id, const std::string& body) {
    const request what = make_request(http::verb::post, "/models/" + id + "/save", body);
    return client(at.server.port()).ask(what);
  };
  {
    const served closed({"--model", "one.safetensors"});
    CHECK(save(closed, "main", R"({"path":"x.zt"})").result() == http::status::forbidden);
  }
  const served open({"--model", "one.safetensors", "--save-root", target.path().string()});
  open.end_of("main");
  const response done = save(open, "main", R"({"path":"x.zt","zstd":3,"digest":"crc32c"})");
  CHECK(done.result() == http::status::created);
  CHECK(json_of(done).at("bytes").to_number<std::uint64_t>() ==
        fs::file_size(target.path() / "x.zt"));
  CHECK(save(open, "main", R"({"path":"x.zt"})").result() == http::status::conflict);
  CHECK(save(open, "main", R"({"path":"x.safetensors"})").result() == http::status::created);
  CHECK(save(open, "main", R"({"path":"../y.zt"})").result() == http::status::forbidden);
  CHECK(save(open, "nobody", R"({"path":"y.zt"})").result() == http::status::not_found);
  CHECK(save(open, "main", R"({"path":5})").result() == http::status::bad_request);
  CHECK(save(open, "main", R"({"path":"x.bin"})").result() == http::status::bad_request);
  CHECK(save(open, "main", R"({"path":")" + std::string(252, 'n') + ".zt\"}").result() ==
        http::status::created);
  CHECK(save(open, "main", R"({"path":")" + std::string(297, 'n') + ".zt\"}").result() ==
        http::status::bad_request);
  CHECK(client(open.server.port()).get("/models/main/save").result() ==
        http::status::method_not_allowed);
  // Loads the saved file.
  const served again({"--root", target.path().string(), "--model", "x.zt"});
  again.end_of("main");
  CHECK(client(again.server.port())
            .get("/models/main/tensors/a/b", "application/octet-stream")
            .body() == "0123456789");
}

TEST_CASE("server: other processes attach what is ready by its id, and keep what is replaced") {
  const temporary_folder near = temporary_folder::for_sockets();
  const std::string socket = (near.path() / "s").string();
  const served keeps({"--model", "one.safetensors", "--keep", socket});
  keeps.end_of("main");
  const ringload::model first = ringload::attach(socket, "main");
  const auto text_of = [](const ringload::model& held) {
    const auto bytes = held.at("a/b").as<const std::byte>();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  CHECK(text_of(first) == "0123456789");
  CHECK(client(keeps.server.port()).ask(post("two.safetensors", "main")).result() ==
        http::status::accepted);
  keeps.end_of("main");
  CHECK(text_of(ringload::attach(socket, "main")) == "abcdefghij");
  CHECK(text_of(first) == "0123456789");
  CHECK(
      client(keeps.server.port()).ask(make_request(http::verb::delete_, "/models/main")).result() ==
      http::status::no_content);
  CHECK_THROWS_AS(ringload::attach(socket, "main"), ringload::error);
}

TEST_CASE("server: no process can attach a model that was removed while it was published") {
  const temporary_folder near = temporary_folder::for_sockets();
  const std::string socket = (near.path() / "s").string();
  const served keeps({"--model", "one.safetensors", "--keep", socket});
  keeps.end_of("main");
  client requests(keeps.server.port());
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    CHECK(requests.ask(post("two.safetensors", "x")).result() == http::status::accepted);
    std::this_thread::sleep_for(std::chrono::microseconds(20 * i));
    requests.ask(make_request(http::verb::delete_, "/models/x"));
    while (requests.get("/models/x").result() != http::status::not_found) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CHECK_THROWS_AS(ringload::attach(socket, "x"), ringload::error);
  }
}

TEST_CASE("server: a delta leads to the next version, and a wrong delta changes nothing") {
  const temporary_folder near = temporary_folder::for_sockets();
  const std::string socket = (near.path() / "s").string();
  const served at({"--model", "one.safetensors", "--keep", socket});
  at.end_of("main");
  {
    ringload::loader host_loader;
    const auto path = [&](const char* name) { return (at.in.path() / name).string(); };
    for (const auto& [delta, base, next] :
         {std::tuple{"next.zt", "one.safetensors", "two.safetensors"},
          std::tuple{"back.zt", "two.safetensors", "one.safetensors"}}) {
      ringload::save_delta_async(host_loader, path(delta), path(base), path(next),
                                 boost::asio::use_future)
          .get();
    }
  }
  client one(at.server.port());
  const auto put = [&](const std::string& id, const std::string& delta) {
    return one.ask(make_request(http::verb::put, "/models/" + id + "/version",
                                R"({"delta":")" + delta + "\"}"));
  };
  const auto bytes = [&] {
    return one.get("/models/main/tensors/a/b", "application/octet-stream").body();
  };
  const ringload::model first = ringload::attach(socket, "main");

  // The delta belongs to another version, so the served version stays.
  CHECK(put("main", "back.zt").result() == http::status::accepted);
  boost::json::value end = at.end_of("main");
  CHECK(text_in(end, "state") == "failed");
  CHECK(text_in(end, "error").find("back.zt") != std::string::npos);
  CHECK(bytes() == "0123456789");
  CHECK(ringload::served_version(socket, "main") == ringload::attached_version(first));

  const response begun = put("main", "next.zt");
  CHECK(begun.result() == http::status::accepted);
  CHECK(begun[http::field::location] == "/models/main");
  end = at.end_of("main");
  CHECK(text_in(end, "state") == "ready");
  CHECK(text_in(end, "serving") == fs::canonical(at.in.path() / "next.zt").string());
  CHECK(bytes() == "abcdefghij");
  const ringload::model second = ringload::attach_next(
      socket, "main", ringload::attached_version(first), std::chrono::seconds(60));
  CHECK(static_cast<char>(second.at("a/b").as<const std::byte>()[0]) == 'a');
  CHECK(static_cast<char>(first.at("a/b").as<const std::byte>()[0]) == '0');
  CHECK(put("main", "back.zt").result() == http::status::accepted);
  at.end_of("main");
  CHECK(bytes() == "0123456789");

  CHECK(put("other", "next.zt").result() == http::status::not_found);
  CHECK(put("main", "none.zt").result() == http::status::forbidden);
  CHECK(put("main", "/etc/passwd").result() == http::status::forbidden);
  CHECK(one.ask(make_request(http::verb::put, "/models/main/version", "{}")).result() ==
        http::status::bad_request);
  CHECK(one.get("/models/main/version").result() == http::status::method_not_allowed);
  // The load of a large model is in progress, and no version of that model is served.
  const auto answers = one.ask_all(
      {post("big.safetensors", "big"),
       make_request(http::verb::put, "/models/big/version", R"({"delta":"next.zt"})"),
       post("big.safetensors", "main"),
       make_request(http::verb::put, "/models/main/version", R"({"delta":"next.zt"})")});
  CHECK(answers[1].result() == http::status::conflict);
  CHECK(answers[3].result() == http::status::conflict);
}
