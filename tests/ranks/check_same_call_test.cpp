// SPDX-License-Identifier: Apache-2.0

// Whether all ranks make the same call.

#include "ranks/check_same_call.hpp"

#include <doctest/doctest.h>

#include "support/rank_threads.hpp"

using namespace ringload;
using namespace ringload::testing;

TEST_CASE("agreement: ranks that make the same call agree, with any number of ranks") {
  for (const std::uint32_t ranks : {1U, 2U, 5U}) {
    CAPTURE(ranks);
    on_threads(ranks, [](group& all) {
      return detail::agree(all, "shard 'a' along dimension 0") ? "" : "it disagreed";
    });
  }
}

TEST_CASE(
    "agreement: all ranks get the same error, with the first rank that differs and both calls") {
  on_threads(4, [](group& all) -> std::string {
    const bool differs = all.rank() >= 2;
    const auto outcome = detail::agree(all, differs ? "tensor 'b'" : "tensor 'a'");
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
    return detail::agree(all, call) ? "it agreed" : "";
  });
}

TEST_CASE("agreement: a disagreement does not end the group") {
  on_threads(2, [](group& all) -> std::string {
    if (detail::agree(all, all.rank() == 0 ? "a" : "b")) return "it agreed";
    return detail::agree(all, "c") ? "" : "the group had ended";
  });
}
