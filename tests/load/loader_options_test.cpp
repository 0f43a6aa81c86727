// SPDX-License-Identifier: Apache-2.0

// Options that are refused, and options at the limits.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/use_future.hpp>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <ringload/ringload.hpp>
#include <span>
#include <thread>

#include "base/mapping.hpp"
#include "device/backend.hpp"
#include "support/made_checkpoint.hpp"
#include "support/scripted_loader.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::uint64_t mib = 1024 * 1024;

std::vector<made_tensor> some_tensors() { return {{"a", 999}, f32("b", 50'000), {"c", 250'000}}; }

// Returns an empty string if a loader with these limits loads the file correctly. Otherwise returns
// the error.
std::string load_within(const loader_options& within, const made_file& file) {
  loader with(host(), within);
  const model loaded = get(with.load_async(file.name(), use_future));
  if (loaded.size() != 3) return "too few tensors";
  return first_difference(loaded);
}

std::atomic<int> slots_pinned = 0;
std::atomic<int> refusals_left = 0;

// Host memory as a device that must pin slots and into which files cannot be read directly.
class staged_backend final : public backend {
 public:
  placement_rules rules() const noexcept override { return {}; }
  void keep(std::uint64_t bytes_max) override { real_->keep(bytes_max); }
  result<std::shared_ptr<arena>> allocate(std::uint64_t bytes) override {
    return real_->allocate(bytes);
  }
  result<std::string> pin(std::span<std::byte>) override {
    if (refusals_left.fetch_sub(1) > 0) return fault{system_code(ENOLCK), "pinning a slot"};
    ++slots_pinned;
    return std::string();
  }
  result<void> attach(asio::io_context& loop, slot_region slots) override {
    return real_->attach(loop, slots);
  }
  void start(copy_operation& op) noexcept override { real_->start(op); }
  void detach() noexcept override { real_->detach(); }

 private:
  const std::unique_ptr<backend> real_ = host().maker()(0);
};

device staged_device(int refusals = 0) {
  slots_pinned = 0;
  refusals_left = refusals;
  return {device_kind::host, 0,
          [](int) -> std::unique_ptr<backend> { return std::make_unique<staged_backend>(); }};
}

}  // namespace

TEST_CASE("loader_options: invalid ones are refused by name") {
  struct wrong {
    const char* named;
    std::function<void(loader_options&)> make;
  };
  const std::vector<wrong> all = {
      {"loader_options::slots: the value is 1,025, expected 1 to 1,024",
       [](loader_options& l) { l.slots = 1025; }},
      {"loader_options::slot_bytes: the value is", [](loader_options& l) { l.slot_bytes = 0; }},
      {"loader_options::slot_bytes: the value is",
       [](loader_options& l) { l.slot_bytes = 32 * 1024; }},
      {"loader_options::slot_bytes: the value is",
       [](loader_options& l) { l.slot_bytes = 64 * 1024 + 1; }},
      {"loader_options::slot_bytes: the value is",
       [](loader_options& l) { l.slot_bytes = 3 * mib; }},
      {"loader_options::slot_bytes: the value is",
       [](loader_options& l) { l.slot_bytes = 128 * mib; }},
      {"loader_options::copy_threads: the value is",
       [](loader_options& l) { l.copy_threads = 65; }},
      {"loader_options::reader_threads: the value is",
       [](loader_options& l) { l.reader_threads = 0; }},
      {"loader_options::reader_threads: the value is",
       [](loader_options& l) { l.reader_threads = 65; }},
      {"loader_options::stop_time_max: the time is negative",
       [](loader_options& l) { l.stop_time_max = std::chrono::milliseconds(-1); }},
  };
  for (const wrong& one : all) {
    CAPTURE(one.named);
    loader_options within;
    one.make(within);
    try {
      loader with(host(), within);
      FAIL_CHECK("was accepted");
    } catch (const error& e) {
      CHECK(e.code() == errc::invalid_options);
      CHECK(holds(e.what(), one.named));
    }
  }
}

TEST_CASE("loader_options: the smallest and the largest of each are accepted") {
  const made_file file(some_tensors(), 3);
  const std::vector<std::function<void(loader_options&)>> all = {
      [](loader_options& l) { l.slots = 1; },
      [](loader_options& l) { l.slots = 1024; },
      [](loader_options& l) { l.slot_bytes = 64 * mib, l.slots = 1; },
      [](loader_options& l) { l.bytes_in_flight = 0; },
      [](loader_options& l) { l.bytes_in_flight = 1; },
      [](loader_options& l) { l.bytes_in_flight = small_slot; },
      [](loader_options& l) { l.copy_threads = 64; },
      [](loader_options& l) { l.reader_threads = 64; },
      [](loader_options& l) { l.slots = 1, l.bytes_in_flight = 1, l.reader_threads = 1; },
  };
  for (const read_engine engine : {read_engine::automatic, read_engine::threads}) {
    for (const auto& change : all) {
      loader_options within = small_options(4, engine);
      change(within);
      make_cold(file.path());
      CHECK(load_within(within, file) == "");
    }
  }
}

