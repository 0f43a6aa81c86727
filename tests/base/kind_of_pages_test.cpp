// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/mapping.hpp"
#include "support/resident.hpp"
#include "support/skip.hpp"

using namespace ringload;
using ringload::testing::can_populate;
using ringload::testing::skip;

namespace {

void check_kind(std::span<const std::byte> memory, page_kind expected) {
  CHECK(kind_of(memory) == expected);
  CHECK(kind_by_smaps(memory) == expected);
}

}  // namespace

TEST_CASE("kind_of: reports the actual pages, not the requested ones") {
  const auto small = mapping::make(huge_page_bytes, page_kind::small);
  REQUIRE(small.has_value());
  CHECK_FALSE(populate(small->span()));
  check_kind(small->span(), page_kind::small);

  // A request alone does not create a huge page.
  const auto untouched = mapping::make(huge_page_bytes, page_kind::transparent);
  REQUIRE(untouched.has_value());
  check_kind(untouched->span(), page_kind::small);
}

TEST_CASE("kind_of: huge pages of which at least half of the present bytes are transparent") {
  if (!can_populate()) return skip("this kernel has no MADV_POPULATE_WRITE");
  const auto huge = mapping::make(8 * huge_page_bytes, page_kind::transparent);
  REQUIRE(huge.has_value());
  const std::span<std::byte> half = huge->span().first(4 * huge_page_bytes);
  CHECK_FALSE(populate(half));
  if (kind_of(half) != page_kind::transparent) return skip("this kernel has no huge page to give");
  // The pages of the other half are not present.
  check_kind(huge->span(), page_kind::transparent);
  check_kind(huge->span().subspan(huge_page_bytes + 1, 1), page_kind::transparent);

  const auto small = mapping::make(9 * huge_page_bytes, page_kind::small);
  REQUIRE(small.has_value());
  // Each second page is present, so the memory has more regions than one call reports.
  for (std::uint64_t at = 0; at < small->bytes(); at += 2 * system_page_bytes()) {
    small->data()[at] = std::byte{1};
  }
  check_kind(small->span(), page_kind::small);
}

TEST_CASE("kind_of: reserved pages are told from transparent ones") {
  if (!can_populate()) return skip("this kernel has no MADV_POPULATE_WRITE");
  const auto reserved = mapping::make(huge_page_bytes, page_kind::hugetlb);
  if (!reserved) return skip(message_of(reserved.error()));
  if (const auto failed = populate(reserved->span())) return skip(failed.message());
  check_kind(reserved->span(), page_kind::hugetlb);
}
