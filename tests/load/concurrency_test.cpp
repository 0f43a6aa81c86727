// SPDX-License-Identifier: Apache-2.0

// Many loads at the same time on one loader share the loader fairly and within its limits, and do
// not affect each other.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <deque>
#include <filesystem>
#include <future>
#include <optional>
#include <ringload/ringload.hpp>
#include <thread>

#include "support/counted_device.hpp"
#include "support/made_checkpoint.hpp"
#include "support/scripted_loader.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

std::vector<made_tensor> some_tensors(std::uint64_t more) {
  return {{"a", 999 + more}, f32("b", 10'000 + more), {"none", 0}, {"c", 150'000 + more}};
}

std::string path_of(const io_request& what) {
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(what.fd)).string();
}

std::vector<made_tensor> only_f32() { return {f32("f", 1000)}; }

read_fate held_at_the_start() { return {.until_released = read_fate::hold::start}; }

// A reader that completes one read at a time, on demand, and records its file.
class one_by_one {
 public:
  explicit one_by_one(std::uint32_t slots)
      : script_([this](const io_request& what, std::uint64_t) {
          const std::lock_guard lock(mutex_);
          started_.push_back(path_of(what));
          return held_at_the_start();
        }),
        with_(script_, small_options(slots)) {}

  scripted_loader& with() noexcept { return with_; }
  read_script& script() noexcept { return script_; }

  void serve_one() {
    REQUIRE(script_.wait_until_held(1));
    script_.release(0);
    with_.settle();
  }
  std::vector<std::string> started() const {
    const std::lock_guard lock(mutex_);
    return started_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> started_;
  read_script script_;
  scripted_loader with_;
};

// The position of the last read of the file among all reads.
std::size_t last_of(const std::vector<std::string>& reads, const std::string& path) {
  for (std::size_t at = reads.size(); at > 0; --at) {
    if (reads[at - 1] == path) return at;
  }
  return 0;
}

std::size_t first_of(const std::vector<std::string>& reads, const std::string& path) {
  return static_cast<std::size_t>(std::find(reads.begin(), reads.end(), path) - reads.begin()) + 1;
}

}  // namespace

TEST_CASE("concurrency: 64 loads at once, from several threads and executors, are each right") {
  std::vector<std::unique_ptr<made_file>> files;
  for (unsigned i = 0; i < 8; ++i) {
    files.push_back(std::make_unique<made_file>(some_tensors(i * 1111), i));
  }
  for (const read_engine engine : {read_engine::automatic, read_engine::threads}) {
    auto with = std::make_unique<loader>(counted_host(), small_options(4, engine));
    asio::thread_pool pool(2);
    asio::io_context context;
    std::atomic<int> right = 0;
    std::atomic<int> answered = 0;
    const auto count = [&](boost::system::error_code failure, const model& loaded) {
      if (!failure && first_difference(loaded) == "") ++right;
      ++answered;
    };
    std::vector<std::thread> callers;
    for (unsigned c = 0; c < 4; ++c) {
      callers.emplace_back([&, c] {
        const auto strand = asio::make_strand(pool);
        for (unsigned i = 0; i < 16; ++i) {
          const std::string source = files[(c + i) % files.size()]->name();
          switch (i % 3) {
            case 0: with->load_async(source, asio::bind_executor(strand, count)); break;
            case 1: with->load_async(source, asio::bind_executor(pool, count)); break;
            default: with->load_async(source, asio::bind_executor(context, count));
          }
        }
      });
    }
    for (std::thread& one : callers) one.join();
    context.run();
    pool.join();
    CHECK(answered == 64);
    CHECK(right == 64);
    CHECK(with->stats().pinned_bytes_peak == 4 * small_slot);
    with.reset();
    CHECK(arenas_taken == 0);
  }
}

TEST_CASE("concurrency: with 64 loads there is still one read for each slot, and not more") {
  const made_file file(equal_tensors(4, small_slot));
  read_script script([](const io_request&, std::uint64_t) { return held_at_the_start(); });
  loader_options within = small_options(3);
  within.bytes_in_flight = 64 * small_slot;
  scripted_loader with(script, within, counted_host());
  std::vector<std::future<model>> loads;
  for (int i = 0; i < 64; ++i) {
    loads.push_back(with.load_async(file.name(), by(read_route::buffered), use_future));
  }
  for (int turn = 0; turn < 200; ++turn) {
    REQUIRE(script.wait_until_held(3));
    with.settle();
    CHECK(script.held() == 3);
    script.release(static_cast<std::size_t>(turn) % 3);
  }
  CHECK(with.stats().pinned_bytes_peak <= 3 * small_slot);
  script.release_all();
  for (auto& one : loads) CHECK(first_difference(get(std::move(one))) == "");
  loads.clear();
  with.close();
  CHECK(arenas_taken == 0);
}

