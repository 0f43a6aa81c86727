// SPDX-License-Identifier: Apache-2.0
#include "save/write_plan.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>

using namespace ringload;

namespace {

constexpr write_rules rules = {65'536, 4096};

file_piece piece(std::uint32_t source, std::uint64_t offset, std::uint64_t bytes,
                 std::uint32_t file = 0) {
  return {offset, bytes, file, source};
}

write_plan planned(std::vector<file_piece> pieces) {
  auto found = plan_writes(std::move(pieces), rules);
  REQUIRE(found.has_value());
  return *found;
}

}  // namespace

TEST_CASE("write plan: of nothing, and of pieces without bytes, is nothing") {
  CHECK(planned({}).writes.empty());
  CHECK(planned({piece(0, 10, 0)}).writes.empty());
}

TEST_CASE("write plan: a run is cut at the slots of the file, and its tail is a write of its own") {
  const write_plan plan = planned({piece(1, 100, 70'000), piece(0, 0, 100)});
  REQUIRE(plan.writes.size() == 3);
  CHECK(plan.writes[0].file_offset == 0);
  CHECK(plan.writes[0].bytes == 65'536);
  CHECK(plan.writes[1].file_offset == 65'536);
  CHECK(plan.writes[1].bytes == 4096);
  CHECK(plan.writes[2].file_offset == 69'632);
  CHECK(plan.writes[2].bytes == 70'100 - 69'632);
  const gather_op& second = plan.gathers.at(plan.writes[0].gathers_begin + 1);
  CHECK(second.source == 1);
  CHECK(second.source_offset == 0);
  CHECK(second.write_offset == 100);
  CHECK(second.bytes == 65'436);
}

TEST_CASE("write plan: a run that begins inside a unit has an edge there too") {
  const write_plan plan = planned({piece(0, 4097, 8192)});
  REQUIRE(plan.writes.size() == 3);
  CHECK(plan.writes[0].bytes == 4095);
  CHECK(plan.writes[1].file_offset == 8192);
  CHECK(plan.writes[1].bytes == 4096);
  CHECK(plan.writes[2].bytes == 1);
  // All bytes are inside one unit.
  CHECK(planned({piece(0, 4097, 10)}).writes.size() == 1);
  CHECK(planned({piece(0, 4097, 4095)}).writes.size() == 1);
  CHECK(planned({piece(0, 4097, 4096)}).writes.size() == 2);
}

TEST_CASE("write plan: pieces of two files, or with a gap between them, are runs of their own") {
  CHECK(planned({piece(0, 0, 4096), piece(1, 4096, 4096)}).writes.size() == 1);
  CHECK(planned({piece(0, 0, 4096), piece(1, 4096, 4096, 1)}).writes.size() == 2);
  CHECK(planned({piece(0, 0, 4096), piece(1, 8192, 4096)}).writes.size() == 2);
}

TEST_CASE("write plan: each byte of each piece is written once, where it belongs") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<file_piece> pieces;
    std::uint64_t at = random() % 3 == 0 ? random() % 10'000 : 0;
    for (std::uint32_t s = 0; s < 1 + random() % 8; ++s) {
      const std::uint64_t bytes = random() % 4 == 0 ? random() % 10 : random() % 200'000;
      pieces.push_back(piece(s, at, bytes, static_cast<std::uint32_t>(random() % 2)));
      at += bytes + (random() % 3 == 0 ? random() % 9000 : 0);
    }
    const write_plan plan = planned(pieces);
    std::map<std::uint32_t, std::uint64_t> reached;  // Bytes gathered so far, by source.
    for (const write_op& w : plan.writes) {
      CHECK(w.bytes > 0);
      const bool in_a_slot =
          w.file_offset / rules.slot_bytes == (w.file_offset + w.bytes - 1) / rules.slot_bytes;
      CHECK(in_a_slot);
      std::uint64_t filled = 0;
      for (std::uint32_t g = w.gathers_begin; g < w.gathers_end; ++g) {
        const gather_op& gather = plan.gathers[g];
        CHECK(gather.write_offset == filled);
        filled += gather.bytes;
        CHECK(gather.source_offset == reached[gather.source]);
        reached[gather.source] += gather.bytes;
        const file_piece& from = pieces[gather.source];
        CHECK(from.file == w.file);
        CHECK(from.file_offset + gather.source_offset == w.file_offset + gather.write_offset);
      }
      CHECK(filled == w.bytes);
    }
    for (const file_piece& p : pieces) CHECK(reached[p.source] == p.bytes);
  }
}
