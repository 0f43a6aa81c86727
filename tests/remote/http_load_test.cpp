// SPDX-License-Identifier: Apache-2.0

// Loads from a web server that is correct, breaks connections, sends wrong responses, or is slow.

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/use_future.hpp>
#include <cstdint>
#include <exception>
#include <future>
#include <limits>
#include <memory>
#include <ringload/byte_source.hpp>
#include <ringload/remote.hpp>
#include <ringload/ringload.hpp>
#include <string>
#include <vector>

#include "remote/http_loads.hpp"
#include "support/checkpoint_folder.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

// The value of Content-Range for the requested range.
std::string range_of(const web_request& asked) {
  const std::string bytes = good(asked, 0).bytes;
  const std::size_t begin = bytes.find("Content-Range: ") + 15;
  return bytes.substr(begin, bytes.find("\r\n", begin) - begin);
}

}  // namespace

TEST_CASE("http: a file is loaded by ranges, on connections that are kept") {
  scripted_server server(good);
  const std::string name = server.address("/m/model.safetensors?download=true");
  for (const std::uint32_t threads : {1U, 3U}) {
    for (const std::uint64_t chunk : {std::uint64_t{64} << 10, std::uint64_t{4} << 20}) {
      remote_options how = quick();
      how.threads = threads;
      how.chunk_bytes = chunk;
      loader with = loads(how);
      const model found = get(with.load_async(name, use_future));
      CHECK(right(found));
      CHECK(found.catalog().files.front().path == server.address("/m/model.safetensors"));
      const load_stats stats = found.stats();
      CHECK(stats.bytes_remote >= found.catalog().size_bytes() - (128 << 10));
      CHECK(stats.requests > 3);
      CHECK(stats.requests_repeated == 0);
      CHECK(stats.seconds_to_first_byte > 0);
      CHECK(stats.seconds_to_first_byte <= stats.seconds);
    }
  }
  CHECK(server.wait_until_alone());
  CHECK(server.accepted() <= 2 * (4 + 6));
  for (const web_request& each : server.log()) {
    CHECK(each.target == "/m/model.safetensors?download=true");
    CHECK(each.field("host") == "127.0.0.1:" + std::to_string(server.port()));
    CHECK(each.field("accept-encoding") == "identity");
    CHECK(each.field("authorization").empty());
  }
  CHECK(server.log().back().field("if-match") == "\"one\"");
}

