// SPDX-License-Identifier: Apache-2.0

// The steps of a load that load_options::trace receives.

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <map>
#include <ringload/ringload.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "support/counted_device.hpp"
#include "support/made_checkpoint.hpp"
#include "support/npz_text.hpp"
#include "support/scripted_loader.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

struct seen_event {
  trace_event what;
  std::string tensor;
};

struct seen_steps {
  std::vector<seen_event> all;
  std::set<std::thread::id> threads;

  static void add(const trace_event& what, void* with) noexcept {
    auto& self = *static_cast<seen_steps*>(with);
    self.all.push_back({what, std::string(what.tensor)});
    self.threads.insert(std::this_thread::get_id());
  }
  load_options options() {
    load_options how;
    how.trace = &seen_steps::add;
    how.trace_context = this;
    return how;
  }

  std::vector<seen_event> of(load_step step) const {
    std::vector<seen_event> out;
    std::ranges::copy_if(all, std::back_inserter(out),
                         [=](const seen_event& e) { return e.what.step == step; });
    return out;
  }
  std::uint64_t bytes_of(load_step step) const {
    std::uint64_t sum = 0;
    for (const seen_event& e : of(step)) sum += e.what.bytes;
    return sum;
  }
};

// A step of a worker ends before the next step of that worker begins.
bool follow_each_other(const seen_steps& seen) {
  std::map<std::uint32_t, std::vector<trace_event>> by_slot;
  for (const seen_event& e : seen.all) {
    if (e.what.slot != trace_event::none) by_slot[e.what.slot].push_back(e.what);
  }
  for (auto& [slot, steps] : by_slot) {
    std::ranges::sort(steps, {}, &trace_event::asked);
    for (std::size_t i = 1; i < steps.size(); ++i) {
      if (steps[i].asked < steps[i - 1].end) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("trace: every byte is read and every tensor lands, in times that follow each other") {
  // Each staged tensor is copied, and memory is populated for a cold file.
  const made_file file({{"a", 999}, f32("b", 20'000), {"c", 300'000}, {"none", 0}}, 3);
  for (const auto engine : {read_engine::automatic, read_engine::threads}) {
    for (const auto route : {read_route::automatic, read_route::buffered}) {
      make_cold(file.path());
      seen_steps seen;
      loader with(host(), small_options(3, engine));
      load_options how = seen.options();
      how.route = route;
      how.dtype = dtype::bf16;  // So that "b" is copied.
      const model loaded = get(with.load_async(file.name(), how, use_future));
      REQUIRE(loaded.size() == 4);
      CHECK(seen.of(load_step::opened).size() == 1);
      CHECK(seen.of(load_step::planned).size() == 1);
      CHECK(seen.of(load_step::read).size() == loaded.stats().reads);
      CHECK(seen.bytes_of(load_step::read) >= loaded.catalog().size_bytes());
      CHECK(seen.bytes_of(load_step::copied) >= 80'000);
      CHECK(seen.of(load_step::landed).size() == 4);
      std::uint64_t loaded_bytes = 0;
      for (const tensor& t : loaded) loaded_bytes += t.size_bytes();
      CHECK(seen.bytes_of(load_step::landed) == loaded_bytes);
      REQUIRE(seen.of(load_step::handed_out).size() == 1);
      CHECK(seen.of(load_step::handed_out).front().tensor == "");
      for (const seen_event& e : seen.all) {
        CHECK(e.what.asked <= e.what.begin);
        CHECK(e.what.begin <= e.what.end);
      }
      CHECK(follow_each_other(seen));
      CHECK(seen.threads.size() == 1);
      CHECK(!seen.threads.contains(std::this_thread::get_id()));
    }
  }
}

TEST_CASE("trace: reads out of the page cache name the thread that was busy with them") {
  const made_file file(equal_tensors(4, 100'000));
  file_bytes(file.name(), 0, 400'000);  // The file is now cached.
  seen_steps seen;
  loader_options within = small_options(2);
  within.copy_threads = 2;
  loader with(host(), within);
  get(with.load_async(file.name(), seen.options(), use_future));
  for (const seen_event& e : seen.of(load_step::read)) {
    CHECK(e.what.slot < 2);
    CHECK((e.what.thread < 2 || e.what.thread == trace_event::none));
    CHECK(e.tensor.starts_with("t"));
  }
}

TEST_CASE("trace: pieces of a compressed stream, and the tensors that are handed out by name") {
  const std::string original = compressible(1'500'000, 5);
  const npz_file file({member("w", npy_text("|u1", false, "1500000,", original), true),
                       member("raw", npy_text("|u1", false, "5,", "12345"), false)});
  seen_steps seen;
  loader with(host(), small_options(2));
  load_operation load = get(with.start_async(file.name(), seen.options(), use_future));
  get(load.tensor_async("w", use_future));
  while (get(load.next_async(use_future))) {
  }
  const auto pieces = seen.of(load_step::decoded);
  REQUIRE(pieces.size() > 1);
  for (const seen_event& e : pieces) {
    CHECK(e.what.stream == pieces.front().what.stream);
    CHECK(e.what.stream != trace_event::none);
    CHECK(e.what.thread != trace_event::none);
    CHECK(e.tensor == "w");
  }
  std::multiset<std::string> handed_out;
  for (const seen_event& e : seen.of(load_step::handed_out)) handed_out.insert(e.tensor);
  CHECK(handed_out == std::multiset<std::string>{"raw", "w", "w"});
  // The model is reported even if the load has already ended.
  get(load.finish_async(use_future));
  get(load.finish_async(use_future));
  CHECK(seen.of(load_step::handed_out).size() == 5);
}

TEST_CASE("trace: a fill and a load that fails tell what they did, and nothing after their end") {
  const made_file file(equal_tensors(4, 100'000));
  const std::string bytes(400'000, '\0');
  std::string memory = bytes;
  loader opening(host(), small_options());
  const checkpoint opened = get(opening.open_async(file.name(), use_future));
  std::vector<destination> into;
  for (std::size_t i = 0; i < 4; ++i) {
    into.push_back({"t" + std::to_string(i), memory.data() + i * 100'000, dtype::u8, {100'000}});
  }
  for (const std::uint64_t failing : {std::uint64_t{2}, ~std::uint64_t{0}}) {
    read_script script([=](const io_request&, std::uint64_t nth) {
      return read_fate{nth == failing ? -EIO : read_fate::as_read};
    });
    seen_steps seen;
    {
      scripted_loader with(script, small_options(1));
      const auto code = code_of(with.fill_async(opened, into, seen.options(), use_future));
      const std::size_t then = seen.all.size();
      with.settle();
      CHECK(seen.all.size() == then);
      CHECK(code.failed() == (failing == 2));
    }
    CHECK(seen.of(load_step::landed).size() == (failing == 2 ? 0 : 4));
    CHECK(seen.of(load_step::handed_out).size() == (failing == 2 ? 0 : 1));
  }
}
