// SPDX-License-Identifier: Apache-2.0

// The check that all ranks make the same call.

#include "ranks/check_same_call.hpp"

#include <doctest/doctest.h>

#include "support/rank_threads.hpp"

using namespace ringload;
using namespace ringload::testing;

TEST_CASE("agreement: ranks that make the same call agree, with any number of ranks") {
  for (const std::uint32_t ranks : {1U, 2U, 5U}) {
    CAPTURE(ranks);
    on_threads(ranks, [](group& all) {
      return detail::check_same_call(all, "shard 'a' along dimension 0") ? "" : "it disagreed";
    });
  }
}

TEST_CASE(
    "agreement: all ranks get the same error, with the first rank that differs and both calls") {
  on_threads(4, [](group& all) -> std::string {
    const bool differs = all.rank() >= 2;
    const auto outcome = detail::check_same_call(all, differs ? "tensor 'b'" : "tensor 'a'");
    if (outcome) return "it agreed";
    if (outcome.error().code != errc::mismatched_call) return "another code";
    const std::string text = message_of(outcome.error());
    const bool complete = text.find("rank 2") != std::string::npos &&
                          text.find("'b'") != std::string::npos &&
                          text.find("'a'") != std::string::npos;
    return complete ? "" : text;
  });
}

TEST_CASE("agreement: calls that differ past the bytes that are shown differ all the same") {
  on_threads(2, [](group& all) -> std::string {
    const std::string call = std::string(5000, 'x') + (all.rank() == 0 ? "a" : "b");
    return detail::check_same_call(all, call) ? "it agreed" : "";
  });
}

TEST_CASE("agreement: a disagreement does not end the group") {
  on_threads(2, [](group& all) -> std::string {
    if (detail::check_same_call(all, all.rank() == 0 ? "a" : "b")) return "it agreed";
    return detail::check_same_call(all, "c") ? "" : "the group had ended";
  });
}
