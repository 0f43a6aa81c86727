// SPDX-License-Identifier: Apache-2.0
#include "base/mapping.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <utility>

#include "support/resident.hpp"
#include "support/skip.hpp"

using namespace ringload;
using ringload::testing::can_populate;
using ringload::testing::resident_pages;
using ringload::testing::skip;

namespace {

std::uintptr_t address_of(const mapping& m) { return reinterpret_cast<std::uintptr_t>(m.data()); }

bool is_mapped(const std::byte* at, std::size_t bytes) {
  unsigned char pages[1024];
  return ::mincore(const_cast<std::byte*>(at), bytes, pages) == 0;
}

std::uint64_t free_huge_pages() {
  std::ifstream meminfo("/proc/meminfo");
  for (std::string word; meminfo >> word;) {
    std::uint64_t count = 0;
    if (word == "HugePages_Free:" && meminfo >> count) return count;
  }
  return 0;
}

}  // namespace

TEST_CASE("mapping: takes whole small pages and no more, from 2 MiB on at a huge page") {
  for (const page_kind kind : {page_kind::small, page_kind::transparent}) {
    for (const std::uint64_t bytes :
         {std::uint64_t{1}, std::uint64_t{4096}, std::uint64_t{4097}, huge_page_bytes - 1,
          huge_page_bytes, huge_page_bytes + 1, 3 * huge_page_bytes - 1, 3 * huge_page_bytes}) {
      CAPTURE(bytes);
      const auto made = mapping::make(bytes, kind);
      REQUIRE(made.has_value());
      CHECK(address_of(*made) % (bytes < huge_page_bytes ? 4096 : huge_page_bytes) == 0);
      CHECK(made->bytes() == (bytes + 4095) / 4096 * 4096);
      CHECK(made->span().data() == made->data());
      CHECK(made->span().size() == made->bytes());
    }
  }
}

TEST_CASE("mapping: what does not fill a huge page has small ones, so nothing more is taken") {
  if (!can_populate()) return skip("this kernel has no MADV_POPULATE_WRITE");
  const auto made = mapping::make(2 * huge_page_bytes + 8192, page_kind::transparent);
  REQUIRE(made.has_value());
  const auto rest = made->span().subspan(2 * huge_page_bytes);
  REQUIRE_FALSE(populate(rest.first(4096)));
  CHECK(resident_pages(rest) == 1);
}

TEST_CASE("mapping: the memory is zero, has no pages yet, and can be written to its end") {
  const auto made = mapping::make(huge_page_bytes, page_kind::small);
  REQUIRE(made.has_value());
  CHECK(resident_pages(made->span()) == 0);
  CHECK(std::all_of(made->span().begin(), made->span().end(),
                    [](std::byte b) { return b == std::byte{0}; }));
  made->span().front() = std::byte{1};
  made->span().back() = std::byte{2};
  CHECK(made->span().front() == std::byte{1});
  CHECK(made->span().back() == std::byte{2});
}

TEST_CASE("mapping: moving takes the memory along, and the last owner gives it back") {
  auto first = mapping::make(4096, page_kind::small);
  REQUIRE(first.has_value());
  std::byte* const at = first->data();
  *at = std::byte{42};
  {
    const mapping second = std::move(*first);
    CHECK(first->data() == nullptr);
    CHECK(first->bytes() == 0);
    CHECK(second.data() == at);
    CHECK(second.bytes() == 4096);
    CHECK(*second.data() == std::byte{42});
  }
  CHECK_FALSE(is_mapped(at, 4096));
}

TEST_CASE("mapping: move assignment leaves nothing mapped twice and nothing behind") {
  std::byte* before = nullptr;
  std::byte* after = nullptr;
  {
    auto target = mapping::make(4096, page_kind::small);
    REQUIRE(target.has_value());
    before = target->data();
    {
      auto source = mapping::make(8192, page_kind::small);
      REQUIRE(source.has_value());
      after = source->data();
      *target = std::move(*source);
    }
    CHECK(target->data() == after);
    CHECK(target->bytes() == 8192);
    CHECK_FALSE(is_mapped(before, 4096));
    CHECK(is_mapped(after, 8192));
  }
  CHECK_FALSE(is_mapped(after, 8192));
}

TEST_CASE("mapping: a size that cannot be had is a fault that names it") {
  const auto text = [](page_kind kind) {
    const auto made = mapping::make(std::uint64_t{1} << 60, kind);
    REQUIRE_FALSE(made.has_value());
    CHECK(made.error().code == system_code(ENOMEM));
    return message_of(made.error());
  };
  const std::string begin = "mapping 1,152,921,504,606,846,976 bytes of ";
  const std::string end = ": Cannot allocate memory";
  CHECK(text(page_kind::small) == begin + "memory" + end);
  CHECK(text(page_kind::transparent) == begin + "memory" + end);
  CHECK(text(page_kind::hugetlb) == begin + "reserved huge pages" + end);
}

