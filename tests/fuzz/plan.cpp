// SPDX-License-Identifier: Apache-2.0

// For any extents, the plan copies each wanted byte to its destination exactly once, converted if
// requested, and no read is larger than a slot.

#include "plan/make_plan.hpp"

#include <algorithm>
#include <vector>

#include "base/checked.hpp"
#include "fuzz.hpp"

namespace {

using namespace ringload;
using ringload::testing::hold;

constexpr std::uint64_t tensor_bytes_max = 400'000;
constexpr std::uint64_t gap_bytes_max = 200'000;
constexpr std::size_t tensors_max = 200;

constexpr float_type float_types[] = {float_type::f32, float_type::f16, float_type::bf16,
                                      float_type::f8_e4m3fn, float_type::f8_e5m2};

// One of the 15 pairs. A pair of equal types needs no conversion.
conversion conversion_of(std::uint64_t number) {
  return {float_types[number % 5], float_types[number / 5 % 3]};
}

std::uint64_t landed_bytes(std::uint64_t bytes, conversion as) {
  return as.needed() ? bytes / as.from_bytes() * as.to_bytes() : bytes;
}

struct setting {
  std::vector<wanted_tensor> wanted;
  placement_rules rules;
  std::uint64_t slot_bytes = 0;
};

setting read_setting(ringload::testing::number_source from) {
  setting s;
  s.slot_bytes = std::uint64_t{4096} << (from.take(1) % 6);
  s.rules.unstaged = from.take(1) % 2 == 0;
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
    if (kind / 64 == 3) {
      wanted_tensor& e = s.wanted.back();
      e.cast = conversion_of(from.take(1));
      if (e.cast.needed()) {
        e.bytes -= e.bytes % e.cast.from_bytes();
        s.slot_bytes = std::max(s.slot_bytes, 2 * std::uint64_t{block_bytes});
      }
    }
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
    if (r.is_unstaged()) {
      hold(s.rules.unstaged, "reads are unstaged only where they can");
      hold(r.destination_offset % block_bytes == 0, "unstaged reads begin on a block");
      hold(r.destination_offset + r.bytes <= made.arena_bytes, "and inside the arena");
      hold(r.copies_begin == r.copies_end, "and need no copy");
    }
    for (std::uint32_t c = r.copies_begin; c < r.copies_end; ++c) {
      const copy_op& copy = made.copies[c];
      hold(std::uint64_t{copy.slot_offset} + copy.bytes <= r.bytes_needed, "copies use what came");
      hold(!copy.cast.needed() || copy.bytes % copy.cast.from_bytes() == 0, "elements stay whole");
      hold(copy.destination_offset + landed_bytes(copy.bytes, copy.cast) <= made.arena_bytes,
           "copies stay inside the arena");
    }
  }
}

// Bytes of a file that an unstaged read or a copy writes to the arena.
struct landing {
  std::uint64_t destination_offset;
  std::uint64_t bytes;  // In the arena.
  std::uint64_t file_offset;
  std::uint32_t file;
  conversion cast = {};
};

std::vector<landing> writes_of(const plan& made) {
  std::vector<landing> all;
  for (const read_op& r : made.reads) {
    if (r.is_unstaged()) all.push_back({r.destination_offset, r.bytes, r.file_offset, r.file});
    for (std::uint32_t c = r.copies_begin; c < r.copies_end; ++c) {
      const copy_op& copy = made.copies[c];
      all.push_back({copy.destination_offset, landed_bytes(copy.bytes, copy.cast),
                     r.file_offset + copy.slot_offset, r.file, copy.cast});
    }
  }
  return all;
}

void check_tensor(const wanted_tensor& wanted, const placement& at,
                  const std::vector<landing>& writes) {
  const std::uint64_t bytes = landed_bytes(wanted.bytes, wanted.cast);
  std::uint64_t arrived = 0;
  for (const landing& w : writes) {
    const std::uint64_t begin = std::max(w.destination_offset, at.destination_offset);
    const std::uint64_t end =
        std::min(w.destination_offset + w.bytes, at.destination_offset + bytes);
    if (begin >= end) continue;
    hold(w.cast.needed() == wanted.cast.needed(), "what lands is converted if it is to be");
    // Offsets in the written range and in the tensor, in bytes of the file.
    std::uint64_t skipped = begin - w.destination_offset;
    std::uint64_t before = begin - at.destination_offset;
    if (wanted.cast.needed()) {
      hold(w.cast == wanted.cast, "and in the way it is to be");
      hold(skipped == 0 && before % wanted.cast.to_bytes() == 0, "element by element");
      before = before / wanted.cast.to_bytes() * wanted.cast.from_bytes();
    }
    hold(w.file == wanted.file && w.file_offset + skipped == wanted.offset + before,
         "what lands in a tensor's place is the tensor's");
    arrived += end - begin;
  }
  hold(arrived == bytes, "each byte of a tensor lands once");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const setting s =
      read_setting(ringload::testing::number_source(std::as_bytes(std::span(bytes, size))));
  plan_input input;
  input.tensors = s.wanted;
  const auto made = make_plan(input, s.rules, {s.slot_bytes});
  hold(made.has_value(), "small extents can be planned");
  hold(made->tensors.size() == s.wanted.size(), "each tensor has a place");
  check_reads(*made, s);
  const std::vector<landing> writes = writes_of(*made);
  for (std::size_t t = 0; t < s.wanted.size(); ++t) {
    const wanted_tensor& e = s.wanted[t];
    const placement& p = made->tensors[t];
    if (e.bytes == 0) {
      hold(p.parts_begin == p.parts_end, "an empty tensor waits for nothing");
      continue;
    }
    hold(p.destination_offset % std::max<std::uint64_t>(e.alignment, s.rules.tensor_alignment) == 0,
         "a tensor is aligned");
    check_tensor(e, p, writes);
    hold(p.parts_begin < made->parts.size() && p.parts_end <= made->parts.size(),
         "a tensor has a part");
    const part& only = made->parts[p.parts_begin];
    hold(only.tensor == t, "it is its own");
    for (std::uint32_t r = only.reads_begin; r < only.reads_end; ++r) {
      const read_op& read = made->reads[r];
      hold(read.parts_begin <= p.parts_begin && p.parts_begin < read.parts_end,
           "a read knows its tensors");
    }
  }
  return 0;
}
