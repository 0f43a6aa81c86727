// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ranks in threads of a test, which are connected by each transport. Only the test's own thread may
// use checks, so the ranks return their observations.

#include <doctest/doctest.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <ringload/group.hpp>
#include <string>
#include <thread>
#include <vector>

#include "support/meeting_place.hpp"
#include "support/waiting.hpp"

namespace ringload::testing {

// The text of its exception, or an empty string.
inline std::string what_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

// By rank.
inline std::vector<std::string> all_said(std::uint32_t ranks,
                                         const std::function<void(group&)>& work,
                                         std::chrono::milliseconds timeout = patience,
                                         rank_transport transport = rank_transport::threads) {
  std::vector<std::unique_ptr<group>> groups(ranks);
  if (transport == rank_transport::threads) groups = make_thread_ranks(ranks, timeout);
  const meeting_place place(transport);
  std::vector<std::string> said(ranks);
  std::vector<std::jthread> threads;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r, own = std::move(groups[r])]() mutable {
      said[r] = what_of([&] {
        if (!own) own = join_group(place.address(), r, ranks, timeout);
        work(*own);
      });
      own.reset();
    });
  }
  threads.clear();
  return said;
}

// `work` returns an error text, or an empty text.
inline void on_threads(std::uint32_t ranks, const std::function<std::string(group&)>& work,
                       rank_transport transport = rank_transport::threads) {
  std::vector<std::string> wrong(ranks);
  const auto said =
      all_said(ranks, [&](group& all) { wrong[all.rank()] = work(all); }, patience, transport);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    CHECK(said[r] == "");
    CHECK(wrong[r] == "");
  }
}

}  // namespace ringload::testing