TEST_CASE("concurrency: two equal loads end within a fifth of each other, in reads served") {
  const made_file a(equal_tensors(40, small_slot));
  const made_file b(equal_tensors(40, small_slot));
  one_by_one reader(4);
  auto first = reader.with().load_async(a.name(), by(read_route::buffered), use_future);
  REQUIRE(reader.script().wait_until_held(4));  // The first load has all slots.
  load_operation second =
      get(reader.with().start_async(b.name(), by(read_route::buffered), use_future));
  reader.with().settle();
  auto finished = second.finish_async(use_future);
  while (!ready(first) || !ready(finished)) {
    if (reader.script().held() > 0)
      reader.serve_one();
    else
      reader.with().settle();
  }
  const auto reads = reader.started();
  const auto end_of_a = static_cast<double>(last_of(reads, a.name()));
  const auto end_of_b = static_cast<double>(last_of(reads, b.name()));
  CHECK(end_of_a > 0.8 * end_of_b);
  CHECK(end_of_b > 0.8 * end_of_a);
  CHECK(first_difference(get(std::move(first))) == "");
  CHECK(first_difference(get(std::move(finished))) == "");
}

TEST_CASE("concurrency: a small load is not stuck behind a large one") {
  const made_file large(equal_tensors(200, small_slot));
  const made_file small(equal_tensors(3, small_slot));
  one_by_one reader(4);
  auto slow = reader.with().load_async(large.name(), by(read_route::buffered), use_future);
  REQUIRE(reader.script().wait_until_held(4));
  for (int i = 0; i < 20; ++i) {
    reader.serve_one();
    REQUIRE(reader.script().wait_until_held(4));
  }
  load_operation quick =
      get(reader.with().start_async(small.name(), by(read_route::buffered), use_future));
  reader.with().settle();
  auto done = quick.finish_async(use_future);
  // The reads that held the slots at the start, the reads of the small load, and the same number of
  // reads of the large load. No further read is completed, but the small load must end.
  for (int i = 0; i < 4 + 2 * 4; ++i) reader.serve_one();
  const model loaded = get(std::move(done));
  CHECK(first_difference(loaded) == "");
  const auto reads = reader.started();
  const std::size_t own = last_of(reads, small.name()) - first_of(reads, small.name()) + 1;
  // Four reads, because the header shifts the bytes. Each waits for at most one read of the large
  // load.
  CHECK(own <= 2 * 4);
  CHECK_FALSE(ready(slow));
  reader.script().release_all();
  CHECK(first_difference(get(std::move(slow))) == "");
}

TEST_CASE("concurrency: an awaited tensor comes before the reads of other loads") {
  const made_file large(equal_tensors(100, small_slot));
  const made_file other(equal_tensors(50, small_slot));
  one_by_one reader(2);
  auto slow = reader.with().load_async(large.name(), by(read_route::buffered), use_future);
  REQUIRE(reader.script().wait_until_held(2));
  load_operation load =
      get(reader.with().start_async(other.name(), by(read_route::buffered), use_future));
  auto last = load.tensor_async("t49", use_future);
  reader.with().settle();
  for (int i = 0; i < 6; ++i) reader.serve_one();
  CHECK(get(std::move(last)).name() == "t49");
  reader.script().release_all();
}

TEST_CASE("concurrency: loads that fail, each in its own way, disturb no other") {
  const made_file good(some_tensors(0), 3);
  const made_file unreadable(some_tensors(5), 3);
  const made_file refused(some_tensors(7), 3);
  const std::string bad_path = unreadable.name();
  read_script script([bad_path](const io_request& what, std::uint64_t) {
    return path_of(what) == bad_path ? read_fate{-EIO} : read_fate();
  });
  checksum_list listed;  // A list without its tensors.
  load_options checked;
  checked.verify = &listed;
  scripted_loader with(script, small_options(4), counted_host());
  std::vector<std::future<model>> goods;
  std::vector<std::future<model>> bads;
  std::deque<load_operation> cancelled;
  for (int i = 0; i < 64; ++i) {
    switch (i % 8) {
      case 1: bads.push_back(with.load_async(bad_path, {}, use_future)); break;
      case 3: bads.push_back(with.load_async(refused.name(), checked, use_future)); break;
      case 5: bads.push_back(with.load_async(bad_path + "x", {}, use_future)); break;
      case 7:
        cancelled.push_back(get(with.start_async(good.name(), {}, use_future)));
        cancelled.back().cancel();
        break;
      default: goods.push_back(with.load_async(good.name(), {}, use_future));
    }
  }
  for (auto& one : bads) CHECK(code_of(std::move(one)));
  for (auto& one : goods) CHECK(first_difference(get(std::move(one))) == "");
  cancelled.clear();
  goods.clear();
  with.close();
  CHECK(arenas_taken == 0);
}

