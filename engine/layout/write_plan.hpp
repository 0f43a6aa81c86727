// SPDX-License-Identifier: Apache-2.0
#pragma once

// Cuts pieces of files into writes.
//
//   pieces   |head|aaaaaaaaaaaaaaa|bb|ccccccccc|          one run: no gap between them
//   writes   |------0------|------1------|--2--|3|        cut at multiples of a slot in the file
//   gathers   head a        a      bb ccc c     c         what fills each of them
//
// A write is direct where begin and length are multiples of the unit of direct I/O. Only at the
// ends of a run are they not: these are writes of their own, which go through the page cache. So a
// file that is written in one run has at most one, at its end.

#include <cstdint>
#include <span>
#include <vector>

#include "core/fault.hpp"
#include "layout/file_layout.hpp"

namespace ringload::inline v0 {

struct write_op {
  std::uint64_t file_offset;
  std::uint32_t file;
  std::uint32_t bytes;          // At most a slot; never 0.
  std::uint32_t gathers_begin;  // It is filled by write_plan::gathers[gathers_begin, gathers_end).
  std::uint32_t gathers_end;
};

struct gather_op {
  std::uint64_t source_offset;
  std::uint32_t source;
  std::uint32_t write_offset;  // From the first byte of the write.
  std::uint32_t bytes;         // Never 0.
};

struct write_plan {
  std::vector<write_op> writes;    // In the order of (file, offset).
  std::vector<gather_op> gathers;  // Those of a write side by side, in the order of their offsets.
};

struct write_rules {
  std::uint64_t slot_bytes = 0;   // A power of two.
  std::uint64_t direct_unit = 0;  // A power of two, at most slot_bytes.
};

// errc::size_overflow for more writes or gathers than 32 bits count. No two pieces may overlap.
result<write_plan> plan_writes(std::vector<file_piece> pieces, const write_rules& by);

}  // namespace ringload::inline v0
