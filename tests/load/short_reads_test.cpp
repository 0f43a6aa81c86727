// SPDX-License-Identifier: Apache-2.0

// Reads that are short, are retried, or complete out of order.

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <random>
#include <ringload/ringload.hpp>

#include "support/made_checkpoint.hpp"
#include "support/scripted_loader.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr int block = 4096;

// Straight and staged tensors: an F32 after 999 bytes is misaligned in the file.
std::vector<made_tensor> mixed_tensors() {
  return {{"a", 999}, f32("b", 20'000), {"c", 150'000}, f32("d", 5), {"e", 1}, f32("f", 10'000)};
}

bool direct_here(const std::string& path) {
  loader with(host(), small_options());
  const auto failed = failure_of(with.load_async(path, by(read_route::direct), use_future));
  return !failed;
}

model load_by(read_script& script, const made_file& file, read_route route) {
  scripted_loader with(script, small_options(3));
  return get(with.load_async(file.name(), by(route), use_future));
}

void finish_in_order(const made_file& file, const std::vector<std::size_t>& order) {
  read_script script([](const io_request&, std::uint64_t) {
    return read_fate{.until_released = read_fate::hold::completion};
  });
  scripted_loader with(script, small_options(16));
  auto loaded = with.load_async(file.name(), {}, use_future);
  REQUIRE(script.wait_until_held(order.size()));
  for (const std::size_t position : order) script.release(position);
  CHECK(first_difference(get(std::move(loaded))) == "");
}

}  // namespace

TEST_CASE("buffered reads of every awkward length are resumed where they stopped") {
  const made_file file(mixed_tensors(), 3);
  for (const int most : {511, 512, 1023, 4095, 4096, 4097, 10'000, 65'535}) {
    CAPTURE(most);
    read_script script([&](const io_request&, std::uint64_t) { return read_fate{most}; });
    const model loaded = load_by(script, file, read_route::buffered);
    CHECK(first_difference(loaded) == "");
    CHECK(loaded.stats().short_reads > 0);
    CHECK(script.started() == loaded.stats().reads + loaded.stats().short_reads);
  }
}

TEST_CASE("buffered reads may return one byte at a time") {
  const made_file file({{"a", 99}, f32("b", 400), {"c", 3000}});
  read_script script([](const io_request&, std::uint64_t) { return read_fate{1}; });
  const model loaded = load_by(script, file, read_route::buffered);
  CHECK(first_difference(loaded) == "");
  CHECK(script.started() >= 99 + 1600 + 3000);
}

TEST_CASE("direct reads of every awkward length are resumed at the block they stopped in") {
  const made_file file(mixed_tensors(), 3);
  if (!direct_here(file.name())) return skip("no direct reads of files in the temporary folder");
  for (const int most : {block, block + 1, 2 * block - 1, 3 * block, 50'000, 65'535}) {
    CAPTURE(most);
    read_script script([&](const io_request&, std::uint64_t) { return read_fate{most}; });
    const model loaded = load_by(script, file, read_route::direct);
    CHECK(first_difference(loaded) == "");
    CHECK(loaded.stats().short_reads > 0);
    for (const io_request& read : script.log()) {
      CHECK(read.direct);
      CHECK(read.file_offset % block == 0);
      CHECK(read.bytes % block == 0);
      CHECK(reinterpret_cast<std::uintptr_t>(read.memory) % block == 0);
    }
  }
}

TEST_CASE("a direct read that gives not even a block, of a file that goes on, is an error") {
  const made_file file(mixed_tensors(), 3);
  if (!direct_here(file.name())) return skip("no direct reads of files in the temporary folder");
  for (const int most : {0, 1, 512, block - 1}) {
    read_script script([&](const io_request&, std::uint64_t) { return read_fate{most}; });
    scripted_loader with(script, small_options(3));
    CHECK(code_of(with.load_async(file.name(), by(read_route::direct), use_future)) ==
          errc::truncated_file);
  }
}

TEST_CASE("one read after another may be the short one") {
  const made_file file(mixed_tensors(), 3);
  read_script counting;
  const std::uint64_t reads = load_by(counting, file, read_route::buffered).stats().reads;
  for (std::uint64_t n = 0; n < reads; ++n) {
    read_script script([&](const io_request& what, std::uint64_t nth) {
      return nth == n ? read_fate{static_cast<int>(what.bytes / 2)} : read_fate();
    });
    CHECK(first_difference(load_by(script, file, read_route::buffered)) == "");
  }
}

TEST_CASE("occasional EINTR and EAGAIN are retried and counted") {
  const made_file file(mixed_tensors(), 3);
  for (const read_route route : {read_route::automatic, read_route::buffered}) {
    make_cold(file.path());
    read_script script([](const io_request&, std::uint64_t nth) {
      if (nth % 3 == 1) return read_fate{-EINTR};
      return nth % 3 == 2 ? read_fate{-EAGAIN} : read_fate();
    });
    const model loaded = load_by(script, file, route);
    CHECK(first_difference(loaded) == "");
    CHECK(loaded.stats().retries > 0);
    CHECK(script.started() == loaded.stats().reads + loaded.stats().retries);
  }
}

TEST_CASE("endless EINTR or EAGAIN is an error after a bounded number of retries") {
  const made_file file(mixed_tensors(), 3);
  for (const int number : {EINTR, EAGAIN}) {
    read_script script([&](const io_request&, std::uint64_t) { return read_fate{-number}; });
    scripted_loader with(script, small_options(1));
    const auto failed = failure_of(with.load_async(file.name(), {}, use_future));
    REQUIRE(failed);
    CHECK(failed->code() == boost::system::error_code(number, boost::system::system_category()));
    CHECK(holds(failed->what(), "model.safetensors: tensor '"));
    CHECK(script.started() > 100);
    CHECK(script.started() < 10'000);
  }
}

TEST_CASE(
    "a direct read that is interrupted, and then refused, falls back as one refused at once") {
  const made_file file(mixed_tensors(), 3);
  make_cold(file.path());
  read_script script([](const io_request& what, std::uint64_t n) {
    if (!what.direct) return read_fate();
    return n == 0 ? read_fate{-EINTR} : read_fate{-EINVAL};
  });
  scripted_loader with(script, small_options(1));
  const model loaded = get(with.load_async(file.name(), {}, use_future));
  CHECK(first_difference(loaded) == "");
}

TEST_CASE("reads may complete in reverse, and in any order") {
  const made_file file(mixed_tensors(), 3);
  read_script counting;
  const std::uint64_t reads = load_by(counting, file, read_route::automatic).stats().reads;
  REQUIRE(reads > 3);
  REQUIRE(reads <= 16);
  std::vector<std::size_t> order;
  for (std::size_t left = reads; left > 0; --left) order.push_back(left - 1);
  finish_in_order(file, order);
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    for (std::size_t& position : order) {
      const std::size_t left = order.size() - static_cast<std::size_t>(&position - order.data());
      position = random() % left;
    }
    finish_in_order(file, order);
  }
}