TEST_CASE("concurrency: a load that awaits many tensors does not starve one that awaits few") {
  const made_file greedy(equal_tensors(60, small_slot));
  const made_file modest(equal_tensors(60, small_slot));
  one_by_one reader(1);
  load_operation first =
      get(reader.with().start_async(greedy.name(), by(read_route::buffered), use_future));
  load_operation second =
      get(reader.with().start_async(modest.name(), by(read_route::buffered), use_future));
  std::vector<std::future<tensor>> many;
  for (int i = 10; i < 50; ++i) {
    many.push_back(first.tensor_async("t" + std::to_string(i), use_future));
  }
  auto one = second.tensor_async("t55", use_future);
  reader.with().settle();
  // The read that held the slot, then one or two reads of the tensor, and the same number of reads
  // of the other load.
  for (int i = 0; i < 1 + 2 * 2; ++i) reader.serve_one();
  CHECK(get(std::move(one)).name() == "t55");
  reader.script().release_all();
}

TEST_CASE("concurrency: a load ends, or is cancelled, while others are slow to open") {
  const made_file file(equal_tensors(4, small_slot));
  const made_file floats(only_f32());
  read_script script([](const io_request&, std::uint64_t) { return held_at_the_start(); });
  scripted_loader with(script, small_options(), counted_host());
  load_operation load = get(with.start_async(file.name(), by(read_route::buffered), use_future));
  load_operation unwanted =
      get(with.start_async(file.name(), by(read_route::buffered), use_future));

  struct slowness {
    std::promise<void> go;
    std::shared_future<void> gone = go.get_future().share();
    std::atomic<int> inside = 0;
  } slow;
  load_options how;
  how.dtype = dtype::bf16;
  how.converts = [&slow](const tensor_info&) {
    ++slow.inside;
    slow.gone.wait();
    return false;
  };
  std::vector<std::future<model>> opening;
  for (int i = 0; i < 4; ++i) {
    opening.push_back(with.load_async(floats.name(), how, use_future));
  }
  while (slow.inside < 2) std::this_thread::yield();

  auto landed = load.finish_async(use_future);
  auto cancelled = unwanted.finish_async(use_future);
  unwanted.cancel();
  script.release_all();
  CHECK(first_difference(get(std::move(landed))) == "");
  CHECK(code_of(std::move(cancelled)) == asio::error::operation_aborted);
  slow.go.set_value();
  for (auto& one : opening) CHECK(first_difference(get(std::move(one))) == "");
}

namespace {

// A load by two workers: when each read was started, and when the first copy was requested.
struct first_copy {
  std::vector<trace_event::clock::time_point> started;
  std::optional<trace_event::clock::time_point> asked;
  int slots = 0;  // Number of populated slots.
  std::promise<void> both_slots;

  // Runs in the engine thread, like the rule of a script.
  static void add(const trace_event& what, void* with) noexcept {
    auto& self = *static_cast<first_copy*>(with);
    if (what.step == load_step::copied && !self.asked) self.asked = what.asked;
    const bool slot = what.step == load_step::populated && what.slot != trace_event::none;
    if (slot && ++self.slots == 2) self.both_slots.set_value();
  }
};

}  // namespace

TEST_CASE("two workers: the read that waits for another's end is started before that is copied") {
  // Staged, because the tensors are converted. Only one read may be in flight.
  const made_file file({f32("a", 40'000)});
  make_cold(file.path());
  first_copy seen;
  read_script script([&seen](const io_request&, std::uint64_t number) {
    seen.started.push_back(trace_event::clock::now());
    const bool first = number == 0;
    return read_fate{.until_released = first ? read_fate::hold::completion : read_fate::hold::none};
  });
  loader_options within = small_options(2);
  within.bytes_in_flight = small_slot;
  scripted_loader with(script, within);
  load_options how;
  how.dtype = dtype::bf16;
  how.trace = &first_copy::add;
  how.trace_context = &seen;
  auto load = with.load_async(file.name(), how, use_future);
  get(seen.both_slots.get_future());  // The second read then waits.
  REQUIRE(script.wait_until_held(1));
  script.release(0);
  get(std::move(load));
  if (!script.log()[0].direct) return skip("no direct reads of files in the temporary folder");
  REQUIRE(seen.started.size() == 3);
  REQUIRE(seen.asked);
  CHECK(seen.started[1] <= *seen.asked);
}
