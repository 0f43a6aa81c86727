// SPDX-License-Identifier: Apache-2.0

// loader_options::cached_bytes: freed memory of tensors, kept for the next load.

#include <doctest/doctest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/use_future.hpp>
#include <optional>
#include <ringload/ringload.hpp>
#include <string>

#include "support/made_checkpoint.hpp"
#include "support/resident.hpp"
#include "support/scripted_loader.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::uint64_t mib = 1 << 20;

loader_options keeping(std::uint64_t bytes) {
  loader_options within = small_options();
  within.cached_bytes = bytes;
  return within;
}

// Differs from the bytes of made_file for a tensor of the same size.
made_file other_file(const std::vector<made_tensor>& tensors) {
  return {made_file::as_it_is::text, checkpoint_text(tensors, 0, 77)};
}

// Returns true if the load reused memory of an earlier load. Also checks the bytes.
bool loads_into_kept(loader& with, const made_file& file) {
  const model loaded = get(with.load_async(file.name(), use_future));
  CHECK(first_difference(loaded) == "");
  return loaded.stats().memory_kept;
}

}  // namespace

TEST_CASE("kept memory: the next load reuses it, whatever it contains") {
  for (const read_engine engine : {read_engine::automatic, read_engine::threads}) {
    loader_options within = keeping(64 * mib);
    within.engine = engine;
    loader with(host(), within);
    const made_file one(equal_tensors(8, 500'001));
    const made_file two = other_file({{"a", 3'900'000}, f32("b", 25)});
    CHECK_FALSE(loads_into_kept(with, one));
    for (int i = 0; i < 3; ++i) {
      make_cold(two.path());
      CHECK(loads_into_kept(with, two));
      CHECK(loads_into_kept(with, two));
      CHECK(loads_into_kept(with, one));
    }
  }
}

TEST_CASE("kept memory: is not populated again") {
  const made_file file(equal_tensors(1, 16 * mib));
  loader with(host(), keeping(64 * mib));
  const auto load_cold = [&] {
    make_cold(file.path());
    return get(with.load_async(file.name(), use_future)).stats();
  };
  const load_stats first = load_cold();
  CHECK((first.seconds_memory_wait > 0) == (first.bytes_direct > 0));
  const load_stats second = load_cold();
  CHECK(second.memory_kept);
  CHECK(second.seconds_memory_wait == 0);
}

TEST_CASE("kept memory: none by default") {
  loader with(host(), small_options());
  const made_file file(equal_tensors(8, 500'000));
  CHECK_FALSE(loads_into_kept(with, file));
  CHECK_FALSE(loads_into_kept(with, file));
}

TEST_CASE("kept memory: memory of a living tensor is not reused") {
  loader with(host(), keeping(64 * mib));
  const made_file one(equal_tensors(8, 500'000));
  const made_file two = other_file(equal_tensors(8, 500'000));
  std::optional<tensor> last = get(with.load_async(one.name(), use_future)).at("t7");
  const std::string before(bytes_of(*last));
  CHECK_FALSE(loads_into_kept(with, two));
  CHECK(loads_into_kept(with, two));
  CHECK(bytes_of(*last) == before);
  last.reset();
  const model a = get(with.load_async(two.name(), use_future));
  const model b = get(with.load_async(two.name(), use_future));
  CHECK(a.stats().memory_kept);
  CHECK(b.stats().memory_kept);
  CHECK(a.at("t0").data() != b.at("t0").data());
  CHECK(first_difference(a) == "");
}

TEST_CASE("kept memory: a load that needs more, or far less, allocates its own") {
  loader with(host(), keeping(64 * mib));
  const made_file middle(equal_tensors(1, 16 * mib));
  const made_file larger(equal_tensors(1, 20 * mib));
  const made_file small(equal_tensors(1, 4 * mib));
  CHECK_FALSE(loads_into_kept(with, middle));
  CHECK_FALSE(loads_into_kept(with, larger));
  CHECK_FALSE(loads_into_kept(with, small));
  // The list now has all three allocations.
  CHECK(loads_into_kept(with, small));
  CHECK(loads_into_kept(with, larger));
  CHECK(loads_into_kept(with, middle));
}

TEST_CASE("kept memory: no more than cached_bytes") {
  const made_file file(equal_tensors(1, 16 * mib));
  loader with(host(), keeping(31 * mib));
  CHECK_FALSE(loads_into_kept(with, file));
  for (int i = 0; i < 2; ++i) {
    const model a = get(with.load_async(file.name(), use_future));
    const model b = get(with.load_async(file.name(), use_future));
    CHECK(a.stats().memory_kept);
    CHECK_FALSE(b.stats().memory_kept);
  }
}

TEST_CASE("kept memory: a cancelled load's too, once no read is in flight") {
  const made_file file(equal_tensors(40, small_slot));
  make_cold(file.path());
  read_script script([](const io_request&, std::uint64_t) {
    return read_fate{.until_released = read_fate::hold::completion};
  });
  scripted_loader with(script, keeping(64 * mib));
  asio::cancellation_signal stop;
  auto first =
      with.load_async(file.name(), {}, asio::bind_cancellation_slot(stop.slot(), use_future));
  REQUIRE(script.wait_until_held(2));
  stop.emit(asio::cancellation_type::terminal);
  // The second load allocates its memory while reads of the first load may still write.
  load_operation second = get(with.start_async(file.name(), {}, use_future));
  script.release_all();
  CHECK(code_of(std::move(first)) == asio::error::operation_aborted);
  const model beside = get(second.finish_async(use_future));
  CHECK_FALSE(beside.stats().memory_kept);
  CHECK(first_difference(beside) == "");
  const model after = get(with.load_async(file.name(), {}, use_future));
  CHECK(after.stats().memory_kept);
  CHECK(first_difference(after) == "");
}

TEST_CASE("kept memory: tensors may outlive the loader") {
  const made_file file(equal_tensors(1, 4 * mib));
  model loaded;
  {
    loader with(host(), keeping(64 * mib));
    loaded = get(with.load_async(file.name(), use_future));
  }
  CHECK(first_difference(loaded) == "");
}

TEST_CASE("kept memory: none after the loader is destroyed, though a loading outlives it") {
  const made_file file(equal_tensors(1, 4 * mib));
  std::optional<load_operation> other;
  std::optional<load_operation> load;
  void* memory = nullptr;
  {
    loader with(host(), keeping(64 * mib));
    other = get(with.start_async(file.name(), use_future));
    get(other->finish_async(use_future));
    load = get(with.start_async(file.name(), use_future));
    memory = get(load->finish_async(use_future)).at("t0").data();
  }
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::span<std::byte> page(reinterpret_cast<std::byte*>(address - address % 4096), 4096);
  CHECK(resident_pages(page) == 1);
  load.reset();
  CHECK_THROWS(resident_pages(page));  // The page is no longer mapped.
}
