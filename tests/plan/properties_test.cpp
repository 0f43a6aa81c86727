// SPDX-License-Identifier: Apache-2.0

// Properties of every plan, checked for some thousands of random layouts. Each plan is carried out
// with memcpy, with its reads in a random order. Then every byte must be at its destination.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "base/checked.hpp"
#include "plan/chance.hpp"
#include "plan/make_plan.hpp"
#include "plan/planned.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::uint64_t block = block_bytes;

struct layout {
  std::vector<wanted_tensor> extents;
  std::vector<std::uint64_t> file_bytes;
  placement_rules rules;
  std::uint64_t slot_bytes = 0;
};

std::uint64_t random_gap(chance& by) {
  switch (by.number(0, 5)) {
    case 0:
    case 1:
    case 2: return 0;
    case 3: return by.number(1, 300);
    case 4: return by.number(1, 10'000);
    default: return by.number(gap_bytes_max - 3, gap_bytes_max + 3);
  }
}

std::uint64_t random_bytes(chance& by) {
  switch (by.number(0, 5)) {
    case 0: return 0;
    case 1: return by.number(1, 16);
    case 2: return by.number(1, 4) * 256;
    case 3: return by.number(1, 9000);
    case 4: return by.number(1, 5) * block;
    default: return by.number(1, 200'000);
  }
}

layout random_layout(unsigned seed) {
  chance by(seed);
  layout made;
  made.slot_bytes = by.one_of({block, 2 * block, 16 * kib, 64 * kib, 256 * kib});
  made.rules.unstaged = by.one_in(2);
  made.rules.tensor_alignment = by.one_of({1, 1, 8, 64, 256, block});
  made.rules.aligned_run_bytes = by.one_of({1, 32 * kib, 128 * kib, 32 * mib});
  const std::uint64_t files = by.number(1, 3);
  for (std::uint32_t file = 0; file < files; ++file) {
    std::uint64_t at = by.number(0, 3 * block);
    for (std::uint64_t left = by.number(0, 12); left > 0; --left) {
      at += random_gap(by);
      const auto alignment = static_cast<std::uint32_t>(by.one_of({1, 2, 4, 8}));
      if (!by.one_in(4)) at = round_up(at, std::uint64_t{alignment});
      made.extents.push_back(wanted(at, random_bytes(by), alignment, file));
      at += made.extents.back().bytes;
    }
    // The file may have bytes after its last tensor.
    made.file_bytes.push_back(at + (by.one_in(2) ? 0 : by.number(0, 10'000)));
  }
  return made;
}

// Reads are aligned and at most one slot long. They need no byte after the end of the file, and
// request no block after it. Reads of one kind do not read a byte of a file twice.
void check_reads(const layout& of, const plan& p) {
  for (std::size_t i = 0; i < p.reads.size(); ++i) {
    const read_op& r = p.reads[i];
    CAPTURE(i);
    const std::uint64_t file_bytes = of.file_bytes[r.file];
    REQUIRE(r.file_offset % block == 0);
    REQUIRE(r.bytes % block == 0);
    REQUIRE(r.bytes > 0);
    REQUIRE(r.bytes <= of.slot_bytes);
    REQUIRE(r.bytes == round_up<std::uint64_t>(r.bytes_needed, block));
    REQUIRE(r.file_offset + r.bytes_needed <= file_bytes);
    REQUIRE(r.file_offset + r.bytes <= round_up(file_bytes, block));
    REQUIRE((r.is_unstaged() || r.copies_end > r.copies_begin));
    if (r.is_unstaged()) {
      REQUIRE(of.rules.unstaged);
      REQUIRE(r.destination_offset % block == 0);
      REQUIRE(r.destination_offset + r.bytes <= p.arena_bytes);
      // The read does not cross a multiple of the slot size.
      REQUIRE(r.destination_offset / of.slot_bytes ==
              (r.destination_offset + r.bytes - 1) / of.slot_bytes);
    }
    if (i == 0 || p.reads[i - 1].file != r.file) continue;
    const read_op& before = p.reads[i - 1];
    if (before.is_unstaged() == r.is_unstaged()) {
      REQUIRE(before.file_offset + before.bytes <= r.file_offset);
    } else {
      REQUIRE(before.is_unstaged());
    }
  }
  for (std::size_t i = 1; i < p.reads.size(); ++i) REQUIRE(p.reads[i - 1].file <= p.reads[i].file);
}

// Copies are inside their slot and the arena, and every copy belongs to exactly one read.
void check_copies(const plan& p) {
  std::uint32_t seen = 0;
  for (const read_op& r : p.reads) {
    if (r.is_unstaged()) {
      REQUIRE(r.copies_begin == r.copies_end);
      continue;
    }
    REQUIRE(r.copies_begin == seen);
    for (; seen < r.copies_end; ++seen) {
      const copy_op& c = p.copies[seen];
      REQUIRE(c.bytes > 0);
      REQUIRE(std::uint64_t{c.slot_offset} + c.bytes <= r.bytes_needed);
      REQUIRE(c.destination_offset + c.bytes <= p.arena_bytes);
    }
  }
  REQUIRE(seen == p.copies.size());
}

// Tensors are aligned, and no two of them overlap in the arena.
void check_places(const layout& of, const plan& p) {
  REQUIRE(p.tensors.size() == of.extents.size());
  REQUIRE(p.arena_bytes >= block);
  REQUIRE(p.arena_bytes % block == 0);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (std::size_t t = 0; t < of.extents.size(); ++t) {
    const wanted_tensor& e = of.extents[t];
    const placement& at = p.tensors[t];
    REQUIRE(at.destination_offset % e.alignment == 0);
    REQUIRE(at.destination_offset % of.rules.tensor_alignment == 0);
    REQUIRE(at.destination_offset + e.bytes <= p.arena_bytes);
    if (e.bytes == 0) continue;
    if (part_of(p, t).unstaged) REQUIRE(at.destination_offset % block == e.offset % block);
    ranges.emplace_back(at.destination_offset, at.destination_offset + e.bytes);
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    REQUIRE(ranges[i - 1].second <= ranges[i].first);
  }
}

// A tensor waits for exactly the reads that have its bytes, and each of these reads lists the
// tensor.
void check_landing(const layout& of, const plan& p) {
  for (std::uint32_t t = 0; t < of.extents.size(); ++t) {
    CAPTURE(t);
    const wanted_tensor& e = of.extents[t];
    const part at = part_of(p, t);
    if (e.bytes == 0) {
      REQUIRE(at.reads_begin == at.reads_end);
      continue;
    }
    REQUIRE(at.reads_end <= p.reads.size());
    for (std::uint32_t r = 0; r < p.reads.size(); ++r) {
      const read_op& read = p.reads[r];
      const bool brings = read.file == e.file && read.is_unstaged() == at.unstaged &&
                          read.file_offset < e.offset + e.bytes &&
                          read.file_offset + read.bytes_needed > e.offset;
      REQUIRE(brings == (at.reads_begin <= r && r < at.reads_end));
      REQUIRE(brings == feeds(p, r, t));
    }
  }
}

// The kernel may write all requested bytes, also after the end of the file. The test writes random
// bytes there.
void carry_out(const layout& of, const plan& p, const noise_files& files, chance& by) {
  std::vector<std::byte> arena(p.arena_bytes, std::byte{0});
  std::vector<std::byte> slot_memory(of.slot_bytes);
  std::vector<read_op> reads = p.reads;
  std::shuffle(reads.begin(), reads.end(), by.engine());
  for (const read_op& r : reads) {
    std::byte* into = r.is_unstaged() ? arena.data() + r.destination_offset : slot_memory.data();
    std::memcpy(into, files.at(r.file, r.file_offset), r.bytes);
    for (std::uint32_t c = r.copies_begin; c < r.copies_end; ++c) {
      const copy_op& copy = p.copies[c];
      std::memcpy(arena.data() + copy.destination_offset, slot_memory.data() + copy.slot_offset,
                  copy.bytes);
    }
  }
  for (std::size_t t = 0; t < of.extents.size(); ++t) {
    const wanted_tensor& e = of.extents[t];
    if (e.bytes == 0) continue;
    CAPTURE(t);
    const std::byte* at = arena.data() + p.tensors[t].destination_offset;
    REQUIRE(std::memcmp(at, files.at(e.file, e.offset), e.bytes) == 0);
  }
}

}  // namespace

TEST_CASE("make_plan: brings every byte of every tensor to its place, whatever the layout") {
  const noise_files files;
  unsigned unstaged_reads = 0;
  unsigned staged_reads = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    const layout of = random_layout(seed);
    const plan p = planned(of.extents, of.rules, of.slot_bytes);
    check_reads(of, p);
    check_copies(p);
    check_places(of, p);
    check_landing(of, p);
    chance order(seed);
    carry_out(of, p, files, order);
    for (const read_op& r : p.reads) ++(r.is_unstaged() ? unstaged_reads : staged_reads);
  }
  // Both kinds of reads must occur. Otherwise the random layouts are too simple.
  CHECK(unstaged_reads > 10'000);
  CHECK(staged_reads > 10'000);
}

TEST_CASE("make_plan: the same layout gives the same plan") {
  for (unsigned seed = 0; seed < 100; ++seed) {
    const layout of = random_layout(seed);
    const plan a = planned(of.extents, of.rules, of.slot_bytes);
    const plan b = planned(of.extents, of.rules, of.slot_bytes);
    REQUIRE(asked_of(a) == asked_of(b));
    REQUIRE(a.arena_bytes == b.arena_bytes);
  }
}
