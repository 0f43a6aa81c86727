// SPDX-License-Identifier: Apache-2.0

// Separate allocations for each tensor or file: their bytes, and when they are freed.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <cerrno>
#include <optional>
#include <ringload/loader.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/counted_device.hpp"
#include "support/made_checkpoint.hpp"
#include "support/npz_text.hpp"
#include "support/scripted_loader.hpp"
#include "support/settled.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr allocation all_allocations[] = {allocation::per_load, allocation::per_file,
                                          allocation::per_tensor};

load_options allocating(allocation how, read_route route = read_route::automatic) {
  load_options options;
  options.allocation = how;
  options.route = route;
  return options;
}

// Long and short tensors. Some are misaligned, one is empty.
std::vector<made_tensor> long_and_short() {
  return {{"a", 999},  f32("b", 20'000), {"c", 300'000},    {"d", 7},    {"none", 0},
          f32("e", 3), {"f", 70'001},    f32("g", 300'000), {"last", 10}};
}

std::size_t places_of(const model& loaded) {
  std::set<const void*> places;
  for (const memory_region& each : loaded.regions()) places.insert(each.data);
  return places.size();
}

std::uint64_t bytes_of_regions(const model& loaded) {
  std::uint64_t sum = 0;
  for (const memory_region& each : loaded.regions()) sum += each.bytes;
  return sum;
}

