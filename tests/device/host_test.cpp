// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <ringload/device.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/mapping.hpp"
#include "device/available.hpp"
#include "device/backend.hpp"
#include "support/noise_file.hpp"
#include "support/resident.hpp"
#include "support/skip.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

std::unique_ptr<backend> host_backend() { return host().maker()(host().index()); }

// A copy operation that stores its result.
struct remembered : copy_operation {
  remembered() {
    done = [](copy_operation& self, boost::system::error_code failure) {
      auto& mine = static_cast<remembered&>(self);
      mine.failed = failure;
      mine.answered_in = std::this_thread::get_id();
      ++mine.times;
    };
  }
  boost::system::error_code failed;
  unsigned times = 0;
  std::thread::id answered_in;
};

// "1,234" -> 1234
std::uint64_t number_before(const std::string& text, const std::string& word) {
  const std::size_t end = text.find(word);
  REQUIRE(end != std::string::npos);
  const std::size_t begin = text.find_last_of(' ', end - 1) + 1;
  std::string digits = text.substr(begin, end - begin);
  std::erase(digits, ',');
  return std::stoull(digits);
}

}  // namespace

TEST_CASE("host: has a name, and reads may land in its memory") {
  CHECK(host().name() == "host");
  CHECK(host().kind() == device_kind::host);
  CHECK(host() == host());
  const placement_rules rules = host_backend()->rules();
  CHECK(rules.unstaged);
  CHECK(rules.tensor_alignment == 1);
}

TEST_CASE("host: an arena is aligned memory, not populated") {
  const auto target = host_backend();
  for (const std::uint64_t bytes : {std::uint64_t{block_bytes}, 3 * huge_page_bytes}) {
    const auto made = target->allocate(bytes);
    REQUIRE(made.has_value());
    std::byte* const begin = (*made)->data();
    CHECK(reinterpret_cast<std::uintptr_t>(begin) % block_bytes == 0);
    CHECK(resident_pages({begin, bytes}) == 0);
    begin[0] = std::byte{1};
    begin[bytes - 1] = std::byte{2};
    CHECK(begin[0] == std::byte{1});
    CHECK(begin[bytes - 1] == std::byte{2});
  }
}

TEST_CASE("host: two arenas share no byte, and each outlives the device") {
  auto target = host_backend();
  const auto first = target->allocate(8192);
  const auto second = target->allocate(8192);
  REQUIRE(first.has_value());
  REQUIRE(second.has_value());
  target.reset();
  std::memset((*first)->data(), 1, 8192);
  std::memset((*second)->data(), 2, 8192);
  CHECK((*first)->data()[0] == std::byte{1});
  CHECK((*first)->data()[8191] == std::byte{1});
  CHECK((*second)->data()[0] == std::byte{2});
}

TEST_CASE("host: an allocation larger than what is available is refused with both numbers") {
  const auto made = host_backend()->allocate(std::uint64_t{1} << 60);
  REQUIRE_FALSE(made.has_value());
  CHECK(made.error().code == errc::memory_exceeded);
  const std::string said = message_of(made.error());
  CAPTURE(said);
  CHECK(number_before(said, " bytes") == std::uint64_t{1} << 60);
  const std::uint64_t available = number_before(said, " available");
  CHECK(available > 0);
  CHECK(available < std::uint64_t{1} << 60);
}

TEST_CASE("host: memory that a load has yet to populate is not counted as available") {
  const auto available = available_bytes();
  if (!available) {
    skip("the system does not say how much memory there is");
    return;
  }
  const auto target = host_backend();
  const std::uint64_t most_of_it = *available / 10 * 6;
  auto first = target->allocate(most_of_it);
  REQUIRE(first.has_value());
  CHECK_FALSE(target->check_room(most_of_it).has_value());
  const auto second = target->allocate(most_of_it);
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == errc::memory_exceeded);
  const std::string said = message_of(second.error());
  CAPTURE(said);
  CHECK(number_before(said, " bytes") == most_of_it);
  CHECK(said.find(" available, of which other loads will fill ") != std::string::npos);

  *first = nullptr;
  CHECK(target->check_room(most_of_it).has_value());
  CHECK(target->allocate(most_of_it).has_value());
}

TEST_CASE("host: kept memory says whether all its pages are there") {
  const auto target = host_backend();
  target->keep(64 << 20);
  auto made = target->allocate(4 << 20);
  REQUIRE(made.has_value());
  CHECK_FALSE((*made)->was_kept());
  CHECK_FALSE((*made)->populated());
  for (const std::size_t filled : {std::size_t{0}, std::size_t{2} << 20, std::size_t{4} << 20}) {
    std::memset((*made)->data(), 1, filled);
    *made = nullptr;
    made = target->allocate(4 << 20);
    REQUIRE(made.has_value());
    CHECK((*made)->was_kept());
    CHECK((*made)->populated() == (filled == std::size_t{4} << 20));
  }
}