TEST_CASE(
    "loader_options: bytes_in_flight bounds the direct reads of the ring, and one is always "
    "allowed") {
  const made_file file(equal_tensors(8, small_slot));
  make_cold(file.path());
  read_script script([](const io_request&, std::uint64_t) {
    return read_fate{.until_released = read_fate::hold::start};
  });
  loader_options within = small_options(4);
  std::size_t at_once = 0;
  SUBCASE("1 byte") { within.bytes_in_flight = 1, at_once = 1; }
  SUBCASE("one slot") { within.bytes_in_flight = small_slot, at_once = 1; }
  SUBCASE("three slots") { within.bytes_in_flight = 3 * small_slot, at_once = 3; }
  scripted_loader with(script, within);
  auto loaded = with.load_async(file.name(), {}, use_future);
  REQUIRE(script.wait_until_held(at_once));
  // The limit applies only to direct reads by the ring.
  const bool bounded = with.stats().engine == read_engine::ring && script.log()[0].direct;
  while (bounded && !ready(loaded) && script.started() < 8) {
    with.settle();
    CHECK(script.held() <= at_once);
    const std::uint64_t before = script.started();
    script.release(0);
    with.settle();
    REQUIRE(script.wait_until_held(at_once));
    CHECK(script.started() == before + 1);
  }
  script.release_all();
  CHECK(first_difference(get(std::move(loaded))) == "");
}

TEST_CASE("loader_options: the stats have the queue depth, given or tuned") {
  loader_options within = small_options(4);
  const auto told = [&within] { return loader(host(), within).stats().bytes_in_flight; };
  CHECK(told() == 4 * small_slot);  // All slots, which is less than the first value of the tuner.
  within.bytes_in_flight = 3 * small_slot;
  CHECK(told() == 3 * small_slot);
  within.bytes_in_flight = 100 * small_slot;
  CHECK(told() == 100 * small_slot);
  CHECK(loader(host(), loader_options()).stats().bytes_in_flight == bytes_in_flight_at_first);
}