// Two files of two tensors each.
struct two_files {
  made_file one{std::vector<made_tensor>{{"a", 200'000}, {"b", 500}}};
  made_file two{std::vector<made_tensor>{{"c", 100}, {"d", 150'000}}, 5};

  std::vector<std::string> names() const { return {one.name(), two.name()}; }
};

}  // namespace

TEST_CASE("allocation: whatever shares memory, the bytes are the same") {
  for (const std::size_t spaces : {std::size_t{0}, std::size_t{3}}) {
    const made_file file(long_and_short(), spaces);
    for (const auto engine : {read_engine::automatic, read_engine::threads}) {
      loader with(host(), small_options(3, engine));
      for (const allocation how : all_allocations) {
        for (const auto route : {read_route::automatic, read_route::buffered}) {
          make_cold(file.path());
          const model loaded =
              get(with.load_async(file.name(), allocating(how, route), use_future));
          CHECK(first_difference(loaded) == "");
          CHECK(places_of(loaded) == (how == allocation::per_tensor ? 9 : 1));
          CHECK(settled_memory(with, file.name()).tensor_allocations == places_of(loaded));
          CHECK(settled_memory(with, file.name()).tensor_bytes == bytes_of_regions(loaded));
        }
        CHECK(settled_memory(with, file.name()).tensor_bytes == 0);
      }
    }
  }
}

TEST_CASE("allocation: per tensor, dropping one gives its memory back, and no other") {
  const made_file file(long_and_short());
  loader with(host(), small_options());
  std::optional<model> loaded =
      get(with.load_async(file.name(), allocating(allocation::per_tensor), use_future));
  std::optional<tensor> kept = loaded->at("g");
  const tensor small = loaded->at("d");
  const std::string before(bytes_of(*kept));
  loaded.reset();
  CHECK(settled_memory(with, file.name()).tensor_allocations == 2);
  CHECK(settled_memory(with, file.name()).tensor_bytes >= 1'200'000);
  CHECK(settled_memory(with, file.name()).tensor_bytes <= 1'200'000 + 2 * 4096 + 7);
  CHECK(bytes_of(*kept) == before);
  kept.reset();
  CHECK(settled_memory(with, file.name()).tensor_allocations == 1);
  CHECK(settled_memory(with, file.name()).tensor_bytes == 7);
  CHECK(small.size_bytes() == 7);
}

TEST_CASE("allocation: per file, the tensors of one file come back together") {
  const two_files files;
  loader with(host(), small_options());
  const checkpoint opened = get(with.open_async(files.names(), use_future));
  std::optional<model> loaded =
      get(with.load_async(opened, allocating(allocation::per_file), use_future));
  CHECK(first_difference(*loaded) == "");
  CHECK(loaded->regions().size() == 2);
  std::optional<tensor> c = loaded->at("c");
  loaded.reset();
  CHECK(settled_memory(with, files.one.name()).tensor_allocations == 1);
  CHECK(settled_memory(with, files.one.name()).tensor_bytes >= 150'100);
  CHECK(settled_memory(with, files.one.name()).tensor_bytes < 200'000);
  c.reset();
  CHECK(settled_memory(with, files.one.name()).tensor_allocations == 0);
}

TEST_CASE("allocation: per file, one of which nothing is wanted takes nothing") {
  const two_files files;
  loader with(host(), small_options());
  const checkpoint opened = get(with.open_async(files.names(), use_future));
  const model loaded = get(with.load_async(
      opened, selecting(select().names({"d"}), allocating(allocation::per_file)), use_future));
  CHECK(loaded.regions().size() == 1);
  CHECK(settled_memory(with, files.one.name()).tensor_allocations == 1);
}

TEST_CASE("allocation: selections, fused tensors and conversions have the same bytes in all") {
  const std::vector<made_tensor> tensors = {
      f32("a", 90'000), f32("b", 60'000), f32("c", 17), {"d", 100'001}};
  const made_file file(tensors, 1);
  loader with(host(), small_options());
  const checkpoint opened = get(with.open_async(file.name(), use_future));
  const auto loaded = [&](allocation how) {
    load_options options = allocating(how);
    options.dtype = dtype::bf16;
    const selection some =
        select().names({"a", "b", "c", "d"}).slice("d", 0, 5, 90'000).fused("ab", {"a", "b"}, 0);
    return get(with.load_async(opened, selecting(some, options), use_future));
  };
  const model together = loaded(allocation::per_load);
  for (const allocation how : {allocation::per_file, allocation::per_tensor}) {
    const model apart = loaded(how);
    REQUIRE(apart.size() == together.size());
    for (const tensor& t : together) {
      CHECK(apart.at(t.name()).dtype() == t.dtype());
      CHECK(bytes_of(apart.at(t.name())) == bytes_of(t));
    }
  }
}

TEST_CASE("allocation: what is decoded has memory of its own as well") {
  std::vector<zip_part> parts;
  std::vector<std::string> originals;
  for (const std::uint64_t bytes : {10U, 60'000U, 900'000U}) {
    originals.push_back(compressible(bytes, bytes));
    parts.push_back(member("a" + std::to_string(originals.size() - 1),
                           npy_text("|u1", false, std::to_string(bytes) + ",", originals.back()),
                           true));
  }
  const npz_file file(parts);
  loader with(host(), small_options(2));
  const model loaded =
      get(with.load_async(file.name(), allocating(allocation::per_tensor), use_future));
  CHECK(loaded.regions().size() == 3);
  for (std::size_t i = 0; i < originals.size(); ++i) {
    CHECK((bytes_of(loaded.at("a" + std::to_string(i))) == originals[i]));
  }
}

TEST_CASE("allocation: kept memory is reused piece by piece") {
  const made_file file(equal_tensors(3, 5'000'000));
  loader_options within = small_options();
  within.cached_bytes = 64 << 20;
  loader with(host(), within);
  CHECK_FALSE(get(with.load_async(file.name(), allocating(allocation::per_tensor), use_future))
                  .stats()
                  .memory_kept);
  const model again =
      get(with.load_async(file.name(), allocating(allocation::per_tensor), use_future));
  CHECK(again.stats().memory_kept);
  CHECK(first_difference(again) == "");
}

TEST_CASE("allocation: through a window, what is dropped gives room though its neighbour is held") {
  const made_file file(equal_tensors(40, 400'000));
  loader with(host(), small_options());
  const load_options options = allocating(allocation::per_tensor);
  const checkpoint opened = get(with.open_async(file.name(), use_future));
  // A group is a sixteenth of the window: five tensors.
  tensor_stream load = get(with.stream_async(opened, 34 << 20, options, use_future));
  std::vector<tensor> held;
  for (int i = 0; i < 40; ++i) {
    const auto next = get(load.next_async(use_future));
    REQUIRE(next.has_value());
    CHECK(difference(*next, opened.at(next->name()), opened.catalog()) == "");
    if (i % 10 == 0) held.push_back(*next);
  }
  CHECK_FALSE(get(load.next_async(use_future)).has_value());
  load = {};
  CHECK(settled_memory(with, file.name()).tensor_allocations == held.size());
  CHECK(settled_memory(with, file.name()).tensor_bytes <= held.size() * (400'000 + 2 * 4096));
}

TEST_CASE("allocation: the limit is for all pieces together") {
  const made_file file(equal_tensors(4, 1000));
  loader_options within = small_options();
  within.arena_bytes_max = 3999;
  loader with(host(), within);
  const auto failed =
      failure_of(with.load_async(file.name(), allocating(allocation::per_tensor), use_future));
  REQUIRE(failed);
  CHECK(failed->code() == errc::memory_exceeded);
}

TEST_CASE("allocation: a read that fails, or a cancellation, gives all pieces back") {
  const made_file file(long_and_short(), 1);
  for (const allocation how : {allocation::per_file, allocation::per_tensor}) {
    read_script counting;
    std::uint64_t reads = 0;
    {
      scripted_loader with(counting, small_options(1));
      reads = get(with.load_async(file.name(), allocating(how), use_future)).stats().reads;
    }
    REQUIRE(reads >= 3);
    for (std::uint64_t n = 0; n < reads; ++n) {
      CAPTURE(n);
      read_script script([n](const io_request&, std::uint64_t nth) {
        return nth == n ? read_fate{-EIO} : read_fate{};
      });
      scripted_loader with(script, small_options(3), counted_host());
      const auto failed = failure_of(with.load_async(file.name(), allocating(how), use_future));
      REQUIRE(failed);
      CHECK(holds(failed->what(), "Input/output error"));
      CHECK(arenas_taken == 0);
    }
    read_script script([](const io_request&, std::uint64_t) {
      return read_fate{.until_released = read_fate::hold::completion};
    });
    scripted_loader with(script, small_options(2), counted_host());
    load_operation load = get(with.start_async(file.name(), allocating(how), use_future));
    REQUIRE(script.wait_until_held(2));
    auto end = load.finish_async(use_future);
    load.cancel();
    script.release_all();
    CHECK(code_of(std::move(end)) == boost::asio::error::operation_aborted);
    load = {};
    CHECK(arenas_taken == 0);
  }
}
