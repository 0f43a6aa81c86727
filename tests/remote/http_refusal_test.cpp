// SPDX-License-Identifier: Apache-2.0

// Loads that a web server redirects, delays or refuses, and loads that are cancelled.

#include <doctest/doctest.h>

#include <dirent.h>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/use_future.hpp>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <ringload/remote.hpp>
#include <ringload/ringload.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "remote/http_loads.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

// Counts the entries of a folder in /proc/self: "fd" has the descriptors, "task" the threads.
std::size_t entries_of(const char* name) {
  std::size_t count = 0;
  DIR* const folder = ::opendir((std::string("/proc/self/") + name).c_str());
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

// The kernel removes a thread from the list shortly after it was joined.
bool threads_come_to(std::size_t count) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (entries_of("task") > count && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  return entries_of("task") == count;
}

}  // namespace

TEST_CASE("http: redirects are followed, to web servers, and not for ever") {
  scripted_server other(good);
  scripted_server server(good);
  const auto to = [&](std::string location, unsigned status = 302) {
    server.follow([location, status](const web_request& asked, std::uint64_t n) {
      if (asked.target == "/y") return good(asked, n);
      return web_response(status, {"Location: " + location});
    });
  };
  const std::string name = server.address("/x.safetensors");
  for (const unsigned status : {301U, 302U, 303U, 307U, 308U}) {
    to("/y", status);
    loader with = loads();
    CHECK(right(get(with.load_async(name, use_future))));
  }
  to(other.address("/z?signature=secret"));
  {
    loader with = loads();
    CHECK(right(get(with.load_async(name, use_future))));
    CHECK(server.log().size() == 1);  // The redirected address is stored,
  }
  // and requested again if it is no longer valid.
  other.follow([](const web_request& asked, std::uint64_t n) {
    return n == 2 ? web_response(403) : good(asked, n);
  });
  {
    loader with = loads();
    CHECK(right(get(with.load_async(name, use_future))));
    CHECK(server.log().size() > 1);
  }
  for (const char* location : {"/x.safetensors", "ftp://host/x", "file:///etc/passwd", "http://"}) {
    CAPTURE(location);
    to(location);
    loader with = loads();
    const error failed = failure(with, name);
    CHECK(failed.code() == errc::remote_failed);
    CHECK(holds(failed.what(), "redirected"));
  }
  to(other.address("/z?signature=secret"));
  remote_options only = quick();
  only.hosts = {"localhost"};
  loader with = loads(only);
  CHECK(failure(with, name).code() == errc::access_denied);
}

TEST_CASE("http: 429 and 5xx are asked again, as late as the server says, and not for ever") {
  scripted_server server(good);
  const std::string name = server.address("/x.safetensors");
  for (const unsigned status : {408U, 429U, 500U, 502U, 503U, 504U}) {
    CAPTURE(status);
    std::set<std::string> asked_before;
    server.follow([&, status = status](const web_request& asked, std::uint64_t n) {
      const bool first = asked_before.insert(asked.field("range")).second;
      return first ? web_response(status, {"Retry-After: 0"}, "wait") : good(asked, n);
    });
    loader with = loads();
    CHECK(right(get(with.load_async(name, use_future))));
    server.follow([status](const web_request&, std::uint64_t) { return web_response(status); });
    const error failed = failure(with, name);
    CHECK(failed.code() == errc::remote_failed);
    CHECK(holds(failed.what(), std::to_string(status)));
    CHECK(server.log().size() == 3);
  }
  server.follow(
      [](const web_request&, std::uint64_t) { return web_response(503, {"Retry-After: 3600"}); });
  loader with = loads();
  CHECK(failure(with, name).code() == errc::remote_failed);
  CHECK(server.log().size() == 1);
}

