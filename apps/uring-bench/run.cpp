// SPDX-License-Identifier: Apache-2.0
#include "run.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "failure.hpp"
#include "interrupts.hpp"
#include "reader_threads.hpp"
#include "resource_usage.hpp"
#include "run_program.hpp"

namespace ringload::bench {

namespace {

using clock = std::chrono::steady_clock;

// How much of a file the page cache may have gained by a read that went past it.
constexpr double gained_share_max = 0.01;
constexpr double still_warm_share = 0.99;

std::vector<std::uint64_t> sizes_of(const target& of) {
  std::vector<std::uint64_t> sizes;
  for (const target::file& one : of.files()) sizes.push_back(one.bytes);
  return sizes;
}

// Memory is fresh only once, too.
std::uint64_t passes_max(const cell& what) {
  return what.into == destination::fresh || what.cold_once() ? 1 : 0;
}

std::unique_ptr<team_member> make_member(const course& on, std::uint32_t index) {
  switch (on.what.with) {
    case method::ring: return make_ring_member(on, index);
    case method::threads: return make_pread_member(on, index);
    case method::mmap: return make_mmap_member(on, index);
  }
  return nullptr;
}

// The threads of one run: prepared, started together, joined.
class team {
 public:
  team(const course& on, std::uint32_t size) : on_(on), ready_(size), start_(1) {
    for (std::uint32_t i = 0; i < size; ++i) members_.push_back(make_member(on, i));
    failures_.resize(size);
    for (std::uint32_t i = 0; i < size; ++i) {
      threads_.emplace_back([this, i] { live(i); });
    }
    ready_.wait();
  }
  team(const team&) = delete;
  team& operator=(const team&) = delete;
  ~team() {
    if (!started_) on_.blocks.stop();
    join();
  }

  void start() {
    if (!started_) start_.count_down();
    started_ = true;
  }

  void join() {
    start();
    for (std::thread& one : threads_) {
      if (one.joinable()) one.join();
    }
  }

  // The first error of a thread. Valid while they wait for the start, or after they have ended.
  void rethrow() const {
    for (const std::exception_ptr& one : failures_) {
      if (one) std::rethrow_exception(one);
    }
  }

  void add_to(measurement& m) const {
    for (const auto& one : members_) {
      m.bytes += one->found.bytes;
      m.reads += one->found.reads;
      m.latency.add(one->found.latency);
      m.short_reads += one->found.short_reads;
      m.resubmits += one->found.resubmits;
      m.longest_submit_seconds =
          std::max(m.longest_submit_seconds, one->found.longest_submit_seconds);
      m.ring_flags = one->found.ring_flags;
    }
  }

 private:
  void live(std::uint32_t index) {
    guarded(index, [&] { members_[index]->prepare(); });
    ready_.count_down();
    start_.wait();
    if (!failures_[index]) guarded(index, [&] { members_[index]->read(); });
  }

  template <class Work>
  void guarded(std::uint32_t index, Work work) {
    try {
      work();
    } catch (...) {
      failures_[index] = std::current_exception();
    }
  }

