// SPDX-License-Identifier: Apache-2.0

// Loads through a window: tensors in order, in bounded memory.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <ringload/loader.hpp>
#include <string>
#include <vector>

#include "load/window_groups.hpp"
#include "support/made_checkpoint.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

std::vector<std::uint32_t> sizes_of(const std::vector<detail::window_group>& groups) {
  std::vector<std::uint32_t> out;
  for (const auto& each : groups) out.push_back(each.last - each.first);
  return out;
}

}  // namespace

TEST_CASE("window: tensors are grouped up to a sixteenth of it, larger ones are alone") {
  constexpr std::uint64_t page = 4096;
  std::uint32_t culprit = 0;
  // A sixteenth of 64 MiB is 4 MiB. Each tensor may waste three blocks.
  const auto groups = detail::make_window_groups({mib, mib, mib, mib, 5 * mib, 10, 20 * mib, 0, 0},
                                                 64 * mib, page, culprit, 4 * mib);
  REQUIRE(groups.has_value());
  CHECK(sizes_of(*groups) == std::vector<std::uint32_t>{3, 1, 1, 1, 1, 2});
  CHECK((*groups)[0].bytes == 3 * mib + 9 * page);
  CHECK((*groups)[2].bytes == 5 * mib + 3 * page);
  CHECK((*groups)[3].bytes == 4 * page);
  CHECK(detail::make_window_groups({}, mib, page, culprit, 4 * mib)->empty());
  const auto by_huge_pages =
      detail::make_window_groups({mib, 10}, 64 * mib, 2 * mib, culprit, 4 * mib);
  CHECK(by_huge_pages->at(0).bytes == 2 * mib);

  const auto too_large =
      detail::make_window_groups({mib, 64 * mib, mib}, 64 * mib, page, culprit, 4 * mib);
  REQUIRE(!too_large.has_value());
  CHECK(too_large.error().code == errc::memory_exceeded);
  CHECK(culprit == 1);
  CHECK(!detail::make_window_groups({~0ULL, ~0ULL}, 64 * mib, page, culprit, 4 * mib).has_value());
  CHECK(!detail::make_window_groups({~0ULL, ~0ULL}, ~0ULL, page, culprit, 4 * mib).has_value());
}

TEST_CASE("window: what may lie before a long run of neighbours counts, unless the run is alone") {
  constexpr std::uint64_t page = 4096;
  std::uint32_t culprit = 0;
  // The second tensor may begin up to one slot after the end of the first.
  const std::vector<std::uint64_t> bytes = {20 * mib, 100 * mib};
  const auto joined = detail::make_window_groups(bytes, 2048 * mib, page, culprit, 4 * mib);
  CHECK(sizes_of(*joined) == std::vector<std::uint32_t>{2});
  CHECK(joined->front().bytes == 124 * mib + 6 * page);
  const auto apart = detail::make_window_groups(bytes, 2048 * mib, page, culprit, 16 * mib);
  CHECK(sizes_of(*apart) == std::vector<std::uint32_t>{1, 1});
  const auto alone = detail::make_window_groups({100 * mib}, 101 * mib, page, culprit, 64 * mib);
  CHECK(alone->front().bytes == 100 * mib + 3 * page);
}

