// SPDX-License-Identifier: Apache-2.0
#include "base/free_list.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

using ringload::free_list;

namespace {

// Counts its objects instead of allocating memory.
class counted {
 public:
  static inline std::atomic<std::uint64_t> taken = 0;

  explicit counted(std::uint64_t bytes) : bytes_(bytes) { taken += bytes; }
  counted(counted&& other) noexcept : bytes_(std::exchange(other.bytes_, 0)) {}
  counted& operator=(counted&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~counted() { taken -= bytes_; }

  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::uint64_t bytes_;
};

std::uint64_t taken_bytes(free_list<counted>& from, std::uint64_t bytes) {
  const auto found = from.take(bytes);
  return found ? found->bytes() : 0;
}

}  // namespace

TEST_CASE("free_list: gives a block that is large enough, and at most a quarter too large") {
  for (const std::uint64_t wanted : {1ULL, 799ULL, 1001ULL, 1ULL << 40U}) {
    CAPTURE(wanted);
    free_list<counted> kept(10'000);
    kept.put(counted(1000));
    CHECK_FALSE(kept.has(wanted));
    CHECK(taken_bytes(kept, wanted) == 0);
    CHECK(kept.bytes() == 1000);
  }
  for (const std::uint64_t wanted : {800ULL, 999ULL, 1000ULL}) {
    CAPTURE(wanted);
    free_list<counted> kept(10'000);
    kept.put(counted(1000));
    CHECK(kept.has(wanted));
    CHECK(taken_bytes(kept, wanted) == 1000);
    CHECK_FALSE(kept.has(wanted));
    CHECK(kept.bytes() == 0);
    CHECK(taken_bytes(kept, wanted) == 0);
  }
}

TEST_CASE("free_list: best fit") {
  free_list<counted> kept(10'000);
  for (const std::uint64_t bytes : {1100U, 1000U, 900U, 1050U}) kept.put(counted(bytes));
  CHECK(taken_bytes(kept, 950) == 1000);
  CHECK(taken_bytes(kept, 950) == 1050);
  CHECK(taken_bytes(kept, 950) == 1100);
  CHECK(taken_bytes(kept, 950) == 0);
  CHECK(kept.bytes() == 900);
}

TEST_CASE("free_list: keeps no more than its limit, and evicts the oldest") {
  free_list<counted> kept(1000);
  kept.put(counted(400));
  kept.put(counted(300));
  kept.put(counted(300));
  CHECK(counted::taken == 1000);
  kept.put(counted(500));
  CHECK(counted::taken == 800);  // 400 and the older 300 were freed.
  CHECK(taken_bytes(kept, 400) == 500);
  CHECK(taken_bytes(kept, 300) == 300);
  CHECK(counted::taken == 0);
}

TEST_CASE("free_list: a block larger than the limit is freed, and evicts nothing") {
  free_list<counted> kept(1000);
  kept.put(counted(600));
  kept.put(counted(1001));
  CHECK(counted::taken == 600);
  kept.put(counted(1000));
  CHECK(counted::taken == 1000);
  CHECK(kept.bytes() == 1000);
  kept.clear();
  CHECK(counted::taken == 0);
  CHECK(kept.bytes() == 0);
}

TEST_CASE("free_list: a block below the minimum size is freed") {
  free_list<counted> kept(1000, 100);
  kept.put(counted(99));
  CHECK(counted::taken == 0);
  kept.put(counted(100));
  CHECK(kept.bytes() == 100);
}

TEST_CASE("free_list: frees everything when it is destroyed") {
  {
    free_list<counted> kept(1000);
    kept.put(counted(600));
    CHECK(counted::taken == 600);
  }
  CHECK(counted::taken == 0);
}

TEST_CASE("free_list: is thread safe") {
  free_list<counted> kept(1000);
  std::vector<std::thread> users;
  for (int user = 0; user < 4; ++user) {
    users.emplace_back([&kept] {
      for (std::uint64_t i = 0; i < 2000; ++i) {
        auto found = kept.take(90);
        kept.put(found ? std::move(*found) : counted(100));
        if (i % 500 == 0) kept.clear();
      }
    });
  }
  for (std::thread& each : users) each.join();
  CHECK(kept.bytes() == counted::taken);
  CHECK(kept.bytes() <= 1000);
}