TEST_CASE(
    "loader_options: arena_bytes_max limits a load, and the error has its name and both numbers") {
  const made_file file(equal_tensors(1, 1'000'000));
  loader_options within = small_options();
  within.arena_bytes_max = 999'999;
  loader with(host(), within);
  const auto failed = failure_of(with.load_async(file.name(), use_future));
  REQUIRE(failed);
  CHECK(failed->code() == errc::memory_exceeded);
  CHECK(holds(failed->what(), "arena_bytes_max is 999,999"));
  CHECK(holds(failed->what(), "need 1,0"));  // Includes the padding for unstaged reads.
  CHECK(holds(failed->what(), "model.safetensors"));
  CHECK(code_of(with.start_async(file.name(), use_future)) == errc::memory_exceeded);

  const made_file smaller(equal_tensors(1, 900'000));
  CHECK(first_difference(get(with.load_async(smaller.name(), use_future))) == "");
}

TEST_CASE("loader_options: pinned memory is slots times slot_bytes at most, whatever is loaded") {
  // One other tensor is misaligned in the file and too short for an unstaged read.
  const made_file file({f32("b", 15'000), {"a", 2 * mib + 1}, f32("c", 15'000)});
  for (const read_engine engine : {read_engine::automatic, read_engine::threads}) {
    loader with(host(), small_options(2, engine));
    CHECK(with.stats().pinned_bytes_peak == 0);
    const model loaded = get(with.load_async(file.name(), use_future));
    // One fast worker may take all reads.
    CHECK(loaded.stats().pinned_bytes_peak >= small_slot);
    CHECK(loaded.stats().pinned_bytes_peak <= 2 * small_slot);
    CHECK(loaded.stats().page_kind == "4k");  // 128 KiB are not even one huge page.
    CHECK(first_difference(loaded) == "");
  }
}

TEST_CASE("loader_options: no slot has memory before a read needs it") {
  const made_file unstaged({{"a", mib}});
  const made_file staged({{"a", 999}, f32("b", 5'000)}, 1);
  loader with(host(), small_options(4));
  CHECK(get(with.load_async(unstaged.name(), use_future)).stats().pinned_bytes_peak == 0);
  CHECK(with.stats().page_kind == "");
  CHECK_FALSE(with.stats().slots_registered);
  CHECK(with.stats().registration_reason != "");
  // One read.
  const model loaded = get(with.load_async(staged.name(), use_future));
  CHECK(loaded.stats().pinned_bytes_peak == small_slot);
  CHECK(first_difference(loaded) == "");
}

TEST_CASE(
    "loader_options: where every read is staged, all slots are prepared with the first load") {
  const made_file file({{"a", 2 * mib}, f32("b", mib / 2)}, 1);
  {
    loader with(staged_device(), small_options(8));
    CHECK(slots_pinned == 0);
    CHECK(first_difference(get(with.load_async(file.name(), use_future))) == "");
    CHECK(first_difference(get(with.load_async(file.name(), use_future))) == "");
  }
  CHECK(slots_pinned == 8);
}

TEST_CASE(
    "loader_options: a slot that cannot be pinned fails the load, and is tried again by the next") {
  const made_file file({{"a", mib}});
  // The number of attempts of the preparation and of one read.
  loader with(staged_device(2), small_options(1));
  const auto failed = failure_of(with.load_async(file.name(), use_future));
  REQUIRE(failed);
  CHECK(failed->code() == system_code(ENOLCK));
  CHECK(holds(failed->what(), "model.safetensors"));
  CHECK(holds(failed->what(), "pinning a slot"));
  CHECK(with.stats().pinned_bytes_peak == 0);
  CHECK(first_difference(get(with.load_async(file.name(), use_future))) == "");
  CHECK(with.stats().pinned_bytes_peak == small_slot);
}

TEST_CASE("loader_options: with no huge pages a loader's memory lies on small ones") {
  // One other tensor is misaligned in the file and short, so it needs a slot.
  const made_file file({f32("b", 1'000), {"a", 4 * mib + 1}, f32("c", 1'000)});
  loader_options within;
  within.huge_pages = huge_pages::none;
  loader with(host(), within);
  const model loaded = get(with.load_async(file.name(), use_future));
  CHECK(loaded.stats().page_kind == "4k");
  const tensor a = loaded.at("a");
  CHECK(kind_of({static_cast<const std::byte*>(a.data()), a.size_bytes()}) == page_kind::small);
  CHECK(first_difference(loaded) == "");
}

TEST_CASE(
    "loader_options: reserved pages are not for slots smaller than one, and the stats say so") {
  const made_file file({f32("b", mib)});
  loader_options within = small_options();
  within.huge_pages = huge_pages::reserved;
  loader with(host(), within);
  load_options converting;
  converting.dtype = dtype::f16;
  const load_stats s = get(with.load_async(file.name(), converting, use_future)).stats();
  CHECK(s.pinned_bytes_peak == 4 * small_slot);
  CHECK(s.page_kind == "4k");
  CHECK(holds(s.page_kind_reason, "slot_bytes is 65,536"));
}

TEST_CASE("loader_options: by default a loader pins no more than 64 MiB") {
  const loader_options by_default = chosen_options({}, device_kind::host);
  CHECK(by_default.slots * by_default.slot_bytes <= 64 * mib);
}

TEST_CASE("loader_options: what is left to the loader is chosen by device, and nothing else is") {
  loader_options within;
  within.slot_bytes = 2 * mib;
  const loader_options on_host = chosen_options(within, device_kind::host);
  const loader_options on_gpu = chosen_options(within, device_kind::cuda);
  CHECK(on_host.slots == 16);
  CHECK(on_host.copy_threads == 3);
  CHECK(on_gpu.slots == 32);
  CHECK(on_gpu.copy_threads >= 3);
  CHECK(on_gpu.copy_threads <= 8);
  CHECK(on_gpu.slot_bytes == 2 * mib);
  // Slots and threads for each GPU, up to a limit.
  CHECK(chosen_options(within, device_kind::cuda, 2).slots == 64);
  CHECK(chosen_options(within, device_kind::cuda, 8).slots == 128);
  CHECK(chosen_options(within, device_kind::host, 8).slots == 16);
  const std::uint32_t half = std::thread::hardware_concurrency() / 2;
  CHECK(chosen_options(within, device_kind::cuda, 8).copy_threads == std::clamp(half, 3U, 32U));
  within.slots = 1;
  within.copy_threads = 64;
  CHECK(chosen_options(within, device_kind::cuda, 8).slots == 1);
  CHECK(chosen_options(within, device_kind::cuda).slots == 1);
  CHECK(chosen_options(within, device_kind::cuda).copy_threads == 64);
}

TEST_CASE("loader_options: the requested engine reads") {
  const made_file file(some_tensors(), 3);
  loader with(host(), small_options(4, read_engine::threads));
  CHECK(with.stats().engine == read_engine::threads);
  CHECK(holds(with.stats().engine_reason, "was requested"));
  CHECK_FALSE(with.stats().slots_registered);
  CHECK(with.stats().registration_reason != "");
  const model loaded = get(with.load_async(file.name(), use_future));
  CHECK(loaded.stats().engine == read_engine::threads);
  CHECK(first_difference(loaded) == "");
}

TEST_CASE("loader_options: a sparse file of many TiB is refused before a plan is made for it") {
  const temporary_folder folder;
  const auto path = folder.path() / "model.safetensors";
  const std::uint64_t bytes = std::uint64_t{4} << 40;
  write_file(path, safetensors_text(
                       "{" + tensor_text("t", "U8", std::to_string(bytes), 0, bytes) + "}", ""));
  const std::uint64_t header = std::filesystem::file_size(path);
  std::error_code problem;
  std::filesystem::resize_file(path, header + bytes, problem);
  if (problem) {
    skip("this file system has no files of 4 TiB: " + problem.message());
    return;
  }
  loader with(host(), small_options());
  const auto failed = failure_of(with.load_async(path.string(), use_future));
  REQUIRE(failed);
  CHECK(failed->code() == errc::memory_exceeded);
  CHECK(holds(failed->what(), "need 4,398,046,511,104 bytes"));
}