TEST_CASE("host: large copies run in the thread pool, small ones in the engine thread") {
  boost::asio::io_context loop;
  boost::asio::io_context elsewhere;
  const auto target = host_backend();
  const auto made = target->allocate(1 << 20);
  REQUIRE(made.has_value());
  std::byte* const into[] = {(*made)->data()};
  const std::vector<std::byte> slot(1 << 20, std::byte{7});
  std::vector<std::byte> pinned(slot);
  REQUIRE(target->attach(loop, {pinned, pinned.size()}).has_value());
  for (const std::uint32_t bytes : {65'536U, 65'537U}) {
    const std::array<copy_op, 1> copies = {{{0, 0, bytes}}};
    std::memset((*made)->data(), 0, bytes);
    remembered op;
    op.slot = pinned.data();
    op.copies = copies;
    op.destinations = into;
    op.threads = elsewhere.get_executor();
    target->start(op);
    CHECK(((*made)->data()[0] == std::byte{7}) == (bytes == 65'536));
    elsewhere.restart();
    elsewhere.run();
    CHECK(op.times == 0);
    loop.restart();
    loop.run();
    CHECK(op.times == 1);
    CHECK(std::memcmp((*made)->data(), pinned.data(), bytes) == 0);
  }
  target->detach();
}

TEST_CASE("host: copies write to their ranges, and nowhere else") {
  boost::asio::io_context loop;
  const auto target = host_backend();
  const auto made = target->allocate(block_bytes);
  REQUIRE(made.has_value());
  std::byte* const into[] = {(*made)->data()};
  std::byte* const arena_begin = (*made)->data();
  std::fill_n(arena_begin, block_bytes, std::byte{0xEE});
  std::vector<std::byte> slot(1000);
  for (std::size_t i = 0; i < slot.size(); ++i) slot[i] = noise_at(i);
  REQUIRE(target->attach(loop, {slot, slot.size()}).has_value());

  // The last copy ends at the end of the slot and of the arena.
  const std::array<copy_op, 3> copies = {
      {{0, 10, 5}, {100, 500, 1}, {block_bytes - 400, 600, 400}}};
  remembered op;
  op.slot = slot.data();
  op.copies = copies;
  op.destinations = into;
  target->start(op);
  CHECK(op.times == 0);
  loop.run();
  CHECK(op.times == 1);
  CHECK_FALSE(op.failed);
  CHECK(op.answered_in == std::this_thread::get_id());
  target->detach();

  std::vector<std::byte> expected(block_bytes, std::byte{0xEE});
  for (const copy_op& c : copies) {
    for (std::size_t i = 0; i < c.bytes; ++i) {
      expected[c.destination_offset + i] = noise_at(c.slot_offset + i);
    }
  }
  CHECK(std::memcmp(arena_begin, expected.data(), expected.size()) == 0);
}

TEST_CASE("host: a map's elements go to their places, also in memory of the caller's") {
  boost::asio::io_context loop;
  boost::asio::io_context threads;
  const auto target = host_backend();
  const auto made = target->allocate(block_bytes);
  REQUIRE(made.has_value());
  std::vector<std::byte> slot(1000);
  for (std::size_t i = 0; i < slot.size(); ++i) slot[i] = noise_at(i);
  REQUIRE(target->attach(loop, {slot, slot.size()}).has_value());

  // 5 rows of 3 elements of 4 bytes, stored column by column from byte 100 of the slot on.
  strided_map transposed;
  transposed.dimensions[0] = {3, 20, 4};
  transposed.dimensions[1] = {5, 4, 12};
  transposed.rank = 2;
  transposed.element_bytes = 4;
  std::vector<std::byte> memory(80, std::byte{0xEE});
  std::byte* const into[] = {(*made)->data(), memory.data()};
  copy_op copy = {10, 100, 60};
  copy.destination = 1;
  copy.map = 0;
  remembered op;
  op.slot = slot.data();
  op.copies = {&copy, 1};
  op.maps = {&transposed, 1};
  op.destinations = into;
  op.threads = threads.get_executor();
  target->start(op);
  threads.run();
  loop.run();
  CHECK(op.times == 1);
  CHECK_FALSE(op.failed);
  target->detach();

  std::vector<std::byte> expected(80, std::byte{0xEE});
  for (std::size_t row = 0; row < 5; ++row) {
    for (std::size_t column = 0; column < 3; ++column) {
      for (std::size_t b = 0; b < 4; ++b) {
        expected[10 + row * 12 + column * 4 + b] = noise_at(100 + column * 20 + row * 4 + b);
      }
    }
  }
  CHECK(memory == expected);
}

TEST_CASE("host: each operation is done once, in the order of the starts, never from inside one") {
  boost::asio::io_context loop;
  const auto target = host_backend();
  const auto made = target->allocate(block_bytes);
  REQUIRE(made.has_value());
  std::byte* const into[] = {(*made)->data()};
  std::vector<std::byte> slot(64, std::byte{7});
  REQUIRE(target->attach(loop, {slot, slot.size()}).has_value());
  const std::array<copy_op, 1> copies = {{{0, 0, 64}}};
  std::array<remembered, 4> ops;
  for (remembered& op : ops) {
    op.slot = slot.data();
    op.copies = copies;
    op.destinations = into;
    target->start(op);
  }
  for (std::size_t turned = 0; turned < ops.size(); ++turned) {
    for (std::size_t i = 0; i < ops.size(); ++i) CHECK(ops[i].times == (i < turned ? 1U : 0U));
    CHECK(loop.run_one() == 1);
  }
  CHECK(ops.back().times == 1);
  CHECK(loop.run_one() == 0);
  target->detach();
}

TEST_CASE("host: an operation without copies completes too") {
  boost::asio::io_context loop;
  const auto target = host_backend();
  const auto made = target->allocate(block_bytes);
  REQUIRE(made.has_value());
  std::byte* const into[] = {(*made)->data()};
  REQUIRE(target->attach(loop, {}).has_value());
  remembered op;
  op.destinations = into;
  target->start(op);
  CHECK(op.times == 0);
  loop.run();
  CHECK(op.times == 1);
  CHECK_FALSE(op.failed);
  target->detach();
}

TEST_CASE("device: its name says which of several it is") {
  const device second(device_kind::cuda, 1, host().maker());
  CHECK(second.name() == "cuda:1");
  CHECK_FALSE(second == host());
  CHECK_FALSE(second == device(device_kind::cuda, 0, host().maker()));
}
