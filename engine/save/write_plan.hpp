// SPDX-License-Identifier: Apache-2.0
#pragma once

// Divides the pieces of files into writes. Adjacent pieces form a run, which is divided at
// multiples of the size of a slot (I/O buffer).
//
//   pieces   |head|aaaaaaaaaaaaaaa|bb|ccccccccccc|    one run
//   writes   |------0------|------1------|--2--|3|    0 to 2 are direct, 3 is the unaligned end
//   gathers   head a        a      bb ccc c     c     the sources of each write
//
// A write is direct if its offset and length are multiples of the unit of direct I/O. Only the
// first and the last bytes of a run can be unaligned. Unaligned bytes become separate writes
// through the page cache. A file that consists of one run has at most one unaligned write, at the
// end of the file.

#include <cstdint>
#include <span>
#include <vector>

#include "base/fault.hpp"
#include "save/file_layout.hpp"

namespace ringload::inline v0 {

struct write_op {
  std::uint64_t file_offset;
  std::uint32_t file;
  std::uint32_t bytes;  // At most one slot, never 0.
  // The bytes are gathered by write_plan::gathers[gathers_begin, gathers_end).
  std::uint32_t gathers_begin;
  std::uint32_t gathers_end;
};

// Copies a range of a source into a write.
struct gather_op {
  std::uint64_t source_offset;
  std::uint32_t source;
  std::uint32_t write_offset;  // Offset from the first byte of the write.
  std::uint32_t bytes;         // Never 0.
};

struct write_plan {
  std::vector<write_op> writes;  // Ordered by file and offset.
  // The gathers of a write are adjacent, and ordered by offset.
  std::vector<gather_op> gathers;
};

struct write_rules {
  std::uint64_t slot_bytes = 0;   // Must be a power of two.
  std::uint64_t direct_unit = 0;  // Must be a power of two, at most slot_bytes.
};

// Pieces must not overlap. Fails with errc::size_overflow if the number of writes or gathers
// exceeds 32 bits.
result<write_plan> plan_writes(std::vector<file_piece> pieces, const write_rules& rules);

}  // namespace ringload::inline v0