TEST_CASE("http: what a server refuses for good is said, without credentials") {
  scripted_server server(good);
  for (const auto& [status, code] :
       {std::pair(401U, errc::access_denied), std::pair(403U, errc::access_denied),
        std::pair(404U, errc::source_not_found), std::pair(400U, errc::remote_failed)}) {
    server.follow([s = status](const web_request&, std::uint64_t) { return web_response(s); });
    loader with = loads();
    const error failed = failure(with, server.address("/x.safetensors?token=secret"));
    CHECK(failed.code() == code);
    CHECK(holds(failed.what(), std::to_string(status)));
    CHECK(!holds(failed.what(), "secret"));
    CHECK(server.log().size() == 1);
  }
  loader with = loads();
  const auto nobody = failure_of(with.load_async("http://127.0.0.1:1/x", use_future));
  REQUIRE(nobody);
  CHECK(nobody->code() == errc::remote_failed);
  remote_options how = quick();
  how.offline = true;
  loader offline = loads(how);
  server.follow(good);
  CHECK(failure(offline, server.address("/x.safetensors")).code() == errc::source_not_found);
  CHECK(server.log().empty());
}

TEST_CASE("http: cancelled while a request waits, in its head and in its body, it ends at once") {
  scripted_server server(good);
  std::uint64_t requests = 0;
  {
    loader with = loads();
    get(with.load_async(server.address("/x.safetensors"), use_future));
    requests = server.log().size();
  }
  // With one connection a request has been sent ahead.
  remote_options one = quick();
  one.connections = 1;
  for (std::uint64_t nth = 0; nth < 2 * requests; ++nth) {
    for (const std::size_t kept : {std::size_t{0}, std::size_t{30}, std::size_t{5000}}) {
      CAPTURE(nth);
      CAPTURE(kept);
      const std::uint64_t stalled = nth / 2;
      server.follow([kept, stalled](const web_request& asked, std::uint64_t n) {
        web_reply reply = good(asked, n);
        if (n < stalled) return reply;
        reply.bytes.resize(std::min(kept, reply.bytes.size() - 1));
        reply.after = after::stalled;
        return reply;
      });
      server.forget_responseed();
      loader with = loads(nth % 2 == 0 ? quick() : one);
      asio::cancellation_signal signal;
      auto ends = with.load_async(server.address("/x.safetensors"),
                                  asio::bind_cancellation_slot(signal.slot(), use_future));
      REQUIRE(server.wait_until_responseed(stalled + 1));
      signal.emit(asio::cancellation_type::terminal);
      CHECK(code_of(std::move(ends)) == asio::error::operation_aborted);
      CHECK(arenas_taken == 0);
    }
  }
  CHECK(server.wait_until_alone());
}

TEST_CASE("http: a hundred loads that are cancelled leave no descriptor, thread or connection") {
  scripted_server server([](const web_request& asked, std::uint64_t n) {
    web_reply reply = good(asked, n);
    if (n % 5 == 4) reply = {reply.bytes.substr(0, 3000), after::stalled};
    return reply;
  });
  const auto cancel_some = [&](int times) {
    const auto over_http = remote(quick());
    loader with(counted_host(), small_options(), {over_http});
    for (int i = 0; i < times; ++i) {
      asio::cancellation_signal signal;
      server.forget_responseed();
      auto ends = with.load_async(server.address("/x.safetensors"),
                                  asio::bind_cancellation_slot(signal.slot(), use_future));
      if (i % 3 != 0) CHECK(server.wait_until_responseed(1));
      signal.emit(asio::cancellation_type::terminal);
      CHECK(code_of(std::move(ends)) == asio::error::operation_aborted);
    }
  };
  cancel_some(3);
  CHECK(server.wait_until_alone());
  const std::size_t descriptors = entries_of("fd");
  const std::size_t threads = entries_of("task");
  cancel_some(100);
  CHECK(server.wait_until_alone());
  CHECK(entries_of("fd") == descriptors);
  CHECK(threads_come_to(threads));
  CHECK(arenas_taken == 0);
}

