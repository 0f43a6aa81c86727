// SPDX-License-Identifier: Apache-2.0

// The progress of a plan, without files, threads or an event loop. Reads and tensors are numbers.

#include "load/plan_progress.hpp"

#include <doctest/doctest.h>

#include <string>

using ringload::detail::plan_progress;
using ringload::detail::work_list;

namespace {

using numbers = std::vector<std::uint32_t>;

numbers take_all(work_list& from) {
  numbers taken;
  while (const auto one = from.take_next()) taken.push_back(*one);
  return taken;
}

numbers take_all_reads(plan_progress& from) {
  numbers taken;
  while (const auto read = from.take_next()) taken.push_back(*read);
  return taken;
}

// Four reads and four tensors:
//
//   read     |---0---|---1---|---2---|---3---|
//   tensor   |--0--|-----1-----|------2------|     3 has no bytes
plan_progress four_reads() {
  return {{{0, 1}, {1, 2}, {2, 3}, {3, 4}},
          {{0, {0, 1}}, {1, {0, 3}}, {2, {2, 4}}, {3, {0, 0}}},
          {{0, 2}, {1, 2}, {1, 4}, {2, 4}}};
}

// The tensors that this read completes.
numbers completed_by(plan_progress& of, std::uint32_t read) {
  numbers complete;
  of.set_read_complete(read, [&](std::uint32_t t) { complete.push_back(t); });
  return complete;
}

}  // namespace

TEST_CASE("work_list: gives what was added, in that order and once") {
  work_list list(5);
  CHECK(!list.take_next());
  for (const std::uint32_t index : {3U, 1U, 4U}) list.add(index);
  CHECK(take_all(list) == numbers{3, 1, 4});
  CHECK(!list.take_next());
  list.add(0);
  CHECK(take_all(list) == numbers{0});
}

TEST_CASE("work_list: what is prioritized is not given again in its turn, nor twice") {
  work_list list(4);
  list.add_all();
  list.prioritize(2);
  list.prioritize(3);
  list.prioritize(2);
  CHECK(list.has_prioritized());
  CHECK(list.take_prioritized() == 2);
  CHECK(list.take_prioritized() == 3);
  CHECK(!list.take_prioritized());
  CHECK(take_all(list) == numbers{0, 1});
}

TEST_CASE("work_list: each lane is taken by itself, in its order") {
  work_list list(6, {0, 1, 0, 1, 0, 1}, 2);
  list.add_all();
  list.prioritize(5);
  CHECK(list.has_prioritized());
  CHECK(list.has_prioritized(1));
  CHECK_FALSE(list.has_prioritized(0));
  CHECK(!list.take_prioritized(0));
  CHECK(list.take_next(1) == 1U);
  CHECK(list.take_prioritized(1) == 5U);
  CHECK(list.take_next(1) == 3U);
  CHECK(list.has_next(1));  // True is allowed, although 5 was already taken as a prioritized index.
  CHECK(!list.take_next(1));
  CHECK_FALSE(list.has_next(1));
  CHECK(take_all(list) == numbers{0, 2, 4});
  CHECK(list.in_progress() == 6);
}

TEST_CASE("work_list: prioritizing what was taken does nothing") {
  work_list list(2);
  list.add_all();
  CHECK(list.take_next() == 0);
  list.prioritize(0);
  CHECK(!list.has_prioritized());
  // Taken in the normal order after it was prioritized:
  list.prioritize(1);
  CHECK(list.take_next() == 1);
  CHECK(!list.take_prioritized());
}

TEST_CASE("work_list: counts what is taken and not done") {
  work_list list(3);
  list.add_all();
  CHECK(list.in_progress() == 0);
  list.prioritize(2);
  list.take_prioritized();
  list.take_next();
  CHECK(list.in_progress() == 2);
  list.done();
  CHECK(list.in_progress() == 1);
}

TEST_CASE("plan_progress: a tensor is complete with the last of its reads, in whatever order") {
  {
    plan_progress of = four_reads();
    CHECK(completed_by(of, 0) == numbers{0});
    CHECK(completed_by(of, 1) == numbers{});
    CHECK(completed_by(of, 2) == numbers{1});
    CHECK(completed_by(of, 3) == numbers{2});
  }
  {
    plan_progress of = four_reads();
    CHECK(completed_by(of, 3) == numbers{});
    CHECK(completed_by(of, 2) == numbers{2});
    CHECK(!of.has_all_bytes(1));
    CHECK(completed_by(of, 1) == numbers{});
    CHECK(completed_by(of, 0) == numbers{0, 1});
    CHECK(of.has_all_bytes(1));
  }
}