TEST_CASE("mapping: a size that cannot be rounded up within 64 bits is refused") {
  for (const page_kind kind : {page_kind::small, page_kind::transparent, page_kind::hugetlb}) {
    CHECK_FALSE(mapping::make(UINT64_MAX, kind).has_value());
    CHECK_FALSE(mapping::make(UINT64_MAX - huge_page_bytes + 1, kind).has_value());
    CHECK_FALSE(mapping::make(UINT64_MAX - huge_page_bytes, kind).has_value());
  }
}

TEST_CASE("mapping: hugetlb pages are refused where none are reserved") {
  if (free_huge_pages() > 0) return skip("this machine has hugetlb pages to give");
  const auto made = mapping::make(huge_page_bytes, page_kind::hugetlb);
  REQUIRE_FALSE(made.has_value());
  CHECK(made.error().code == system_code(ENOMEM));
}

TEST_CASE("map_again: the addresses stay, what was written is gone, the rest is untouched") {
  const auto made = mapping::make(3 * huge_page_bytes, page_kind::transparent);
  REQUIRE(made.has_value());
  const std::span<std::byte> all = made->span();
  for (const std::uint64_t at : {std::uint64_t{0}, huge_page_bytes, 2 * huge_page_bytes}) {
    all[at] = std::byte{7};
  }
  REQUIRE_FALSE(map_again(all.subspan(huge_page_bytes, huge_page_bytes), page_kind::small));
  CHECK(all[0] == std::byte{7});
  CHECK(all[huge_page_bytes] == std::byte{0});
  CHECK(all[2 * huge_page_bytes] == std::byte{7});
}

TEST_CASE("page_kind: has the names that people know") {
  CHECK(name(page_kind::small) == "4k");
  CHECK(name(page_kind::transparent) == "thp");
  CHECK(name(page_kind::hugetlb) == "hugetlb");
}

TEST_CASE("populate: makes the pages of a range present, and no others") {
  if (!can_populate()) return skip("this kernel has no MADV_POPULATE_WRITE");
  const auto made = mapping::make(huge_page_bytes, page_kind::small);
  REQUIRE(made.has_value());
  // 8,192 bytes that begin in the middle of page 1 are in the pages 1, 2 and 3.
  CHECK_FALSE(populate(made->span().subspan(4096 + 2048, 8192)));
  CHECK(resident_pages(made->span()) == 3);
  CHECK(resident_pages(made->span().subspan(4096, 3 * 4096)) == 3);

  CHECK_FALSE(populate(made->span()));
  CHECK(resident_pages(made->span()) == huge_page_bytes / 4096);
}

TEST_CASE("populate: takes a range over several huge pages, from anywhere to anywhere") {
  if (!can_populate()) return skip("this kernel has no MADV_POPULATE_WRITE");
  constexpr std::uint64_t pages = huge_page_bytes / 4096;
  const auto made = mapping::make(4 * huge_page_bytes, page_kind::small);
  REQUIRE(made.has_value());
  // From the last page of the first huge page to the first page of the last.
  const auto part = made->span().subspan((pages - 1) * 4096, 2 * huge_page_bytes + 2 * 4096);
  CHECK_FALSE(populate(part));
  CHECK(resident_pages(part) == 2 * pages + 2);
  CHECK(resident_pages(made->span()) == 2 * pages + 2);

  const auto huge = mapping::make(3 * huge_page_bytes, page_kind::transparent);
  REQUIRE(huge.has_value());
  CHECK_FALSE(populate(huge->span().subspan(4096)));
  CHECK(resident_pages(huge->span().subspan(4096)) == 3 * pages - 1);
}

TEST_CASE("populate: keeps what was written, and takes an empty range") {
  const auto made = mapping::make(8192, page_kind::small);
  REQUIRE(made.has_value());
  made->span()[5000] = std::byte{7};
  CHECK_FALSE(populate(made->span()));
  CHECK(made->span()[5000] == std::byte{7});
  CHECK_FALSE(populate({}));
}

TEST_CASE("populate: fails where nothing is mapped") {
  if (!can_populate()) return skip("this kernel has no MADV_POPULATE_WRITE");
  std::byte* gone = nullptr;
  {
    const auto made = mapping::make(4096, page_kind::small);
    REQUIRE(made.has_value());
    gone = made->data();
  }
  CHECK(populate({gone, 4096}) == system_code(ENOMEM));
}

TEST_CASE("mapping: what was never written to is absent") {
  const auto made = mapping::make(3 * huge_page_bytes, page_kind::transparent);
  REQUIRE(made.has_value());
  CHECK(absent_bytes(made->span()) == 3 * huge_page_bytes);
  if (!can_populate()) return;
  REQUIRE_FALSE(populate(made->span().subspan(huge_page_bytes, huge_page_bytes)));
  CHECK(absent_bytes(made->span()) == 2 * huge_page_bytes);
  REQUIRE_FALSE(populate(made->span()));
  CHECK(absent_bytes(made->span()) == 0);
  CHECK(absent_bytes({}) == 0);
}
