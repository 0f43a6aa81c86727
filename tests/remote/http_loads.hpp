// SPDX-License-Identifier: Apache-2.0
#pragma once

// A file on a scripted server, and loads of it.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdint>
#include <ringload/remote.hpp>
#include <ringload/ringload.hpp>
#include <string>

#include "remote/scripted_server.hpp"
#include "support/counted_device.hpp"
#include "support/made_checkpoint.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace ringload::testing {

using std::chrono::milliseconds;
using after = web_reply::end;

inline const std::string object =
    checkpoint_text({{"a", 999}, f32("b", 100'000), {"c", 250'000}, {"d", 70'001}}, 3);
inline constexpr std::uint64_t header_requests = 1;  // The first request receives the whole header.

inline remote_options quick() {
  remote_options how;
  how.connections = 4;
  how.chunk_bytes = 64 << 10;
  how.connect_time_max = std::chrono::seconds(20);
  how.silence_time_max = std::chrono::seconds(20);
  how.request_time_max = std::chrono::seconds(50);
  how.retry_delay = milliseconds(1);
  how.retry_delay_max = milliseconds(2);
  how.tries_max = 3;
  how.hub.cache = hub_cache::off;
  return how;
}

inline loader loads(const remote_options& how = quick(), std::uint32_t slots = 4) {
  return loader(counted_host(), small_options(slots), {remote(how)});
}

inline bool right(const model& found) {
  std::string all;
  for (const tensor& t : found) all += bytes_of(t);
  return object.ends_with(all) && all.size() == found.catalog().size_bytes() && found.size() == 4;
}

inline web_reply good(const web_request& asked, std::uint64_t) { return web_range(asked, object); }

// The load fails and leaves no memory or files.
inline error failure(loader& with, const std::string& name) {
  const auto failed = failure_of(with.load_async(name, use_future));
  REQUIRE(failed);
  CHECK(arenas_taken == 0);
  return *failed;
}

}  // namespace ringload::testing