TEST_CASE("http: through a proxy, which names the object, and may not lead into private networks") {
  scripted_server proxy([](const web_request& asked, std::uint64_t n) {
    if (asked.target == "http://public.example/x.safetensors") return good(asked, n);
    if (asked.target == "http://public.example/inside") {
      return web_response(302, {"Location: http://169.254.169.254/latest"});
    }
    return web_response(asked.method == "CONNECT" ? 403 : 404);
  });
  remote_options how = quick();
  how.proxy = proxy.address("");
  loader with = loads(how);
  CHECK(right(get(with.load_async("http://public.example/x.safetensors", use_future))));
  CHECK(proxy.log().front().field("host") == "public.example");
  const error inside = failure(with, "http://public.example/inside");
  CHECK(inside.code() == errc::remote_failed);
  CHECK(holds(inside.what(), "private network"));
  const error tunnel = failure(with, "https://public.example/x.safetensors");
  CHECK(holds(tunnel.what(), "the proxy " + proxy.address("") + " answered 403"));
  CHECK(proxy.log().back().target == "public.example:443");
}

TEST_CASE("http: a proxy is sent its user and password, and nobody else is") {
  scripted_server proxy([](const web_request& asked, std::uint64_t n) {
    // "user:p@ss" in base64.
    if (asked.field("proxy-authorization") != "Basic dXNlcjpwQHNz") return web_response(407);
    return asked.method == "CONNECT" ? web_response(502) : good(asked, n);
  });
  const std::string place = "127.0.0.1:" + std::to_string(proxy.port());
  remote_options options = quick();
  options.proxy = "http://user:p%40ss@" + place;
  loader with = loads(options);
  CHECK(right(get(with.load_async("http://public.example/x.safetensors", use_future))));
  CHECK(holds(failure(with, "https://public.example/x.safetensors").what(), "answered 502"));

  options.proxy = "http://user:wrong@" + place;
  loader refused = loads(options);
  for (const char* name : {"http://public.example/x", "https://public.example/x"}) {
    const error failed = failure(refused, name);
    CHECK(holds(failed.what(), "407"));
    CHECK(!holds(failed.what(), "wrong"));
  }
  scripted_server origin(good);
  loader direct = loads();
  CHECK(right(get(direct.load_async(origin.address("/x.safetensors"), use_future))));
  CHECK(origin.log().front().field("proxy-authorization").empty());
  options.proxy = "http://user:%4@" + place;
  CHECK_THROWS_AS(remote(options), error);
  options.proxy = "http://" + place + "/path@127.0.0.1";  // A path is no part of the credentials.
  CHECK_THROWS_AS(remote(options), error);
}

TEST_CASE("http: hosts of no_proxy are contacted without the proxy, also by a redirect") {
  scripted_server origin(good);
  scripted_server proxy([&origin](const web_request& asked, std::uint64_t) {
    if (asked.target != "http://public.example/x.safetensors") return web_response(404);
    return web_response(302, {"Location: " + origin.address("/x.safetensors")});
  });
  remote_options options = quick();
  options.proxy = "http://user:secret@127.0.0.1:" + std::to_string(proxy.port());
  options.no_proxy = {"localhost", "127.0.0.0/8"};
  options.private_redirects = true;
  loader with = loads(options);
  CHECK(right(get(with.load_async(origin.address("/x.safetensors"), use_future))));
  CHECK(proxy.log().empty());
  CHECK(right(get(with.load_async("http://public.example/x.safetensors", use_future))));
  CHECK(!proxy.log().empty());
  for (const web_request& request : origin.log()) {
    CHECK(request.field("proxy-authorization").empty());
    CHECK(request.target == "/x.safetensors");
  }
}

TEST_CASE("http: a proxy that cannot be reached is named") {
  remote_options how = quick();
  how.proxy = "http://127.0.0.1:1";
  how.tries_max = 1;
  loader with = loads(how);
  for (const char* name : {"http://public.example/x", "https://public.example/x"}) {
    CHECK(holds(failure(with, name).what(), "the proxy http://127.0.0.1:1: connecting: "));
  }
}

