// SPDX-License-Identifier: Apache-2.0
#pragma once

// Divides pieces of files into writes.
//
//   pieces   |head|aaaaaaaaaaaaaaa|bb|ccccccccc|          one run: no gap between them
//   writes   |------0------|------1------|--2--|3|        cut at multiples of a slot in the file
//   gathers   head a        a      bb ccc c     c         the sources of each write
//
// A write is direct if its offset and length are multiples of the unit of direct I/O. Only the ends
// of a run may be unaligned; they become separate writes through the page cache. A file that is
// written in one run therefore has at most one such write, at its end.

#include <cstdint>
#include <span>
#include <vector>

#include "base/fault.hpp"
#include "save/file_layout.hpp"

namespace ringload::inline v0 {

struct write_op {
  std::uint64_t file_offset;
  std::uint32_t file;
  std::uint32_t bytes;          // At most a slot; never 0.
  std::uint32_t gathers_begin;  // write_plan::gathers[gathers_begin, gathers_end) fill the write.
  std::uint32_t gathers_end;
};

struct gather_op {
  std::uint64_t source_offset;
  std::uint32_t source;
  std::uint32_t write_offset;  // From the first byte of the write.
  std::uint32_t bytes;         // Never 0.
};

struct write_plan {
  std::vector<write_op> writes;    // Ordered by (file, offset).
  std::vector<gather_op> gathers;  // The gathers of a write are contiguous and ordered by offset.
};

struct write_rules {
  std::uint64_t slot_bytes = 0;   // A power of two.
  std::uint64_t direct_unit = 0;  // A power of two, at most slot_bytes.
};

// Fails with errc::size_overflow for more writes or gathers than 32 bits can count. Pieces must not
// overlap.
result<write_plan> plan_writes(std::vector<file_piece> pieces, const write_rules& rules);

}  // namespace ringload::inline v0
