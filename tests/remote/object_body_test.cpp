// SPDX-License-Identifier: Apache-2.0
#include "remote/http/object_body.hpp"

// Bodies that are received in order: those of servers without ranges, and the first bytes of all
// objects.

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/use_future.hpp>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "remote/http/body_window.hpp"
#include "remote/http_loads.hpp"

using namespace ringload;
using namespace ringload::testing;
using remote_http::body_window;
using remote_http::wanted_part;

namespace {

constexpr std::uint64_t kept_max = 32 << 10;

std::byte byte_at(std::uint64_t offset) {
  return static_cast<std::byte>((offset * 2654435761U) >> 13U);
}

// Computes the bytes of a body by their offset.
std::vector<wanted_part*> feed(body_window& into, std::uint64_t bytes) {
  std::vector<wanted_part*> complete;
  while (bytes > 0) {
    const auto room = into.next_buffer();
    const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, room.size()));
    for (std::size_t i = 0; i < now; ++i) room[i] = byte_at(into.position() + i);
    into.take(now, complete);
    bytes -= now;
  }
  return complete;
}

struct part_with_memory {
  part_with_memory(std::uint64_t offset, std::size_t bytes) : memory(bytes) {
    part.offset = offset;
    part.into = memory;
  }
  bool right() const {
    for (std::size_t i = 0; i < memory.size(); ++i) {
      if (memory[i] != byte_at(part.offset + i)) return false;
    }
    return part.complete();
  }
  std::vector<std::byte> memory;
  wanted_part part;
};

web_reply whole(const web_request&, std::uint64_t) {
  return web_response(200, {"ETag: \"one\""}, object);
}

web_reply chunked(const web_request&, std::uint64_t) {
  std::string body;
  for (std::size_t at = 0; at < object.size(); at += 50'000) {
    const std::string part = object.substr(at, 50'000);
    char length[32];
    std::snprintf(length, sizeof length, "%zx\r\n", part.size());
    body += length + part + "\r\n";
  }
  return web_reply{web_head(200, {"Transfer-Encoding: chunked"}) + body + "0\r\n\r\n"};
}

web_reply old(const web_request&, std::uint64_t) {
  return web_reply{"HTTP/1.0 200 OK\r\n\r\n" + object, after::closed};
}

remote_options little() {
  remote_options how = quick();
  how.whole_bytes_max = 40'000;
  return how;
}

}  // namespace