  const course& on_;
  std::vector<std::unique_ptr<team_member>> members_;
  std::vector<std::exception_ptr> failures_;
  std::vector<std::thread> threads_;
  std::latch ready_;
  std::latch start_;
  bool started_ = false;
};

void verify_afterwards(const target& of, const cell& what, measurement& m) {
  m.cached_share_after = of.cached_share();
  if (what.state == cache_state::as_is || !m.cached_share_after) return;
  const double after = *m.cached_share_after;
  const auto percent = std::to_string(static_cast<int>(after * 100));
  if (what.by == route::direct && what.state == cache_state::cold && after > gained_share_max) {
    fail(of.path(), "the page cache has " + percent +
                        " % of it after direct reads: this file system reads through the cache, or "
                        "somebody else reads the file");
  }
  if (what.by == route::buffered && what.state == cache_state::warm && after < still_warm_share) {
    fail(of.path(), "it was not warm to the end: the page cache has kept " + percent + " %");
  }
}

}  // namespace

void check(const cell& what) {
  const auto wrong = [](const char* text) { throw tool::usage_error(text); };
  if (what.block_bytes < 512 || what.block_bytes > (std::uint64_t{1} << 30)) {
    wrong("--block: must be 512 to 1G");
  }
  if (what.by == route::direct && what.block_bytes % 512 != 0) {
    wrong("--block: direct reads are in blocks of 512 bytes, and best in such of 4,096");
  }
  if (what.depth < 1 || what.depth > 4096) wrong("--depth: must be 1 to 4096");
  if (what.rings < 1 || what.rings > 64) wrong("--rings: must be 1 to 64");
  if (what.threads < 1 || what.threads > 256) wrong("--threads: must be 1 to 256");
  if (!(what.seconds > 0) || what.seconds > 86'400) wrong("--seconds: must be more than 0");
  if (what.with != method::ring) {
    if (what.sqpoll) wrong("--sqpoll: only with --engine ring");
    if (what.iopoll) wrong("--iopoll: only with --engine ring");
    if (what.registered_buffers) wrong("--registered-buffers: only with --engine ring");
    if (what.registered_files) wrong("--registered-files: only with --engine ring");
    if (what.rings != 1) wrong("--rings: only with --engine ring");
    if (what.threads != 1) wrong("--threads: with --engine ring; else --depth is the threads");
    if (what.depth > 256) wrong("--depth: more than 256 threads");
  }
  if (what.with == method::mmap && what.by == route::direct) {
    wrong("--engine mmap: a mapping is the page cache; needs --route buffered");
  }
  if (what.iopoll && what.by != route::direct) wrong("--iopoll: needs --route direct");
  if (what.registered_buffers && what.into == destination::fresh) {
    wrong("--registered-buffers: registering makes memory present, so it is not --into fresh");
  }
}

measurement run(const target& of, const cell& what, room& memory) {
  check(what);
  measurement m;
  m.cached_share_before = of.establish(what.state);

  supply blocks(sizes_of(of), what, passes_max(what));
  const std::uint64_t places =
      what.into == destination::slots ? what.reads_at_once() : blocks.blocks();
  const std::uint64_t memory_bytes = places * what.block_bytes;
  course on{of, what, blocks, nullptr, memory_bytes};
  const mapping* taken = nullptr;
  const auto take = [&] {
    taken = &memory.take(memory_bytes, what.pages, what.into);
    on.memory = taken->data();
  };
  if (what.into != destination::fresh) take();

  const punt_counter punts;
  team readers(on, what.with == method::ring ? what.threads : what.depth);
  readers.rethrow();

  cpu_account processors;
  auto drive_before = drive_now(of.drive());
  clock::time_point begin = clock::now();
  if (what.into == destination::fresh) take();
  blocks.begin(begin);
  readers.start();
  if (what.ramp_seconds > 0) {
    std::this_thread::sleep_until(blocks.counted_from());
    processors = cpu_account();
    drive_before = drive_now(of.drive());
    begin = blocks.counted_from();
  }
  readers.join();
  m.seconds = std::chrono::duration<double>(clock::now() - begin).count();
  const cpu_times cpu = processors.spent();
  const auto drive_after = drive_now(of.drive());
  tool::throw_if_interrupted();
  readers.rethrow();

  readers.add_to(m);
  m.kernel_workers = threads_named("iou-wrk");
  m.punts = what.with == method::ring ? punts.count() : std::nullopt;
  m.cpu_seconds = cpu.own;
  m.cpu_kernel_seconds = cpu.kernel;
  m.foreign_processors = std::max(0.0, (cpu.busy - cpu.own - cpu.kernel) / m.seconds);
  if (drive_before && drive_after && drive_after->reads > drive_before->reads) {
    m.request_bytes = static_cast<double>(drive_after->bytes - drive_before->bytes) /
                      static_cast<double>(drive_after->reads - drive_before->reads);
  }
  m.pages = kind_of(taken->span());
  if (what.into == destination::fresh) memory.give_back();
  verify_afterwards(of, what, m);
  return m;
}

}  // namespace ringload::bench