TEST_CASE("http: an index, whose shards are asked for together before any tensor") {
  const std::string one = one_tensor_text("a", noise(300'000, 1));
  const std::string two = one_tensor_text("b", noise(300'000, 2));
  scripted_server server([&](const web_request& asked, std::uint64_t) {
    const std::string index =
        index_text({{"a", "sub/one.safetensors"}, {"b", "two x.safetensors"}});
    if (asked.target == "/m/model.safetensors.index.json") return web_range(asked, index);
    if (asked.target == "/m/sub/one.safetensors") return web_range(asked, one);
    if (asked.target == "/m/two%20x.safetensors") return web_range(asked, two);
    return web_response(404);
  });
  loader with = loads();
  {
    const model found =
        get(with.load_async(server.address("/m/model.safetensors.index.json"), use_future));
    CHECK(found.size() == 2);
    CHECK(bytes_of(found[0]) == noise(300'000, 1));
    CHECK(bytes_of(found[1]) == noise(300'000, 2));
    REQUIRE(found.stats_of_files().size() == 2);
    std::uint64_t bytes = 0;
    for (const file_stats& each : found.stats_of_files()) {
      CHECK(each.bytes_read >= 300'000);
      CHECK(each.bytes_per_second() > 0);
      bytes += each.bytes_read;
    }
    CHECK(bytes == found.stats().bytes_remote);
  }
  const auto log = server.log();
  REQUIRE(log.size() > 4);
  CHECK(log[1].field("range") == log[2].field("range"));
  CHECK(failure(with, server.address("/m/none.safetensors")).code() == errc::source_not_found);
  CHECK(failure(with, server.address("/m/")).code() == errc::unsupported_feature);
}

TEST_CASE("http: a load through a window counts what all its parts have asked for") {
  scripted_server server(good);
  loader with = loads();
  tensor_stream load =
      get(with.stream_async(server.address("/x.safetensors"), 32 << 20, use_future));
  std::uint64_t bytes = 0;
  while (auto next = get(load.next_async(use_future))) bytes += next->size_bytes();
  const load_stats stats = load.progress();
  CHECK(bytes == load.catalog().size_bytes());
  CHECK(stats.bytes_remote >= bytes - (128 << 10));
  CHECK(stats.requests > 3);
  CHECK(stats.seconds_to_first_byte > stats.seconds_opening);
  CHECK(load.progress_of_files().front().bytes_read == stats.bytes_remote);
}

TEST_CASE("http: an answer that is cut at any byte of its head is asked for again") {
  scripted_server server(good);
  const std::size_t head = good({"GET", "/", {{"range", "bytes=0-9"}}}, 0).bytes.size() - 10;
  for (std::size_t cut = 0; cut <= head; cut += cut < 20 ? 1 : 3) {
    for (const after how : {after::closed, after::reset}) {
      for (const std::uint64_t nth : {std::uint64_t{0}, header_requests}) {
        CAPTURE(cut);
        CAPTURE(nth);
        server.follow([cut, how, nth](const web_request& asked, std::uint64_t n) {
          web_reply reply = good(asked, n);
          if (n != nth) return reply;
          reply.bytes.resize(cut);
          reply.after = how;
          return reply;
        });
        loader with = loads();
        CHECK(right(get(with.load_async(server.address("/x.safetensors"), use_future))));
      }
    }
  }
}

TEST_CASE("http: a body that is cut is resumed at the byte that was reached") {
  scripted_server server(good);
  for (std::uint64_t seed = 1; seed < 40; ++seed) {
    CAPTURE(seed);
    std::uint64_t state = seed;
    std::string begun;  // The range that was cut.
    std::uint64_t arrived = 0;
    server.follow([&](const web_request& asked, std::uint64_t n) {
      web_reply reply = good(asked, n);
      if (n != header_requests) return reply;
      const std::size_t body = reply.bytes.find("\r\n\r\n") + 4;
      state = state * 6364136223846793005U + 1442695040888963407U;
      arrived = (state >> 33U) % (reply.bytes.size() - body);
      begun = asked.field("range");
      reply.bytes.resize(body + arrived);
      reply.after = after::closed;
      return reply;
    });
    remote_options how = quick();
    how.connections = 1;
    loader with = loads(how, 1);
    const model found = get(with.load_async(server.address("/x.safetensors"), use_future));
    CHECK(right(found));
    CHECK(found.stats().requests_repeated == 1);
    const auto log = server.log();
    const std::string wanted = "bytes=" + std::to_string(std::stoull(begun.substr(6)) + arrived) +
                               begun.substr(begun.find('-'));
    CHECK(log[header_requests + 1].field("range") == wanted);
    server.follow(good);
  }
}

TEST_CASE("http: the next request is sent while a range comes, and again where that breaks off") {
  scripted_server server(good);
  remote_options how = quick();
  how.connections = 1;
  loader with = loads(how);
  const std::string name = server.address("/x.safetensors");
  const model first = get(with.load_async(name, use_future));
  const std::uint64_t requests = server.log().size();
  server.follow([](const web_request& asked, std::uint64_t n) {
    web_reply reply = good(asked, n);
    if (n == header_requests + 2) reply.held = 5'000;
    return reply;
  });
  CHECK(right(get(with.load_async(name, use_future))));
  CHECK(server.log().size() == requests);
  CHECK(server.accepted() == 1);
  CHECK(server.ahead() == 1);
  std::uint64_t breaks = 1;
  for (std::uint64_t nth = header_requests; nth + 1 < requests; ++nth) {
    for (const after end : {after::closed, after::reset}) {
      CAPTURE(nth);
      server.follow([nth, end](const web_request& asked, std::uint64_t n) {
        web_reply reply = good(asked, n);
        if (n != nth) return reply;
        reply.bytes.resize(reply.bytes.size() - 100);
        reply.held = 5'000;
        reply.after = end;
        return reply;
      });
      const model found = get(with.load_async(name, use_future));
      CHECK(right(found));
      CHECK(found.stats().requests_repeated == 1);
      CHECK(server.ahead() == ++breaks);
    }
  }
}

TEST_CASE("http: each request in turn is refused for good, or once: an error, or the right bytes") {
  scripted_server server(good);
  std::uint64_t requests = 0;
  {
    loader with = loads();
    get(with.load_async(server.address("/x.safetensors"), use_future));
    requests = server.log().size();
  }
  for (std::uint64_t nth = 0; nth < requests; ++nth) {
    CAPTURE(nth);
    std::string victim;
    const auto refuse = [&](bool once) {
      return [&victim, nth, once](const web_request& asked, std::uint64_t n) {
        if (n == nth) victim = asked.field("range");
        const bool hit = n >= nth && asked.field("range") == victim && (!once || n == nth);
        return hit ? web_reply{"", after::reset} : good(asked, n);
      };
    };
    server.follow(refuse(false));
    loader with = loads();
    const error failed = failure(with, server.address("/x.safetensors"));
    CHECK(failed.code() == errc::remote_failed);
    CHECK(holds(failed.what(), server.address("/x.safetensors")));
    CHECK(holds(failed.what(), "3 times in a row"));
    server.follow(refuse(true));
    CHECK(right(get(with.load_async(server.address("/x.safetensors"), use_future))));
    server.follow(good);
  }
}

TEST_CASE("http: ranges, sizes, lengths and encodings that a server lies about are errors") {
  const auto with_head = [](std::vector<std::string> fields) {
    return [fields](const web_request& asked, std::uint64_t n) {
      web_reply reply = good(asked, n);
      if (n < header_requests) return reply;
      const std::string body = reply.bytes.substr(reply.bytes.find("\r\n\r\n") + 4);
      return web_reply{web_head(206, fields) + body};
    };
  };
  const std::string size = std::to_string(object.size());
  const std::vector<std::vector<std::string>> lies = {
      {"Content-Length: 65536"},
      {"Content-Length: 65536", "Content-Range: bytes 0-65535/" + size},
      {"Content-Length: 65536", "Content-Range: bytes 131072-" + size + "/" + size},
      {"Content-Length: 1", "Content-Range: bytes 131072-131071/" + size},
      {"Content-Length: 65536", "Content-Range: items 131072-196607/" + size},
      {"Content-Length: 65536", "Content-Range: bytes */" + size},
      {"Content-Length: 65536", "Content-Range: bytes 99999999999999999999-196607/" + size},
      {"Content-Length: 65536", "Content-Type: multipart/byteranges; boundary=x"},
      {"Content-Length: 65536", "Content-Encoding: gzip"},
  };
  scripted_server server(good);
  for (const auto& fields : lies) {
    CAPTURE(fields.back());
    server.follow(with_head(fields));
    loader with = loads();
    CHECK(failure(with, server.address("/x.safetensors")).code() == errc::malformed_answer);
  }
  // A response whose length is not that of the requested range.
  server.follow([](const web_request& asked, std::uint64_t n) {
    web_reply reply = good(asked, n);
    const auto at = reply.bytes.find("Content-Length: ");
    if (n >= header_requests) reply.bytes.insert(at + 16, "1");
    return reply;
  });
  loader with = loads();
  CHECK(failure(with, server.address("/x.safetensors")).code() == errc::malformed_answer);
}

TEST_CASE("http: what is no HTTP, or a head without end, is an error") {
  std::string interim;
  for (int i = 0; i < 9; ++i) interim += "HTTP/1.1 100 Continue\r\n\r\n";
  scripted_server server(good);
  for (const std::string& text :
       {std::string("SSH-2.0-OpenSSH_9.2\r\n\r\n"), std::string("HTTP/1.1 2x6 OK\r\n\r\n"),
        "HTTP/1.1 206 OK\r\nX: " + std::string(70'000, 'x') + "\r\n\r\n",
        std::string("HTTP/1.1 206 OK\r\nContent-Length: -1\r\n\r\n"),
        std::string("HTTP/1.1 206 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"),
        interim}) {
    CAPTURE(text.substr(0, 40));
    server.follow(
        [&](const web_request&, std::uint64_t) { return web_reply{text, after::closed}; });
    loader with = loads();
    CHECK(failure(with, server.address("/x.safetensors")).code() == errc::malformed_answer);
  }
}

TEST_CASE("http: chunk headers and trailers without end are errors after some KiB") {
  const std::string chunked = web_head(200, {"Transfer-Encoding: chunked"});
  // The beginning of the body, and the text that is repeated forever.
  const std::vector<std::pair<std::string, std::string>> forms = {
      {"5;", "x=y;"},         // Extensions,
      {"5;x", "x"},           // one of them,
      {"5;x=\"", "\\\""},     // or one that is quoted.
      {"0", "0"},             // The size of a chunk.
      {"0\r\n", "X: y\r\n"},  // Trailers,
      {"0\r\nX: ", "y"},      // or one of them.
  };
  scripted_server server(good);
  std::uint64_t before = 0;
  for (const auto& [begin, repeated] : forms) {
    for (const std::uint64_t nth : {std::uint64_t{0}, header_requests}) {
      CAPTURE(begin);
      CAPTURE(nth);
      server.follow([&, nth = nth](const web_request& asked, std::uint64_t n) {
        if (n < nth) return good(asked, n);
        web_reply reply{chunked + begin, after::endless, repeated};
        if (nth > 0)
          reply.bytes.replace(0, chunked.size(),
                              web_head(206, {"Transfer-Encoding: chunked", "ETag: \"one\"",
                                             "Content-Range: " + range_of(asked)}));
        return reply;
      });
      {
        // Idle connections end with the loader.
        loader with = loads();
        CHECK(failure(with, server.address("/x.safetensors")).code() == errc::malformed_answer);
      }
      CHECK(server.wait_until_alone());
      // The buffers of the sockets have more bytes than the client has received.
      CHECK(server.repeated_bytes() - before < (16 << 20));
      before = server.repeated_bytes();
    }
  }
}

TEST_CASE("http: an object that is replaced meanwhile is a changed file") {
  scripted_server server(good);
  const std::string longer = object + "x";
  const std::vector<scripted_server::rule> ways = {
      [](const web_request& asked, std::uint64_t n) {
        return web_range(asked, object, n < header_requests ? "\"one\"" : "\"two\"");
      },
      [](const web_request& asked, std::uint64_t n) {
        web_request blind = asked;
        blind.fields.erase("if-match");
        return web_range(blind, object, n < header_requests ? "\"one\"" : "\"two\"");
      },
      [&](const web_request& asked, std::uint64_t n) {
        return web_range(asked, n < header_requests ? object : longer);
      },
      [](const web_request& asked, std::uint64_t n) {
        return n < header_requests ? good(asked, n) : web_response(416);
      },
      [](const web_request& asked, std::uint64_t n) {
        web_reply reply = good(asked, n);
        const auto etag = reply.bytes.find("ETag: \"one\"");
        reply.bytes.replace(etag, 11,
                            n < header_requests ? "Last-Modified: then" : "Last-Modified: now");
        return reply;
      },
  };
  for (std::size_t i = 0; i < ways.size(); ++i) {
    CAPTURE(i);
    server.follow(ways[i]);
    loader with = loads();
    CHECK(failure(with, server.address("/x.safetensors")).code() == errc::changed_file);
  }
}

TEST_CASE("http: a server that stalls is given up after one limit, whatever is tried again") {
  scripted_server server(good);
  remote_options how = quick();
  how.stall_time_max = milliseconds(300);
  how.tries_max = 1'000'000;
  const auto check = [&](std::uint64_t nth, const scripted_server::rule& stalls) {
    server.follow([nth, &stalls](const web_request& asked, std::uint64_t n) {
      return n < nth ? good(asked, n) : stalls(asked, n);
    });
    loader with = loads(how);
    const error failed = failure(with, server.address("/x.safetensors"));
    CHECK(failed.code() == errc::remote_failed);
    CHECK(holds(failed.what(), "less than 64 KiB in 300 ms"));
    server.follow(good);
  };
  for (const std::uint64_t nth : {std::uint64_t{0}, header_requests}) {
    for (const milliseconds silence : {milliseconds(5), milliseconds(20'000)}) {
      CAPTURE(nth);
      CAPTURE(silence.count());
      how.silence_time_max = silence;
      // Only the head, half of each response, or one byte from time to time.
      check(nth, [](const web_request& asked, std::uint64_t n) {
        web_reply reply = good(asked, n);
        return web_reply{reply.bytes.substr(0, reply.bytes.find("\r\n\r\n") + 4), after::stalled};
      });
      check(nth, [](const web_request& asked, std::uint64_t n) {
        web_reply reply = good(asked, n);
        const std::size_t body = reply.bytes.find("\r\n\r\n") + 4;
        // The server sends less than 64 KiB in total: a hundredth of the remaining bytes of each
        // range.
        return web_reply{reply.bytes.substr(0, body + 100), after::stalled};
      });
      check(nth, [](const web_request& asked, std::uint64_t n) {
        return web_reply{good(asked, n).bytes.substr(0, 400), after::dripped};
      });
    }
  }
}

TEST_CASE("http: silence, and bytes that never end, come to an end") {
  scripted_server server(good);
  remote_options how = quick();
  how.silence_time_max = milliseconds(50);
  how.tries_max = 2;
  for (const std::size_t kept : {std::size_t{0}, std::size_t{30}, std::size_t{400}}) {
    for (const std::uint64_t nth : {std::uint64_t{0}, header_requests}) {
      CAPTURE(kept);
      server.follow([kept, nth](const web_request& asked, std::uint64_t n) {
        web_reply reply = good(asked, n);
        if (n < nth) return reply;
        reply.bytes.resize(std::min(kept, reply.bytes.size() - 1));
        reply.after = after::stalled;
        return reply;
      });
      loader with = loads(how);
      const error failed = failure(with, server.address("/x.safetensors"));
      CHECK(failed.code() == errc::remote_failed);
      CHECK(holds(failed.what(), "silent for too long"));
    }
  }
  how.silence_time_max = std::chrono::seconds(20);
  how.request_time_max = milliseconds(200);
  for (const std::uint64_t nth : {std::uint64_t{0}, header_requests}) {
    server.follow([nth](const web_request& asked, std::uint64_t n) {
      web_reply reply = good(asked, n);
      if (n < nth) return reply;
      reply.bytes.resize(std::min<std::size_t>(400, reply.bytes.size() - 1));
      reply.after = after::dripped;
      return reply;
    });
    loader with = loads(how);
    const error failed = failure(with, server.address("/x.safetensors"));
    CHECK(failed.code() == errc::remote_failed);
    CHECK(holds(failed.what(), "200 ms"));
  }
}

TEST_CASE("http: chunk_bytes may be the largest number, and an empty read ends") {
  scripted_server server(good);
  remote_options options = quick();
  options.chunk_bytes = std::numeric_limits<std::uint64_t>::max();
  const std::string name = server.address("/m/model.safetensors");
  loader reader = loads(options);
  CHECK(right(get(reader.load_async(name, use_future))));
  for (const std::uint64_t chunk_bytes : {std::uint64_t{64} << 10, options.chunk_bytes}) {
    CAPTURE(chunk_bytes);
    options.chunk_bytes = chunk_bytes;
    const extension network = remote(options);
    const found_source found = network.store()->find(name, {});
    const auto source = found.folder->open(found.file, {});
    for (const std::uint64_t offset : {std::uint64_t{0}, source->bytes()}) {
      const auto ended = std::make_shared<std::promise<bool>>();
      auto end = ended->get_future();
      source->read_async({offset, {}}, [ended](std::exception_ptr failure) {
        ended->set_value(failure == nullptr);
      });
      CHECK(get(std::move(end)));
    }
  }
}