TEST_CASE("http: options that contradict themselves are refused") {
  for (const auto& wrong : std::vector<std::function<void(remote_options&)>>{
           [](remote_options& o) { o.connections = 0; },
           [](remote_options& o) { o.chunk_bytes = 1; }, [](remote_options& o) { o.threads = 65; },
           [](remote_options& o) { o.tries_max = 0; },
           [](remote_options& o) { o.silence_time_max = milliseconds(0); },
           [](remote_options& o) { o.retry_delay = std::chrono::hours(1); },
           [](remote_options& o) { o.proxy = "ftp://proxy"; },
           [](remote_options& o) { o.ca_file = "/nonexistent"; }}) {
    remote_options how;
    wrong(how);
    CHECK_THROWS_AS(remote(how), error);
  }
}

TEST_CASE("http: a file of certificates that cannot be read is named") {
  temporary_folder folder;
  const std::string text = folder.path() / "text.pem";
  const std::string nosuch = folder.path() / "nosuch";
  write_file(text, "no certificate");
  for (const std::string& file : {nosuch, text}) {
    remote_options how;
    how.ca_file = file;
    try {
      remote(how);
      FAIL("accepted: ", file);
    } catch (const error& refused) {
      CHECK(refused.place() == "remote_options::ca_file");
      CHECK(holds(refused.what(), "'" + file + "'"));
    }
  }
}

TEST_CASE("http: a redirected address that fails twice is requested anew") {
  using failing_rule = std::function<web_reply(const web_request&)>;
  const std::vector<failing_rule> ways = {
      [](const web_request&) { return web_response(503); },
      [](const web_request&) { return web_reply{"", after::reset}; },
      [](const web_request&) { return web_response(403); },
  };
  for (std::size_t i = 0; i < ways.size(); ++i) {
    CAPTURE(i);
    scripted_server dying([&](const web_request& asked, std::uint64_t n) {
      return n < header_requests ? good(asked, n) : ways[i](asked);
    });
    scripted_server healthy(good);
    scripted_server server([&](const web_request&, std::uint64_t n) {
      scripted_server& target = n == 0 ? dying : healthy;
      return web_response(302, {"Location: " + target.address("/x")});
    });
    loader with = loads();
    CHECK(right(get(with.load_async(server.address("/x.safetensors"), use_future))));
    CHECK(server.log().size() > 1);
    CHECK(!healthy.log().empty());
  }
}

TEST_CASE("http: a redirected address that cannot be reached is requested anew") {
  std::string location;
  scripted_server healthy(good);
  scripted_server server([&](const web_request&, std::uint64_t n) {
    return web_response(302, {"Location: " + (n == 0 ? location : healthy.address("/x"))});
  });
  location = "http://127.0.0.1:1/x";
  remote_options options = quick();
  options.tries_max = 2;
  loader with = loads(options);
  CHECK(right(get(with.load_async(server.address("/x.safetensors"), use_future))));
}

TEST_CASE("http: a redirected address that is valid once is requested anew after an interruption") {
  std::set<std::string> used;
  scripted_server once([&](const web_request& asked, std::uint64_t n) {
    const bool is_new = used.insert(asked.target).second;
    if (!is_new) return web_response(403);
    web_reply reply = good(asked, n);
    if (n == 0) {
      reply.bytes.resize(2000);
      reply.after = after::closed;
    }
    return reply;
  });
  scripted_server server([&](const web_request&, std::uint64_t n) {
    return web_response(302, {"Location: " + once.address("/" + std::to_string(n))});
  });
  loader with = loads();
  CHECK(right(get(with.load_async(server.address("/x.safetensors"), use_future))));
  // An address that is refused at once is not requested anew.
  once.follow([](const web_request&, std::uint64_t) { return web_response(403); });
  server.forget_log();
  CHECK(failure(with, server.address("/y.safetensors")).code() == errc::access_denied);
  CHECK(server.log().size() == 1);
  // The number of attempts is limited if every redirected address fails.
  once.follow([](const web_request&, std::uint64_t) { return web_response(503); });
  server.forget_log();
  CHECK(failure(with, server.address("/z.safetensors")).code() == errc::remote_failed);
  CHECK(once.log().size() == 3);
}
