// SPDX-License-Identifier: Apache-2.0

// Requests that the server refuses, and misbehaving clients.

#include <doctest/doctest.h>

#include <string>

#include "client.hpp"
#include "process.hpp"
#include "served.hpp"

using namespace ringload::testing;

TEST_CASE("server: errors say what is wrong with a request") {
  const served with({"--models-max", "1", "--model", "m=one.safetensors"});
  client one(with.server.port());
  CHECK(text_in(with.end_of("m"), "state") == "ready");
  const auto status = [&one](http::verb method, const std::string& target,
                             const std::string& body = {}) {
    return one.ask(make_request(method, target, body)).result_int();
  };
  for (const std::string target :
       {"/x", "/models/none", "/models/m/x", "/models/m/tensors/none", "/models/none/tensors/a",
        "/health/x", "/../etc/passwd", "/models/..%2f..%2fetc"}) {
    CAPTURE(target);
    CHECK(status(http::verb::get, target) == 404);
  }
  CHECK(status(http::verb::get, "/%zz") == 400);
  CHECK(status(http::verb::get, "/models/m/tensors?limit=x") == 400);
  CHECK(status(http::verb::put, "/models/m") == 405);
  CHECK(status(http::verb::post, "/health") == 405);
  CHECK(status(http::verb::post, "/models/m/tensors/a") == 405);
  CHECK(status(http::verb::post, "/models") == 415);
  for (const std::string body :
       {"{", "[]", "{}", R"({"source":1})", R"({"source":"a\u0000b"})",
        R"({"source":"one.safetensors","id":"a/b"})", R"({"source":"one.safetensors","zzz":1})",
        R"({"source":"one.safetensors","source":"one.safetensors"})",
        R"({"source":"one.safetensors","select":"a"})",
        R"({"source":"one.safetensors","rank":"1/2"})"}) {
    CAPTURE(body);
    CHECK(status(http::verb::post, "/models", body) == 400);
  }
  for (const std::string body : {R"({"source":"/etc/passwd"})", R"({"source":"../x"})",
                                 R"({"source":"owner/model"})", R"({"source":"missing"})"}) {
    CAPTURE(body);
    CHECK(status(http::verb::post, "/models", body) == 403);
  }
  CHECK(status(http::verb::post, "/models", R"({"source":"one.safetensors"})") == 503);

  request foreign = make_request(http::verb::get, "/health");
  foreign.set(http::field::host, "evil.example");
  CHECK(one.ask(foreign).result() == http::status::misdirected_request);
  CHECK(one.get("/health").result() == http::status::ok);
}

TEST_CASE("server: a request names one host, as HTTP/1.1 requires") {
  const served with;
  const auto answer = [&with](const std::string& request_line, const std::string& header) {
    const std::string end = "Connection: close\r\n\r\n";
    return client(with.server.port()).ask_raw(request_line + "\r\n" + header + end).substr(0, 12);
  };
  const std::string host = "Host: localhost\r\n";
  CHECK(answer("GET /health HTTP/1.1", host) == "HTTP/1.1 200");
  CHECK(answer("GET /health HTTP/1.1", host + host) == "HTTP/1.1 400");
  CHECK(answer("GET /health HTTP/1.1", host + "Host: evil.example\r\n") == "HTTP/1.1 400");
  CHECK(answer("GET /health HTTP/1.1", "") == "HTTP/1.1 400");
  CHECK(answer("GET /health HTTP/1.0", "") == "HTTP/1.1 200");
}

TEST_CASE("server: the host of an absolute target replaces the Host header") {
  const served with;
  const auto answer = [&with](const std::string& target, const std::string& host) {
    return client(with.server.port())
        .ask_raw("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n")
        .substr(0, 12);
  };
  CHECK(answer("http://localhost/health", "localhost") == "HTTP/1.1 200");
  CHECK(answer("http://127.0.0.1:80", "localhost") == "HTTP/1.1 200");
  CHECK(answer("http://evil.example/health", "localhost") == "HTTP/1.1 421");
  CHECK(answer("/health", "[::1].evil.example") == "HTTP/1.1 421");
}

TEST_CASE("server: keeps a connection of HTTP/1.0 open if the client requests this") {
  const served with;
  const std::string line = "GET /health HTTP/1.0\r\n";
  const std::string answers =
      client(with.server.port()).ask_raw(line + "Connection: keep-alive\r\n\r\n" + line + "\r\n");
  const std::size_t kept = answers.find("Connection: keep-alive\r\n");
  REQUIRE(kept != std::string::npos);
  const std::size_t second = answers.find("HTTP/1.1 200", kept);
  REQUIRE(second != std::string::npos);
  CHECK(answers.find("Connection: close\r\n", second) != std::string::npos);
}

TEST_CASE("server: a malformed or too large request closes the connection") {
  const served with;
  const auto answer = [&with](const std::string& bytes) {
    return client(with.server.port()).ask_raw(bytes).substr(0, 12);
  };
  CHECK(answer("nonsense\r\n\r\n") == "HTTP/1.1 400");
  CHECK(answer("GET / HTTP/1.1\r\nA: " + std::string(20'000, 'x')) == "HTTP/1.1 431");
  CHECK(answer("POST /models HTTP/1.1\r\nContent-Length: 999999\r\n\r\n") == "HTTP/1.1 413");
}

TEST_CASE("server: does not wait for slow clients") {
  const served with({"--timeout", "1"});
  CHECK(client(with.server.port()).ask_raw("").empty());
  CHECK(client(with.server.port()).ask_raw("GET /hea").empty());
  CHECK(client(with.server.port())
            .ask_raw("POST /models HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")
            .empty());
}

TEST_CASE("server: limits the number of clients") {
  const served with({"--connections-max", "1"});
  client first(with.server.port());
  CHECK(first.get("/health").result() == http::status::ok);
  CHECK(client(with.server.port()).ask_raw("").starts_with("HTTP/1.1 503"));
  CHECK(first.get("/health").result() == http::status::ok);
}

TEST_CASE("server: reports why it cannot start") {
  CHECK(server_process({"--bogus"}).exit_code() == 2);
  CHECK(server_process({}).exit_code() == 2);
  CHECK(server_process({"--root", "/", "--address", "nowhere"}).exit_code() == 2);
  CHECK(server_process({"--root", ".", "--model", "missing"}).exit_code() == 1);
  CHECK(server_process({"--root", ".", "--device", "cuda:1023"}).exit_code() == 1);
  CHECK(server_process({"--root", ".", "--slots", "1025"}).exit_code() == 1);
  CHECK(server_process({"--root", ".", "--keep", "s", "--device", "cuda:0"}).exit_code() == 2);
  CHECK(server_process({"--root", ".", "--keep", "/no/such/folder"}).exit_code() == 1);
  CHECK(server_process({"--help"}).exit_code() == 0);
}
