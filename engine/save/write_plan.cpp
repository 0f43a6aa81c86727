// SPDX-License-Identifier: Apache-2.0

#include "save/write_plan.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <tuple>

#include "base/checked.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::size_t count_max = std::numeric_limits<std::uint32_t>::max();

class write_planner {
 public:
  write_planner(std::span<const file_piece> pieces, const write_rules& rules)
      : pieces_(pieces), rules_(rules) {}

  // Plans the writes of the pieces [first, last). The pieces must be adjacent in one file.
  result<void> plan_run(std::size_t first, std::size_t last) {
    const std::uint64_t begin = pieces_[first].file_offset;
    const std::uint64_t end = pieces_[last - 1].file_offset + pieces_[last - 1].bytes;
    next_piece_ = first;
    planned_bytes_ = 0;
    const std::uint64_t direct_begin = std::min(end, round_up(begin, rules_.direct_unit));
    const std::uint64_t direct_end = std::max(direct_begin, round_down(end, rules_.direct_unit));
    if (auto status = plan_write(begin, direct_begin); !status) return status;
    for (std::uint64_t offset = direct_begin; offset < direct_end;) {
      const std::uint64_t slot_end = round_down(offset, rules_.slot_bytes) + rules_.slot_bytes;
      const std::uint64_t write_end = std::min(direct_end, slot_end);
      if (auto status = plan_write(offset, write_end); !status) return status;
      offset = write_end;
    }
    return plan_write(direct_end, end);
  }

  write_plan out;

 private:
  result<void> plan_write(std::uint64_t begin, std::uint64_t end) {
    if (begin == end) return {};
    write_op write = {};
    write.file_offset = begin;
    write.file = pieces_[next_piece_].file;
    write.bytes = static_cast<std::uint32_t>(end - begin);
    write.gathers_begin = static_cast<std::uint32_t>(out.gathers.size());
    for (std::uint64_t offset = begin; offset < end;) {
      const file_piece& piece = pieces_[next_piece_];
      const std::uint64_t bytes = std::min(piece.bytes - planned_bytes_, end - offset);
      out.gathers.push_back({planned_bytes_, piece.source,
                             static_cast<std::uint32_t>(offset - begin),
                             static_cast<std::uint32_t>(bytes)});
      offset += bytes;
      planned_bytes_ += bytes;
      if (planned_bytes_ < piece.bytes) continue;
      ++next_piece_;
      planned_bytes_ = 0;
    }
    if (out.gathers.size() > count_max || out.writes.size() >= count_max) {
      return fault{errc::size_overflow, {}, "the save needs more writes than 32 bits can count"};
    }
    write.gathers_end = static_cast<std::uint32_t>(out.gathers.size());
    out.writes.push_back(write);
    return {};
  }

  const std::span<const file_piece> pieces_;
  const write_rules& rules_;
  // The piece that contains the next byte to plan, and the number of its bytes that are planned.
  std::size_t next_piece_ = 0;
  std::uint64_t planned_bytes_ = 0;
};

}  // namespace

result<write_plan> plan_writes(std::vector<file_piece> pieces, const write_rules& rules) {
  std::erase_if(pieces, [](const file_piece& p) { return p.bytes == 0; });
  std::ranges::sort(pieces, {},
                    [](const file_piece& p) { return std::tuple(p.file, p.file_offset); });
  write_planner planner(pieces, rules);
  for (std::size_t first = 0; first < pieces.size();) {
    std::size_t last = first + 1;
    while (last < pieces.size() && pieces[last].file == pieces[first].file &&
           pieces[last].file_offset == pieces[last - 1].file_offset + pieces[last - 1].bytes) {
      ++last;
    }
    if (auto status = planner.plan_run(first, last); !status) return status.error();
    first = last;
  }
  return std::move(planner.out);
}

}  // namespace ringload::inline v0