TEST_CASE("body_window: reads get their bytes as they pass, in order or overlapping") {
  body_window window(kept_max);
  window.set_end(1 << 20);
  part_with_memory one(10, 100'000);
  part_with_memory two(99'000, 200'000);
  part_with_memory later(500'000, 1);
  for (part_with_memory* each : {&two, &later, &one}) window.add(each->part);
  CHECK(window.has_parts_ahead());
  const auto first = feed(window, 150'000);
  REQUIRE(first.size() == 1);
  CHECK(first.front() == &one.part);
  CHECK(one.right());
  CHECK(feed(window, 149'000).size() == 1);
  CHECK(two.right());
  CHECK(window.has_parts());
  feed(window, 300'000);
  CHECK(later.right());
  CHECK(!window.has_parts());
}

TEST_CASE("body_window: a read that comes a little late is given what is kept, else it is behind") {
  body_window window(kept_max);
  window.set_end(1 << 20);
  feed(window, 100'000);
  part_with_memory late(100'000 - 16'000, 10'000);
  window.add(late.part);
  CHECK(late.right());
  CHECK(!window.has_parts());
  part_with_memory across(100'000 - 1'000, 2'000);
  window.add(across.part);
  CHECK(across.part.reached == 1'000);
  CHECK(window.has_parts_ahead());
  feed(window, 1'000);
  CHECK(across.right());
  part_with_memory behind(0, 10);
  window.add(behind.part);
  CHECK(window.has_parts());
  CHECK(!window.has_parts_ahead());
  window.begin_anew(false);
  CHECK(window.has_parts_ahead());
  feed(window, 10);
  CHECK(behind.right());
  part_with_memory removed(50, 10);
  window.add(removed.part);
  window.remove(removed.part);
  CHECK(!window.has_parts());
}

TEST_CASE("body_window: what it keeps is bounded, but for a body that is not longer") {
  body_window window(kept_max);
  window.set_end(kept_max);
  CHECK(window.keeps_all());
  feed(window, kept_max);
  part_with_memory all(0, kept_max);
  window.add(all.part);
  CHECK(all.right());
  window.set_end(kept_max + 1);
  CHECK(!window.keeps_all());
  window.keep_all();
  CHECK(window.keeps_all());
}

TEST_CASE("body_window: bytes that nobody waited for are wasted, and those after a cut are not") {
  body_window window(kept_max);
  window.set_end(1 << 20);
  feed(window, 100'000);
  CHECK(window.wasted_bytes() == 100'000);
  window.begin_anew(true);
  part_with_memory tail(110'000, 20'000);
  window.add(tail.part);
  feed(window, 100'000);
  CHECK(window.wasted_bytes() == 100'000);
  feed(window, 10'000);
  CHECK(window.wasted_bytes() > 100'000);
  feed(window, 20'000);
  CHECK(window.wasted_bytes() < 95'000);
  CHECK(tail.right());
}

TEST_CASE("http: a server without ranges is asked once, for a file of any size") {
  scripted_server server(good);
  const std::string name = server.address("/x.safetensors");
  for (const scripted_server::rule& rule :
       {scripted_server::rule(whole), scripted_server::rule(chunked), scripted_server::rule(old)}) {
    server.follow(rule);
    loader with = loads();
    CHECK(right(get(with.load_async(name, use_future))));
    CHECK(server.log().size() == 1);
  }
  server.follow(whole);
  for (const std::uint32_t slots : {1U, 4U}) {
    loader with = loads(little(), slots);
    const model found = get(with.load_async(name, use_future));
    CHECK(right(found));
    CHECK(found.stats().bytes_remote >= found.catalog().size_bytes());
    CHECK(found.stats().seconds_to_first_byte > 0);
  }
  for (const scripted_server::rule& rule :
       {scripted_server::rule(chunked), scripted_server::rule(old)}) {
    server.follow(rule);
    loader with = loads(little());
    const error failed = failure(with, name);
    CHECK(failed.code() == errc::unsupported_feature);
    CHECK(holds(failed.what(), "neither ranges nor the size"));
  }
}

TEST_CASE("http: the first bytes of a file with ranges are kept, whatever may be kept without") {
  scripted_server server(good);
  remote_options how = quick();
  how.whole_bytes_max = 0;
  loader with = loads(how, 1);
  const checkpoint opened = get(with.open_async(server.address("/x.safetensors"), use_future));
  for (int i = 0; i < 2; ++i) CHECK(right(get(with.load_async(opened, use_future))));
  const auto log = server.log();
  const auto from_start = [](const web_request& each) {
    return each.field("range").starts_with("bytes=0-");
  };
  CHECK(std::ranges::count_if(log, from_start) == 1);
}

TEST_CASE("http: a file without ranges is opened once, and loaded several times") {
  scripted_server server(whole);
  loader with = loads(little(), 1);
  const checkpoint opened = get(with.open_async(server.address("/x.safetensors"), use_future));
  for (int i = 0; i < 5; ++i) CHECK(right(get(with.load_async(opened, use_future))));
  CHECK(server.log().size() == 5);
  // Reads only the end. The bytes before it are received and dropped, a limited number of times.
  int good_loads = 0;
  std::string why;
  for (int i = 0; i < 5; ++i) {
    auto ends = with.load_async(opened, selection().names({"d"}), use_future);
    const auto failed = failure_of(std::move(ends));
    if (!failed) ++good_loads;
    if (failed) CHECK(failed->code() == errc::unsupported_feature);
    if (failed) why = failed->what();
  }
  CHECK(good_loads >= 2);
  CHECK(good_loads < 5);
  CHECK(holds(why, "download the file first"));
}

TEST_CASE("http: a body without ranges that is cut anywhere begins anew, and not for ever") {
  scripted_server server(whole);
  const std::string name = server.address("/x.safetensors");
  for (std::size_t cut = 0; cut < object.size(); cut += 29'989) {
    CAPTURE(cut);
    server.follow([cut](const web_request& asked, std::uint64_t n) {
      web_reply reply = whole(asked, n);
      if (n > 0) return reply;
      reply.bytes.resize(reply.bytes.find("\r\n\r\n") + 4 + cut);
      reply.after = after::closed;
      return reply;
    });
    for (const remote_options& how : {quick(), little()}) {
      server.forget_responseed();
      loader with = loads(how);
      CHECK(right(get(with.load_async(name, use_future))));
    }
  }
  server.follow([](const web_request& asked, std::uint64_t n) {
    web_reply reply = whole(asked, n);
    reply.bytes.resize(reply.bytes.size() - 100'000);
    reply.after = after::closed;
    return reply;
  });
  loader with = loads(little());
  const error failed = failure(with, name);
  CHECK(failed.code() == errc::remote_failed);
  CHECK(holds(failed.what(), "in a row"));
}

TEST_CASE("http: lengths and objects that change without ranges are errors") {
  scripted_server server(whole);
  const std::string name = server.address("/x.safetensors");
  const auto later = [&](web_reply reply) {
    server.follow([reply](const web_request& asked, std::uint64_t n) {
      web_reply first = whole(asked, n);
      if (n > 0) return reply;
      first.bytes.resize(200'000);
      first.after = after::closed;
      return first;
    });
    loader with = loads(little());
    return failure(with, name).code();
  };
  CHECK(later(web_response(200, {"ETag: \"two\""}, object)) == errc::changed_file);
  CHECK(later(web_response(200, {"ETag: \"one\""}, object + "x")) == errc::changed_file);
  CHECK(later(web_response(200, {"ETag: \"one\"", "Content-Encoding: gzip"}, object)) ==
        errc::malformed_answer);
  CHECK(later(web_response(412)) == errc::changed_file);
  CHECK(later(web_range({"GET", "/", {{"range", "bytes=0-9"}}}, object)) == errc::malformed_answer);
  web_reply shorter;
  shorter.bytes = web_head(200, {"Transfer-Encoding: chunked"}) + "5\r\nabcde\r\n0\r\n\r\n";
  CHECK(later(shorter) == errc::malformed_answer);
}

TEST_CASE("http: many files without ranges share few connections") {
  scripted_server server(whole);
  remote_options how = little();
  how.connections = 2;
  loader with = loads(how);
  std::vector<checkpoint> opened;
  for (int i = 0; i < 6; ++i) {
    opened.push_back(
        get(with.open_async(server.address("/" + std::to_string(i) + ".safetensors"), use_future)));
  }
  for (const checkpoint& each : opened) {
    CHECK(right(get(with.load_async(each, use_future))));
  }
}

TEST_CASE("http: a load without ranges that is cancelled in its body leaves nothing") {
  scripted_server server(whole);
  remote_options how = little();
  how.connections = 1;  // Further connections would stay idle for a while.
  for (const std::size_t kept : {std::size_t{100}, std::size_t{1'000}, std::size_t{300'000}}) {
    CAPTURE(kept);
    server.follow([kept](const web_request& asked, std::uint64_t n) {
      web_reply reply = whole(asked, n);
      reply.bytes.resize(kept);
      reply.after = after::stalled;
      return reply;
    });
    server.forget_responseed();
    loader with = loads(how);
    asio::cancellation_signal signal;
    auto ends = with.load_async(server.address("/x.safetensors"),
                                asio::bind_cancellation_slot(signal.slot(), use_future));
    REQUIRE(server.wait_until_responseed(1));
    signal.emit(asio::cancellation_type::terminal);
    CHECK(code_of(std::move(ends)) == asio::error::operation_aborted);
    CHECK(arenas_taken == 0);
    CHECK(server.wait_until_alone());
  }
}

TEST_CASE("http: a 416 of an object that is opened means an empty object, or no range is sent") {
  scripted_server server(good);
  const auto refuse_ranges = [&](const std::string& content) {
    server.follow([content](const web_request& asked, std::uint64_t) {
      const bool has_range = !asked.field("range").empty();
      return has_range ? web_response(416) : web_response(200, {"ETag: \"one\""}, content);
    });
  };
  refuse_ranges(object);
  loader with = loads();
  CHECK(right(get(with.load_async(server.address("/x.safetensors"), use_future))));
  CHECK(server.log().size() == 2);
  for (const bool is_always : {false, true}) {
    CAPTURE(is_always);
    refuse_ranges("");
    if (is_always) {
      server.follow([](const web_request&, std::uint64_t) { return web_response(416); });
    }
    const error failed = failure(with, server.address("/e.safetensors"));
    CHECK(!holds(failed.what(), "has become shorter"));
    CHECK(holds(failed.what(), "416") == is_always);
    CHECK(server.log().size() == 2);
  }
}

TEST_CASE("http: a whole object instead of a range is a failed try, unless the object is another") {
  scripted_server server(good);
  const std::string name = server.address("/x.safetensors");
  const auto later = [&](const web_reply& reply, bool is_once) {
    server.follow([reply, is_once](const web_request& asked, std::uint64_t n) {
      const bool is_hit = n == header_requests || (!is_once && n > header_requests);
      return is_hit ? reply : good(asked, n);
    });
  };
  const web_reply same = web_response(200, {"ETag: \"one\""}, object);
  loader with = loads();
  later(same, true);
  CHECK(right(get(with.load_async(name, use_future))));
  later(same, false);
  const error failed = failure(with, name);
  CHECK(failed.code() == errc::unsupported_feature);
  CHECK(holds(failed.what(), "no longer supports ranges"));
  later(web_response(200, {"ETag: \"two\""}, object), true);
  CHECK(failure(with, name).code() == errc::changed_file);
  later(web_response(200, {"ETag: \"one\""}, object + "x"), true);
  CHECK(failure(with, name).code() == errc::changed_file);
  // The first body is cut, and the rest is requested.
  bool has_sent_whole = false;
  server.follow([&](const web_request& asked, std::uint64_t n) {
    web_reply reply = good(asked, n);
    if (n == 0) {
      reply.bytes.resize(reply.bytes.size() - 1000);
      reply.after = after::closed;
    }
    const bool is_rest = n > 0 && asked.field("range").ends_with("-131071");
    return is_rest && !std::exchange(has_sent_whole, true) ? same : reply;
  });
  CHECK(right(get(with.load_async(name, use_future))));
  CHECK(has_sent_whole);
  server.follow(good);
}