TEST_CASE("window: a message about too small a window has the number that is compared") {
  std::uint32_t culprit = 0;
  const auto refused = detail::make_window_groups({24}, 12'288, 4096, culprit, 4 * mib);
  REQUIRE(!refused.has_value());
  CHECK(holds(refused.error().cause(), "16,384 bytes"));
  CHECK(holds(refused.error().cause(), "12,288"));
  CHECK(detail::make_window_groups({24}, 16'384, 4096, culprit, 4 * mib).has_value());
}

TEST_CASE("window: memory of the host is taken in pages of 4 KiB, unless huge ones are kept") {
  loader_options within;
  CHECK(detail::window_page_bytes(host(), within) == 4096);
  within.cached_bytes = 1;
  CHECK(detail::window_page_bytes(host(), within) == 2 * mib);
  within.cached_bytes = 0;
  within.huge_pages = huge_pages::reserved;
  CHECK(detail::window_page_bytes(host(), within) == 2 * mib);
  CHECK(detail::window_page_bytes(device(device_kind::cuda, 0, nullptr), loader_options()) ==
        2 * mib);
}

TEST_CASE("window: a small one holds small tensors, several to a load") {
  // A sixteenth of 31 MiB has room for 100 tensors of 8,000 bytes, and no load has fewer.
  std::uint32_t culprit = 0;
  const std::vector<std::uint64_t> many(2'000, 8'000);
  const auto groups = detail::make_window_groups(many, 31 * mib, 4096, culprit, 4 * mib);
  REQUIRE(groups.has_value());
  CHECK(groups->size() == 20);

  const made_file file(equal_tensors(100, 24));
  loader with(host(), small_options());
  tensor_stream load = get(with.stream_async(file.name(), mib, use_future));
  std::vector<tensor> held;  // All of them fit.
  while (auto next = get(load.next_async(use_future))) held.push_back(std::move(*next));
  CHECK(held.size() == 100);
  CHECK(with.memory().tensor_bytes_peak <= mib);
}

TEST_CASE("window: all tensors come, in order, and never more of them than fit") {
  const std::vector<made_tensor> tensors = equal_tensors(60, 1'500'000);
  const made_file file(tensors);
  for (const auto engine : {read_engine::automatic, read_engine::threads}) {
    loader with(host(), small_options(4, engine));
    const checkpoint opened = get(with.open_async(file.name(), use_future));
    make_cold(file.path());
    tensor_stream load = get(with.stream_async(opened, 34 * mib, use_future));
    CHECK(load.catalog().tensors.size() == 60);
    for (int i = 0; i < 60; ++i) {
      const auto next = get(load.next_async(use_future));
      REQUIRE(next.has_value());
      CHECK(next->name() == "t" + std::to_string(i));
      CHECK(difference(*next, opened.at(next->name()), opened.catalog()) == "");
    }
    CHECK(!get(load.next_async(use_future)).has_value());
    CHECK(!get(load.next_async(use_future)).has_value());
    CHECK(load.progress().bytes == 60 * 1'500'000);
    CHECK(load.progress().tensors == 60);
    CHECK(with.memory().tensor_bytes_peak <= 34 * mib);
    CHECK(with.memory().tensor_bytes_peak > 8 * mib);
    load = {};
    CHECK(with.memory().tensor_bytes == 0);
    CHECK(with.memory().tensor_allocations == 0);
  }
}

TEST_CASE("window: what is held leaves no room, and dropping it makes room again") {
  const made_file file(equal_tensors(12, 3'000'000));
  loader with(host(), small_options());
  tensor_stream load = get(with.stream_async(file.name(), 16 * mib, use_future));
  std::vector<tensor> held;
  std::optional<error> full;
  while (!full) {
    auto next = load.next_async(use_future);
    try {
      held.push_back(*get(std::move(next)));
    } catch (const error& e) {
      full = e;
    }
  }
  CHECK(full->code() == errc::memory_exceeded);
  CHECK(held.size() == 5);
  CHECK(holds(full->what(), "tensor 't5'"));
  held.erase(held.begin());
  CHECK(get(load.next_async(use_future))->name() == "t5");
  held.clear();
  for (int i = 6; i < 12; ++i) {
    CHECK(get(load.next_async(use_future))->name() == "t" + std::to_string(i));
  }
  CHECK(!get(load.next_async(use_future)).has_value());
}

TEST_CASE("window: what was dropped leaves room, also while its load is still coming to its end") {
  const made_file file(equal_tensors(40, 1'500'000));
  loader with(host(), small_options());
  for (int turn = 0; turn < 20; ++turn) {
    // Memory for exactly one tensor.
    tensor_stream load = get(with.stream_async(file.name(), 2 * mib, use_future));
    int came = 0;
    while (get(load.next_async(use_future))) ++came;
    CHECK(came == 40);
  }
}

TEST_CASE("window: a tensor that is larger is refused by name, before anything is read") {
  const made_file file(std::vector<made_tensor>{{"small", 1000}, {"large", 9'000'000}});
  loader with(host(), small_options());
  const auto failed = failure_of(with.stream_async(file.name(), 8 * mib, use_future));
  REQUIRE(failed.has_value());
  CHECK(failed->code() == errc::memory_exceeded);
  CHECK(holds(failed->what(), "tensor 'large'"));
  CHECK(with.memory().tensor_bytes_peak == 0);
}

TEST_CASE("window: selections and conversions pass through it; 0 bytes are refused") {
  const made_file file(
      std::vector<made_tensor>{f32("a", 500'000), f32("b", 700'000), f32("c", 9), {"d", 11}});
  loader with(host(), small_options());
  const checkpoint opened = get(with.open_async(file.name(), use_future));
  load_options options = select().names({"b", "d"}).slice("b", 0, 100, 300'000);
  options.dtype = dtype::bf16;
  tensor_stream load = get(with.stream_async(opened, 16 * mib, options, use_future));
  const auto b = get(load.next_async(use_future));
  CHECK(b->dtype() == dtype::bf16);
  CHECK(b->size_bytes() == 600'000);
  CHECK(get(load.next_async(use_future))->name() == "d");
  CHECK(!get(load.next_async(use_future)).has_value());
  CHECK(code_of(with.stream_async(opened, 0, use_future)) == errc::invalid_options);
}

TEST_CASE("window: cancelled, destroyed or truncated, it ends, and holds no memory") {
  const made_file file(equal_tensors(40, 1'000'000));
  for (int turn = 0; turn < 12; ++turn) {
    loader with(host(), small_options());
    const checkpoint opened = get(with.open_async(file.name(), use_future));
    tensor_stream load = get(with.stream_async(opened, 32 * mib, use_future));
    for (int i = 0; i < turn; ++i) get(load.next_async(use_future));
    auto next = load.next_async(use_future);
    load.cancel();
    const auto code = code_of(std::move(next));
    CHECK((code == boost::asio::error::operation_aborted || !code));
    if (code) CHECK(code_of(load.next_async(use_future)) == boost::asio::error::operation_aborted);
  }
  {
    loader with(host(), small_options());
    tensor_stream load = get(with.stream_async(file.name(), 32 * mib, use_future));
    auto next = load.next_async(use_future);
    load = {};
    code_of(std::move(next));
  }
  loader with(host(), small_options());
  tensor_stream load = get(with.stream_async(file.name(), 32 * mib, use_future));
  std::filesystem::resize_file(file.path(), 20'000'000);
  boost::system::error_code code;
  for (int i = 0; i < 41 && !code; ++i) code = code_of(load.next_async(use_future));
  CHECK((code == errc::truncated_file || code == errc::changed_file));
}

TEST_CASE("window: a file that is written meanwhile is changed_file, at the end if not before") {
  const made_file file(equal_tensors(3, 100'000));
  loader with(host(), small_options());
  tensor_stream load = get(with.stream_async(file.name(), 32 * mib, use_future));
  std::filesystem::last_write_time(
      file.path(), std::filesystem::last_write_time(file.path()) + std::chrono::seconds(1));
  boost::system::error_code code;
  for (int i = 0; i < 4 && !code; ++i) code = code_of(load.next_async(use_future));
  CHECK(code == errc::changed_file);
  CHECK(code_of(load.next_async(use_future)) == errc::changed_file);
}
