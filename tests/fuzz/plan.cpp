// SPDX-License-Identifier: Apache-2.0

// Whatever the extents, the plan brings each wanted byte to its place exactly once, and asks for no
// more than a slot at a time.

#include "plan/make_plan.hpp"

#include <algorithm>
#include <vector>

#include "core/checked.hpp"
#include "fuzz.hpp"

namespace {

using namespace ringload;
using ringload::testing::hold;

constexpr std::uint64_t tensor_bytes_max = 400'000;
constexpr std::uint64_t gap_bytes_max = 200'000;
constexpr std::size_t tensors_max = 200;

struct setting {
  std::vector<extent> wanted;
  layout_rules rules;
  std::uint64_t slot_bytes = 0;
};

setting read_setting(ringload::testing::number_source from) {
  setting s;
  s.slot_bytes = std::uint64_t{4096} << (from.take(1) % 6);
  s.rules.straight = from.take(1) % 2 == 0;
  s.rules.tensor_alignment = std::uint64_t{1} << (from.take(1) % 13);
  s.rules.aligned_run_bytes = from.take(3);
  std::uint32_t file = 0;
  std::uint64_t at = from.take(2);
  while (!from.empty() && s.wanted.size() < tensors_max) {
    const std::uint64_t kind = from.take(1);
    if (kind % 16 == 0) {
      ++file;
      at = from.take(2);
    }
    if (kind % 4 == 1) at += from.take(3) % gap_bytes_max;
    const std::uint64_t bytes = kind % 8 == 2 ? 0 : from.take(3) % tensor_bytes_max;
    const auto alignment = static_cast<std::uint32_t>(1U << (kind / 16 % 4));
    s.wanted.push_back({file, alignment, at, bytes});
    at += bytes;
  }
  return s;
}

void check_reads(const plan& made, const setting& s) {
  for (const read_op& r : made.reads) {
    hold(r.file_offset % block_bytes == 0 && r.bytes % block_bytes == 0, "reads are aligned");
    hold(r.bytes <= s.slot_bytes && r.bytes > 0, "a read fits in a slot");
    hold(r.bytes_needed <= r.bytes && r.bytes - r.bytes_needed < block_bytes,
         "what is asked for is what is needed, rounded up");
    if (r.straight()) {
      hold(s.rules.straight, "reads land straight only where they can");
      hold(r.arena_offset % block_bytes == 0, "straight reads land on a block");
      hold(r.arena_offset + r.bytes <= made.arena_bytes, "and inside the arena");
      hold(r.copies_begin == r.copies_end, "and need no copy");
    }
    for (std::uint32_t c = r.copies_begin; c < r.copies_end; ++c) {
      const copy_op& copy = made.copies[c];
      hold(std::uint64_t{copy.slot_offset} + copy.bytes <= r.bytes_needed, "copies use what came");
      hold(copy.arena_offset + copy.bytes <= made.arena_bytes, "copies stay inside the arena");
    }
  }
}

// Bytes of a file that come to lie in the arena, by a straight read or by a copy.
struct landing {
  std::uint64_t arena_offset;
  std::uint64_t bytes;
  std::uint64_t file_offset;
  std::uint32_t file;
};

std::vector<landing> writes_of(const plan& made) {
  std::vector<landing> all;
  for (const read_op& r : made.reads) {
    if (r.straight()) all.push_back({r.arena_offset, r.bytes, r.file_offset, r.file});
    for (std::uint32_t c = r.copies_begin; c < r.copies_end; ++c) {
      const copy_op& copy = made.copies[c];
      all.push_back({copy.arena_offset, copy.bytes, r.file_offset + copy.slot_offset, r.file});
    }
  }
  return all;
}

void check_tensor(const extent& wanted, const placement& at, const std::vector<landing>& writes) {
  std::uint64_t arrived = 0;
  for (const landing& w : writes) {
    const std::uint64_t begin = std::max(w.arena_offset, at.arena_offset);
    const std::uint64_t end = std::min(w.arena_offset + w.bytes, at.arena_offset + wanted.bytes);
    if (begin >= end) continue;
    hold(w.file == wanted.file &&
             w.file_offset + (begin - w.arena_offset) == wanted.offset + (begin - at.arena_offset),
         "what lands in a tensor's place is the tensor's");
    arrived += end - begin;
  }
  hold(arrived == wanted.bytes, "each byte of a tensor lands once");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const setting s =
      read_setting(ringload::testing::number_source(std::as_bytes(std::span(input, size))));
  const auto made = make_plan(s.wanted, s.rules, s.slot_bytes, ~std::uint64_t{0});
  hold(made.has_value(), "small extents can be planned");
  hold(made->tensors.size() == s.wanted.size(), "each tensor has a place");
  check_reads(*made, s);
  const std::vector<landing> writes = writes_of(*made);
  for (std::size_t t = 0; t < s.wanted.size(); ++t) {
    const extent& e = s.wanted[t];
    const placement& p = made->tensors[t];
    if (e.bytes == 0) {
      hold(p.reads_begin == p.reads_end, "an empty tensor waits for nothing");
      continue;
    }
    hold(p.arena_offset % std::max<std::uint64_t>(e.alignment, s.rules.tensor_alignment) == 0,
         "a tensor is aligned");
    check_tensor(e, p, writes);
    for (std::uint32_t r = p.reads_begin; r < p.reads_end; ++r) {
      const read_op& read = made->reads[r];
      hold(static_cast<std::uint32_t>(t) >= read.tensors_begin && t < read.tensors_end,
           "a read knows its tensors");
    }
  }
  return 0;
}
