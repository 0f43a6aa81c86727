// SPDX-License-Identifier: Apache-2.0
#include "io/slots.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <utility>

#include "base/io_unit.hpp"
#include "support/resident.hpp"
#include "support/skip.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t slot_bytes = 256 * kib;
constexpr int populate_write = 23;

// Simulates a kernel with reserved pages. Mappings on them are ordinary memory, and populating them
// fails if a simulated control group forbids it.
struct pretended_pool {
  bool pretended = false;
  bool forbidden = false;
  std::uint64_t free_bytes = 0;
  std::uint64_t asked_bytes = 0;
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};
pretended_pool pool;

// Calls of other code do not see the pool of an earlier case.
struct pretending {
  pretending(std::uint64_t free_bytes, bool forbidden) {
    pool = {};
    pool.pretended = true;
    pool.forbidden = forbidden;
    pool.free_bytes = free_bytes;
  }
  pretending(const pretending&) = delete;
  pretending& operator=(const pretending&) = delete;
  ~pretending() { pool = {}; }
};

std::uintptr_t address_of(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

std::uint64_t free_huge_pages() {
  std::ifstream file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  std::uint64_t count = 0;
  file >> count;
  return count;
}

// All slots, populated.
slots populated(std::uint32_t count, std::uint64_t bytes,
                huge_pages pages = huge_pages::transparent) {
  auto made = slots::make(count, bytes, pages);
  REQUIRE(made.has_value());
  for (std::uint32_t i = 0; i < count; ++i) REQUIRE(made->populate(i).has_value());
  return std::move(*made);
}

template <class Function>
Function* next_of(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// For clang's sanitizers, whose own function is hidden by this one.
extern "C" [[gnu::weak]] void* ___interceptor_mmap(void*, std::size_t, int, int, int, ::off_t);

// Replaces the function of the C library.
extern "C" void* mmap(void* wanted, std::size_t bytes, int rights, int flags, int fd,
                      ::off_t offset) noexcept {
  using function = void*(void*, std::size_t, int, int, int, ::off_t);
  static function* const real =
      ___interceptor_mmap != nullptr ? &___interceptor_mmap : next_of<function>("mmap");
  if (!pool.pretended || (flags & MAP_HUGETLB) == 0) {
    const bool inside = address_of(wanted) >= pool.begin && address_of(wanted) < pool.end;
    // Memory that is mapped again is no longer part of the pool.
    if (inside && (flags & MAP_FIXED) != 0) pool.begin = address_of(wanted) + bytes;
    return real(wanted, bytes, rights, flags, fd, offset);
  }
  pool.asked_bytes += bytes;
  if (bytes > pool.free_bytes) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  void* const at =
      real(wanted, bytes + huge_page_bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
  const std::uintptr_t aligned =
      (address_of(at) + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
  pool.begin = aligned;
  pool.end = aligned + bytes;
  return reinterpret_cast<void*>(aligned);
}

extern "C" int madvise(void* at, std::size_t bytes, int advice) noexcept {
  using function = int(void*, std::size_t, int);
  static function* const real = next_of<function>("madvise");
  const bool inside = address_of(at) >= pool.begin && address_of(at) < pool.end;
  if (pool.forbidden && inside && advice == populate_write) {
    errno = EFAULT;  // The kernel returns this error if a page fault would raise SIGBUS.
    return -1;
  }
  return real(at, bytes, advice);
}

TEST_CASE("slots: follow one another without a gap or an overlap, and nothing is left over") {
  for (const std::uint32_t count : {1U, 9U, 16U}) {
    const auto made = slots::make(count, slot_bytes, huge_pages::transparent);
    REQUIRE(made.has_value());
    CHECK(made->memory().size() == count * slot_bytes);
    for (std::uint32_t i = 0; i < count; ++i) {
      CHECK(made->at(i).size() == slot_bytes);
      CHECK(made->at(i).data() == made->memory().data() + i * slot_bytes);
    }
  }
}

TEST_CASE("slots: do not share bytes") {
  const slots made = populated(16, slot_bytes);
  for (std::uint32_t i = 0; i < 16; ++i) {
    std::ranges::fill(made.at(i), static_cast<std::byte>(i + 1));
  }
  for (std::uint32_t i = 0; i < 16; ++i) {
    CAPTURE(i);
    const std::span<std::byte> slot = made.at(i);
    CHECK(std::ranges::count(slot, static_cast<std::byte>(i + 1)) ==
          static_cast<std::ptrdiff_t>(slot_bytes));
  }
}

TEST_CASE("slots: the region begins on a huge page from 2 MiB on, and on a block in any case") {
  for (const std::uint32_t count : {8U, 9U, 16U, 40U}) {
    CAPTURE(count);
    const auto made = slots::make(count, slot_bytes, huge_pages::transparent);
    REQUIRE(made.has_value());
    CHECK(address_of(made->memory().data()) % huge_page_bytes == 0);
  }
  const auto few = slots::make(1, 64 * kib, huge_pages::transparent);
  REQUIRE(few.has_value());
  CHECK(address_of(few->at(0).data()) % block_bytes == 0);
  CHECK(few->at(0).size() == 64 * kib);
}

TEST_CASE("slots: have no page until they are populated, and then all of theirs") {
  if (!can_populate()) return skip("this kernel has no MADV_POPULATE_WRITE");
  for (const huge_pages pages : {huge_pages::transparent, huge_pages::none}) {
    const auto made = slots::make(3, 2 * huge_page_bytes, pages);
    REQUIRE(made.has_value());
    CHECK(resident_pages(made->memory()) == 0);
    REQUIRE(made->populate(1).value() == "");
    CHECK(resident_pages(made->at(1)) == made->slot_bytes() / 4096);
    CHECK(resident_pages(made->memory()) == made->slot_bytes() / 4096);
  }
}

TEST_CASE("slots: all of them together never take more than their number times their size") {
  if (!can_populate()) return skip("this kernel has no MADV_POPULATE_WRITE");
  // 2.25 MiB, so the last slot is after the only whole huge page.
  const slots made = populated(9, slot_bytes);
  CHECK(resident_pages(made.memory()) == 9 * slot_bytes / 4096);
  CHECK(kind_of(made.at(8)) != page_kind::hugetlb);
}

TEST_CASE("slots: with no huge pages they lie on small ones") {
  const slots made = populated(2, huge_page_bytes, huge_pages::none);
  CHECK(kind_of(made.at(0)) == page_kind::small);
  CHECK(made.not_reserved_reason() == "");
}

TEST_CASE("slots: are on transparent huge pages where available") {
  std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string enabled;
  std::getline(setting, enabled);
  if (enabled.empty() || enabled.find("[never]") != std::string::npos) {
    return skip("this kernel gives no transparent huge pages");
  }
  // If the memory is fragmented, one attempt may find no huge page, but one of several attempts
  // finds some.
  bool seen = false;
  for (int i = 0; i < 20 && !seen; ++i) {
    seen = kind_of(populated(16, slot_bytes).at(0)) == page_kind::transparent;
  }
  CHECK(seen);
}

TEST_CASE("slots: reserved pages are not used unless asked for") {
  for (const huge_pages pages : {huge_pages::transparent, huge_pages::none}) {
    const pretending now(64 * huge_page_bytes, false);
    (void)populated(4, huge_page_bytes, pages);
    (void)populated(16, slot_bytes, pages);
    CHECK(pool.asked_bytes == 0);
  }
}

TEST_CASE("slots: reserved pages are taken where a slot is whole ones, and only as many") {
  const pretending now(64 * huge_page_bytes, false);
  const slots made = populated(4, 2 * huge_page_bytes, huge_pages::reserved);
  CHECK(pool.asked_bytes == 8 * huge_page_bytes);
  CHECK(address_of(made.memory().data()) == pool.begin);
  CHECK(made.memory().size() == 8 * huge_page_bytes);
  CHECK(made.not_reserved_reason() == "");
}

TEST_CASE("slots: smaller ones than a reserved page lie elsewhere, and say so") {
  const pretending now(64 * huge_page_bytes, false);
  // 16 slots are two whole pages, but one slot is not a whole page.
  const slots made = populated(16, slot_bytes, huge_pages::reserved);
  CHECK(pool.asked_bytes == 0);
  CHECK(made.memory().size() == 16 * slot_bytes);
  CHECK(made.not_reserved_reason() ==
        "slot_bytes is 262,144, expected a multiple of 2,097,152 for reserved huge pages");
}

TEST_CASE("slots: where too few reserved pages are free they lie elsewhere, and say so") {
  const pretending now(7 * huge_page_bytes, false);
  const slots made = populated(4, 2 * huge_page_bytes, huge_pages::reserved);
  CHECK(made.not_reserved_reason() ==
        "mapping 16,777,216 bytes of reserved huge pages: Cannot allocate memory");
  std::ranges::fill(made.memory(), std::byte{1});
}

TEST_CASE("slots: reserved pages that a control group forbids are replaced, slot by slot") {
  if (!can_populate()) return skip("this kernel has no MADV_POPULATE_WRITE");
  const pretending now(64 * huge_page_bytes, true);
  auto made = slots::make(3, huge_page_bytes, huge_pages::reserved);
  REQUIRE(made.has_value());
  CHECK(made->not_reserved_reason() == "");  // No slot was populated yet.
  std::byte* const first = made->at(0).data();
  const std::string why = made->populate(0).value();
  CHECK(why ==
        "the kernel does not populate reserved pages: Cannot allocate memory; a control "
        "group may forbid them");
  CHECK(made->at(0).data() == first);
  std::ranges::fill(made->at(0), std::byte{1});
  CHECK(resident_pages(made->at(0)) == huge_page_bytes / 4096);

  // The limit was raised meanwhile, so the next slot keeps its reserved pages.
  pool.forbidden = false;
  CHECK(made->populate(1).value() == "");
  CHECK(resident_pages(made->memory().subspan(2 * huge_page_bytes)) == 0);
}

TEST_CASE("slots: real reserved pages are set aside with the region, and come back with its end") {
  const std::uint64_t before = free_huge_pages();
  if (before < 4) return skip("fewer than four reserved huge pages are free");
  {
    auto made = slots::make(2, 2 * huge_page_bytes, huge_pages::reserved);
    REQUIRE(made.has_value());
    if (made->not_reserved_reason() != "") return skip(made->not_reserved_reason());
    const std::string why = made->populate(0).value();
    if (why != "") return skip(why);
    CHECK(kind_of(made->at(0)) == page_kind::hugetlb);
    std::ranges::fill(made->at(0), std::byte{1});
    CHECK(free_huge_pages() <= before - 2);
  }
}

TEST_CASE("slots: too many of them are a fault by name") {
  const auto made = slots::make(1024, std::uint64_t{1} << 50, huge_pages::transparent);
  REQUIRE_FALSE(made.has_value());
  CHECK(made.error().code == system_code(ENOMEM));
  CHECK(message_of(made.error()) ==
        "slots: mapping 1,152,921,504,606,846,976 bytes of memory: Cannot allocate memory");
}

TEST_CASE("slots: keep their addresses when moved") {
  auto made = slots::make(2, slot_bytes, huge_pages::transparent);
  REQUIRE(made.has_value());
  std::byte* const second = made->at(1).data();
  const slots moved = std::move(*made);
  CHECK(moved.at(1).data() == second);
  CHECK(moved.at(1).size() == slot_bytes);
  CHECK(made->memory().empty());
}
