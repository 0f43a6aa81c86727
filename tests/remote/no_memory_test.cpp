// SPDX-License-Identifier: Apache-2.0

// Each allocation of a load over HTTP fails in turn. The load ends, with the correct bytes or with
// an error, and the loader still works. A separate executable, because failing_new replaces
// operator new.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <ringload/remote.hpp>
#include <ringload/ringload.hpp>
#include <string>
#include <thread>

#include "remote/cache/range_set.hpp"
#include "remote/http_loads.hpp"
#include "support/counted_device.hpp"
#include "support/failing_new.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

web_reply without_ranges(const web_request&, std::uint64_t) {
  return web_response(200, {"ETag: \"one\""}, object);
}

web_reply redirected(const web_request& request, std::uint64_t number) {
  if (request.target != "/file") return web_response(302, {"Location: /file"});
  return good(request, number);
}

// Every third request gets the status 503, or its connection breaks.
web_reply unreliable(const web_request& request, std::uint64_t number) {
  if (number % 6 == 2) return web_response(503, {"Retry-After: 0"});
  web_reply reply = good(request, number);
  if (number % 6 == 5) {
    reply.bytes.resize(reply.bytes.size() / 2);
    reply.after = after::reset;
  }
  return reply;
}

// A request that no connection takes fails by this limit, before an idle connection ends.
remote_options impatient() {
  remote_options options = quick();
  options.request_time_max = std::chrono::seconds(15);
  return options;
}

// Fails each allocation of a load in turn. If the loader is not kept, each load has a new loader,
// whose end is a part of the walk.
void walk(const scripted_server& server, const remote_options& options, bool keeps_loader) {
  const std::string name = server.address("/m/model.safetensors");
  std::unique_ptr<loader> current(new loader(loads(options)));
  std::int64_t n = 0;
  std::int64_t complete = 0;
  for (bool more = true; more; ++n) {
    REQUIRE(n < 100'000);
    CAPTURE(n);
    if (!current) current.reset(new loader(loads(options)));
    const failing_at now(n);
    const bool succeeds = succeeds_or_lacks_memory([&] {
      const model loaded = get(current->load_async(name, as_exception(asio::use_future)));
      CHECK(right(loaded));
    });
    if (succeeds) ++complete;
    if (!keeps_loader) current.reset();
    more = has_failed;
  }
  MESSAGE(n << " points, " << complete << " of them without consequence");
  CHECK(n > 10);
  if (!current) current.reset(new loader(loads(options)));
  CHECK(right(get(current->load_async(name, as_exception(asio::use_future)))));
  current.reset();
  CHECK(arenas_taken == 0);
}

}  // namespace

TEST_CASE("no memory: at each allocation of a load over HTTP in turn, it ends") {
  scripted_server server(good);
  for (const bool keeps_loader : {true, false}) {
    CAPTURE(keeps_loader);
    walk(server, impatient(), keeps_loader);
  }
}

TEST_CASE("no memory: at each allocation in turn, a load with redirects and retries ends") {
  scripted_server moved(redirected);
  walk(moved, impatient(), false);
  scripted_server broken(unreliable);
  remote_options options = impatient();
  options.tries_max = 1'000;
  walk(broken, options, true);
}

TEST_CASE("no memory: at each allocation in turn, a load without ranges ends") {
  scripted_server server(without_ranges);
  walk(server, impatient(), false);
}

TEST_CASE("no memory: a range that cannot be added leaves the set of ranges as it is") {
  using remote_http::byte_range;
  bool is_any_refused = false;
  for (const byte_range added : {byte_range{10, 20}, byte_range{5, 35}, byte_range{50, 60}}) {
    CAPTURE(added.begin);
    remote_http::range_set set(100);
    for (const byte_range present : {byte_range{0, 10}, byte_range{20, 30}}) set.add(present);
    const std::string before = set.to_text();
    bool is_refused = false;
    {
      const failing_at first(0);
      std::thread([&] {  // Allocations of the test's thread do not fail.
        try {
          set.add(added);
        } catch (const std::bad_alloc&) {
          is_refused = true;
        }
      })
          .join();
    }
    is_any_refused |= is_refused;
    CHECK(set.has(added) != is_refused);
    CHECK((set.to_text() == before) == is_refused);
    CHECK(set.prefix_bytes() >= 10);
  }
  CHECK(is_any_refused);
}
