// SPDX-License-Identifier: Apache-2.0
#include "staging/slots.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <utility>

#include "core/block.hpp"
#include "support/resident.hpp"
#include "support/skip.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::uint64_t slot_bytes = std::uint64_t{256} << 10;

std::uintptr_t address_of(const std::byte* at) { return reinterpret_cast<std::uintptr_t>(at); }

std::uint64_t reserved_huge_pages() {
  std::ifstream meminfo("/proc/meminfo");
  for (std::string word; meminfo >> word;) {
    std::uint64_t count = 0;
    if (word == "HugePages_Total:" && meminfo >> count) return count;
  }
  return 0;
}

}  // namespace

TEST_CASE("slots: follow one another without a gap or an overlap") {
  const auto made = slots::make(16, slot_bytes);
  REQUIRE(made.has_value());
  CHECK(made->whole().size() >= 16 * slot_bytes);
  CHECK(made->at(0).data() == made->whole().data());
  for (std::uint32_t i = 0; i < 16; ++i) {
    CHECK(made->at(i).size() == slot_bytes);
    CHECK(made->at(i).data() == made->whole().data() + i * slot_bytes);
  }
}

TEST_CASE("slots: what is written into one stays there and out of the others") {
  const auto made = slots::make(16, slot_bytes);
  REQUIRE(made.has_value());
  for (std::uint32_t i = 0; i < 16; ++i) {
    std::ranges::fill(made->at(i), static_cast<std::byte>(i + 1));
  }
  for (std::uint32_t i = 0; i < 16; ++i) {
    CAPTURE(i);
    const std::span<std::byte> slot = made->at(i);
    CHECK(std::ranges::count(slot, static_cast<std::byte>(i + 1)) ==
          static_cast<std::ptrdiff_t>(slot_bytes));
  }
}

TEST_CASE("slots: the region begins on a huge page from 2 MiB on, and on a block in any case") {
  for (const std::uint32_t count : {8U, 9U, 16U, 40U}) {
    CAPTURE(count);
    const auto made = slots::make(count, slot_bytes);
    REQUIRE(made.has_value());
    CHECK(address_of(made->whole().data()) % huge_page_bytes == 0);
  }
  const auto few = slots::make(1, std::uint64_t{64} << 10);
  REQUIRE(few.has_value());
  CHECK(address_of(few->at(0).data()) % block_bytes == 0);
  CHECK(few->at(0).size() == std::uint64_t{64} << 10);
}

TEST_CASE("slots: have all their pages from the start") {
  if (!can_populate()) return skip("this kernel has no MADV_POPULATE_WRITE");
  for (const std::uint32_t count : {1U, 16U}) {
    const auto made = slots::make(count, slot_bytes);
    REQUIRE(made.has_value());
    CHECK(resident_pages(made->whole()) == made->whole().size() / 4096);
  }
}

TEST_CASE("slots: say on what pages they lie") {
  // Less than a huge page, and none reserved: nothing but small pages is possible.
  const auto few = slots::make(1, std::uint64_t{64} << 10);
  REQUIRE(few.has_value());
  const auto many = slots::make(16, slot_bytes);
  REQUIRE(many.has_value());
  if (reserved_huge_pages() == 0) {
    CHECK(few->kind() == page_kind::small);
    CHECK(many->kind() != page_kind::hugetlb);
  } else {
    CHECK(few->kind() != page_kind::transparent);
  }
}

TEST_CASE("slots: lie on transparent huge pages where those are to be had") {
  if (reserved_huge_pages() > 0) return skip("this machine has hugetlb pages to give");
  std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string enabled;
  std::getline(setting, enabled);
  if (enabled.empty() || enabled.find("[never]") != std::string::npos) {
    return skip("this kernel gives no transparent huge pages");
  }
  // On a machine whose memory is in shreds one attempt may find none; some attempts do.
  bool seen = false;
  for (int i = 0; i < 20 && !seen; ++i) {
    const auto made = slots::make(16, slot_bytes);
    REQUIRE(made.has_value());
    seen = made->kind() == page_kind::transparent;
  }
  CHECK(seen);
}

TEST_CASE("slots: too many of them are a fault that names them") {
  const auto made = slots::make(1024, std::uint64_t{1} << 50);
  REQUIRE_FALSE(made.has_value());
  CHECK(made.error().code == system_code(ENOMEM));
  CHECK(message_of(made.error()) ==
        "slots: mapping 1,152,921,504,606,846,976 bytes of memory: Cannot allocate memory");
}

TEST_CASE("slots: stay at their addresses when their owner moves") {
  auto made = slots::make(2, slot_bytes);
  REQUIRE(made.has_value());
  std::byte* const second = made->at(1).data();
  const slots moved = std::move(*made);
  CHECK(moved.at(1).data() == second);
  CHECK(moved.at(1).size() == slot_bytes);
  CHECK(made->whole().empty());
}
