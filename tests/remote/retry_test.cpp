// SPDX-License-Identifier: Apache-2.0

// The delay before a failed request is repeated.

#include "remote/http/retry.hpp"

#include <doctest/doctest.h>

using namespace ringload::remote_http;
using std::chrono::milliseconds;

TEST_CASE("retry: the delay doubles up to its limit, and half of it is random") {
  retry_rules rules;
  rules.tries_max = 8;
  retry_state least(rules);
  retry_state most(rules);
  // The delay doubles from 250 ms to 8 s at the sixth failure. The minimum is half of the delay.
  for (const int full : {250, 500, 1000, 2000, 4000, 8000, 8000}) {
    CHECK(least.failed(0.0) == milliseconds(full / 2));
    CHECK(most.failed(0.999) <= milliseconds(full));
  }
  CHECK_FALSE(least.failed(0.0).has_value());
}

TEST_CASE("retry: with one try a request is never repeated") {
  retry_rules rules;
  rules.tries_max = 1;
  CHECK_FALSE(retry_state(rules).failed(0.5).has_value());
}

TEST_CASE("retry: progress of 64 KiB resets the count, less does not") {
  retry_rules rules;
  rules.tries_max = 3;
  retry_state state(rules);
  CHECK(state.failed(0).has_value());
  state.progressed(retry_state::progress_bytes - 1);
  CHECK(state.failures() == 1);
  state.progressed(retry_state::progress_bytes);
  CHECK(state.failures() == 0);
}

TEST_CASE("retry: Retry-After is obeyed up to a limit, and above it the request fails") {
  retry_rules rules;
  retry_state state(rules);
  CHECK(state.failed(0.5, milliseconds(60'000)) == milliseconds(60'000));
  CHECK_FALSE(state.failed(0.5, milliseconds(60'001)).has_value());
}

TEST_CASE("retry: a Retry-After of 0 does not shorten the delay") {
  retry_rules rules;
  retry_state state(rules);
  CHECK(state.failed(0, milliseconds(0)) == milliseconds(125));
  CHECK(state.failed(0, milliseconds(10)) == milliseconds(250));
  CHECK(state.failed(0, milliseconds(1000)) == milliseconds(1000));
}

TEST_CASE("retry: Retry-After is seconds or a date") {
  const std::int64_t now = 784'111'777;  // Sun, 06 Nov 1994 08:49:37 GMT.
  CHECK(parse_retry_after("0", now) == milliseconds(0));
  CHECK(parse_retry_after("120", now) == milliseconds(120'000));
  CHECK(parse_retry_after("99999999999999999999", now) ==
        parse_retry_after("2147483647", now));  // Longer than any limit.
  CHECK(parse_retry_after("Sun, 06 Nov 1994 08:49:47 GMT", now) == milliseconds(10'000));
  CHECK(parse_retry_after("Sun, 06 Nov 1994 08:49:27 GMT", now) == milliseconds(0));
  for (const char* malformed :
       {"", "-1", "12x", "soon", "Sun, 06 Nov 1994 08:49:37", "Sun, 31 Feb 1994 08:49:37 GMT"}) {
    CAPTURE(malformed);
    CHECK_FALSE(parse_retry_after(malformed, now).has_value());
  }
}
