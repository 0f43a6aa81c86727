// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ranks in threads of a test. Checks belong in the test's own thread: the ranks say what they saw.

#include <doctest/doctest.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <ringload/group.hpp>
#include <string>
#include <thread>
#include <vector>

#include "support/waiting.hpp"

namespace ringload::testing {

// What it throws; empty if it does not.
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
                                         std::chrono::milliseconds timeout = patience) {
  std::vector<std::unique_ptr<group>> groups = make_thread_ranks(ranks, timeout);
  std::vector<std::string> said(ranks);
  std::vector<std::jthread> threads;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    threads.emplace_back([&said, &work, r, own = std::move(groups[r])]() mutable {
      said[r] = what_of([&] { work(*own); });
      own.reset();
    });
  }
  threads.clear();
  return said;
}

// `work` returns what is wrong, or an empty text.
inline void on_threads(std::uint32_t ranks, const std::function<std::string(group&)>& work) {
  std::vector<std::string> wrong(ranks);
  const auto said = all_said(ranks, [&](group& all) { wrong[all.rank()] = work(all); });
  for (std::uint32_t r = 0; r < ranks; ++r) {
    CHECK(said[r] == "");
    CHECK(wrong[r] == "");
  }
}

}  // namespace ringload::testing
