// SPDX-License-Identifier: Apache-2.0
#include "stages.hpp"

#include <doctest/doctest.h>

using namespace ringload::bench;

TEST_CASE("stages: a loader below its wall reaches a share of it") {
  const legs_rates rates = {"drive alone", 2.0, 1.9, 1.8};
  CHECK(rates.is_conclusive());
  CHECK(verdict_of(rates) ==
        "The wall is drive alone. The loader reaches 0.900 of it, and 0.947 of what both give "
        "without a format.");
}

TEST_CASE("stages: a loader above its wall by no more than runs differ is a share too") {
  CHECK(legs_rates{"drive alone", 2.0, 2.0, 2.05}.is_conclusive());
  CHECK_FALSE(legs_rates{"drive alone", 2.0, 2.0, 2.2}.is_conclusive());
}

TEST_CASE("stages: a loader above its wall is inconclusive, and no share is claimed") {
  const legs_rates rates = {"device copies alone", 1.0, 2.0, 2.452};
  CHECK_FALSE(rates.is_conclusive());
  CHECK(verdict_of(rates) ==
        "Inconclusive: the loader's 2.45 GB/s is above its wall, device copies alone with 1.00 "
        "GB/s. Something else has slowed the machine down meanwhile: measure again, with more "
        "--runs.");
}

TEST_CASE("stages: rates of nothing are inconclusive") {
  CHECK_FALSE(legs_rates{"drive alone", 0, 0, 1}.is_conclusive());
}