TEST_CASE("plan_progress: a tensor without bytes misses no read") {
  plan_progress of = four_reads();
  CHECK(of.has_all_bytes(3));
  CHECK(!of.has_all_bytes(0));
  CHECK(!of.is_loaded(3));
}

TEST_CASE("plan_progress: a tensor in a read's range that does not need it is left alone") {
  // Straight and staged reads of one file alternate in the tensors: 0 and 2 are read by read 0,
  // tensor 1 by read 1, and the range of read 0 covers all three.
  plan_progress of({{0, 1}, {1, 2}, {2, 3}}, {{0, {0, 1}}, {1, {1, 2}}, {2, {0, 1}}},
                   {{0, 3}, {1, 2}});
  CHECK(completed_by(of, 0) == numbers{0, 2});
  CHECK(!of.has_all_bytes(1));
  CHECK(completed_by(of, 1) == numbers{1});
}

TEST_CASE("plan_progress: the reads of an awaited tensor come first, each read once") {
  plan_progress of = four_reads();
  CHECK(of.take_next() == 0);
  CHECK(of.prioritize(2));
  CHECK(of.take_prioritized() == 2);
  CHECK(of.take_prioritized() == 3);
  CHECK(take_all_reads(of) == numbers{1});
  CHECK(!of.prioritize(1));
  CHECK(of.in_flight() == 4);
  of.end_read();
  CHECK(of.in_flight() == 3);
}

TEST_CASE("plan_progress: loaded tensors are given once, in the order in which they were loaded") {
  plan_progress of = four_reads();
  CHECK(!of.take_loaded());
  of.set_loaded(3);
  of.set_loaded(1);
  CHECK(of.take_loaded() == 3);
  of.set_loaded(0);
  CHECK(of.take_loaded() == 1);
  CHECK(of.take_loaded() == 0);
  CHECK(!of.take_loaded());
  CHECK(of.is_loaded(1));
  CHECK(!of.is_loaded(2));
  CHECK(!of.all_loaded());
  of.set_loaded(2);
  CHECK(of.all_loaded());
}

TEST_CASE("plan_progress: a plan without tensors is loaded from the beginning") {
  plan_progress of({}, {}, {});
  CHECK(of.all_loaded());
  CHECK(!of.take_next());
}

namespace {

// Tensor 0 needs the reads 0 and 4, and a stream that fits in read 5. The reads 1 to 3 are a stream
// with the tensors 1 and 2. The order interleaves the chain with other reads.
plan_progress with_streams() {
  return {{{0, 5}, {1, 2}, {2, 3}},
          {{0, {0, 1}}, {1, {1, 4}, 0}, {2, {1, 4}, 0}, {0, {4, 5}}, {0, {5, 6}, 1}},
          {{0, 1}, {1, 3}, {1, 3}, {1, 3}, {3, 4}, {4, 5}},
          {1, 0, 2, 4, 3, 5}};
}

}  // namespace

TEST_CASE(
    "plan_progress: reads of a stream are taken one after the other, whoever asks for which") {
  plan_progress in_turn = with_streams();
  CHECK(take_all_reads(in_turn) == numbers{1, 0, 2, 4, 3, 5});
  plan_progress awaited = with_streams();
  CHECK(awaited.take_next() == 1U);
  CHECK(awaited.prioritize(2));
  CHECK(awaited.take_prioritized() == 2U);
  CHECK(awaited.take_prioritized() == 3U);
  CHECK(!awaited.take_prioritized());
  CHECK(take_all_reads(awaited) == numbers{0, 4, 5});
}

TEST_CASE("plan_progress: tensors of a stream are whole when it is decoded, not when it is read") {
  plan_progress progress = with_streams();
  for (const std::uint32_t read : {1U, 2U, 3U, 0U, 5U}) CHECK(completed_by(progress, read).empty());
  CHECK(!progress.has_all_bytes(1));
  numbers complete;
  progress.set_decoded(0, [&](std::uint32_t t) { complete.push_back(t); });
  CHECK(complete == numbers{1, 2});
  CHECK(completed_by(progress, 4).empty());
  progress.set_decoded(1, [&](std::uint32_t t) { complete.push_back(t); });
  CHECK(complete == numbers{1, 2, 0});
}
