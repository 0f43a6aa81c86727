// SPDX-License-Identifier: Apache-2.0
#include "run.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <latch>
#include <memory>
#include <string>
#include <system_error>
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

constexpr double still_warm_share = 0.99;

std::vector<std::uint64_t> sizes_of(const target& source) {
  std::vector<std::uint64_t> sizes;
  for (const target::file& one : source.files()) sizes.push_back(one.bytes);
  return sizes;
}

// Fresh memory and a cold page cache can be used only once.
std::uint64_t passes_max(const cell& config) {
  return config.into == destination::fresh || config.cold_once() ? 1 : 0;
}

std::unique_ptr<team_member> make_member(const course& on, std::uint32_t index) {
  switch (on.config.with) {
    case method::ring: return make_ring_member(on, index);
    case method::threads: return make_pread_member(on, index);
    case method::mmap: return make_mmap_member(on, index);
  }
  return nullptr;
}

// The threads of one run. Prepares, starts and joins the threads together.
class team {
 public:
  team(const course& on, std::uint32_t size)
      : on_(on), ready_(size), start_(1), ended_(size), leave_(1) {
    for (std::uint32_t i = 0; i < size; ++i) members_.push_back(make_member(on, i));
    failures_.resize(size);
    threads_.reserve(size);
    try {
      for (std::uint32_t i = 0; i < size; ++i) threads_.emplace_back([this, i] { live(i); });
    } catch (const std::system_error& refused) {
      on_.blocks.stop();
      join();
      fail("thread " + std::to_string(threads_.size() + 1) + " of " + std::to_string(size),
           std::string("cannot be started: ") + refused.what());
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

  // Waits until every thread has ended its reads. The threads exist until join(), because the
  // kernel workers of a ring end with the thread that created the ring.
  void wait() {
    start();
    ended_.wait();
  }

  void join() {
    start();
    if (!left_) leave_.count_down();
    left_ = true;
    for (std::thread& one : threads_) {
      if (one.joinable()) one.join();
    }
  }

  // Throws the first error of a thread. May be called while the threads wait for the start, or
  // after they have ended.
  void rethrow() const {
    for (const std::exception_ptr& one : failures_) {
      if (one) std::rethrow_exception(one);
    }
  }

  void add_to(measurement& m) const {
    for (const auto& one : members_) {
      m.bytes += one->measured.bytes;
      m.reads += one->measured.reads;
      m.latency.add(one->measured.latency);
      m.short_reads += one->measured.short_reads;
      m.resubmits += one->measured.resubmits;
      m.longest_submit_seconds =
          std::max(m.longest_submit_seconds, one->measured.longest_submit_seconds);
      m.ring_flags = one->measured.ring_flags;
    }
  }

 private:
  void live(std::uint32_t index) {
    guarded(index, [&] { members_[index]->prepare(); });
    ready_.count_down();
    start_.wait();
    if (!failures_[index]) guarded(index, [&] { members_[index]->read(); });
    ended_.count_down();
    leave_.wait();
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
  std::latch ended_;
  std::latch leave_;
  bool started_ = false;
  bool left_ = false;
};

void verify_afterwards(const target& source, const cell& config, measurement& m) {
  m.cached_share_after = source.cached_share();
  if (config.state == cache_state::as_is || !m.cached_share_after) return;
  const double after = *m.cached_share_after;
  if (config.by == route::direct && config.state == cache_state::cold && after > cold_share_max) {
    fail(source.path(),
         "the page cache has " + percent_text(after) +
             " of it after direct reads: this file system reads through the cache, or "
             "somebody else reads the file");
  }
  if (config.by == route::buffered && config.state == cache_state::warm &&
      after < still_warm_share) {
    fail(source.path(), "the file did not stay in the page cache during the run: " +
                            percent_text(after) + " is left");
  }
}

}  // namespace

void check(const cell& config) {
  const auto wrong = [](const char* text) { throw tool::usage_error(text); };
  if (config.block_bytes < 512 || config.block_bytes > (std::uint64_t{1} << 30)) {
    wrong("--block: must be 512 to 1G");
  }
  if (config.by == route::direct && config.block_bytes % 512 != 0) {
    wrong("--block: must be a multiple of 512 for direct reads, better of 4,096");
  }
  if (config.depth < 1 || config.depth > 4096) {
    wrong("--depth, --bytes-in-flight: the reads in flight of a ring must be 1 to 4,096");
  }
  if (config.rings < 1 || config.rings > 64) wrong("--rings: must be 1 to 64");
  if (config.threads < 1 || config.threads > 256) wrong("--threads: must be 1 to 256");
  if (!(config.seconds > 0) || config.seconds > 86'400) wrong("--seconds: must be more than 0");
  if (config.with != method::ring) {
    if (config.sqpoll) wrong("--sqpoll: only with --engine ring");
    if (config.iopoll) wrong("--iopoll: only with --engine ring");
    if (config.registered_buffers) wrong("--registered-buffers: only with --engine ring");
    if (config.registered_files) wrong("--registered-files: only with --engine ring");
    if (config.rings != 1) wrong("--rings: only with --engine ring");
    if (config.threads != 1)
      wrong("--threads: only with --engine ring; --depth sets the number of other threads");
    if (config.depth > 256) {
      wrong("--depth, --bytes-in-flight: the number of threads must be at most 256");
    }
  }
  if (config.with == method::mmap && config.by == route::direct) {
    wrong("--engine mmap: needs --route buffered, because a mapping uses the page cache");
  }
  if (config.iopoll && config.by != route::direct) wrong("--iopoll: needs --route direct");
  if (config.registered_buffers && config.into == destination::fresh) {
    wrong("--registered-buffers: cannot be used with --into fresh, because it populates memory");
  }
}

measurement run(const target& source, const cell& config, read_buffer& memory) {
  check(config);
  measurement m;
  m.cached_share_before = source.establish(config.state);

  supply blocks(sizes_of(source), config, passes_max(config));
  const std::uint64_t places =
      config.into == destination::slots ? config.reads_at_once() : blocks.blocks();
  const std::uint64_t memory_bytes = places * config.block_bytes;
  course on{source, config, blocks, nullptr, memory_bytes};
  const mapping* taken = nullptr;
  const auto take = [&] {
    taken = &memory.take(memory_bytes, config.pages, config.into);
    on.memory = taken->data();
  };
  if (config.into != destination::fresh) take();

  const punt_counter punts;
  team readers(on, config.with == method::ring ? config.threads : config.depth);
  readers.rethrow();

  cpu_account processors;
  auto drive_before = drive_now(source.drive());
  clock::time_point begin = clock::now();
  if (config.into == destination::fresh) take();
  blocks.begin(begin);
  readers.start();
  if (config.ramp_seconds > 0) {
    std::this_thread::sleep_until(blocks.counted_from());
    processors = cpu_account();
    drive_before = drive_now(source.drive());
    begin = blocks.counted_from();
  }
  readers.wait();
  m.seconds = std::chrono::duration<double>(clock::now() - begin).count();
  const cpu_times cpu = processors.spent();
  const auto drive_after = drive_now(source.drive());
  m.kernel_workers = threads_named("iou-wrk");
  readers.join();
  tool::throw_if_interrupted();
  readers.rethrow();

  readers.add_to(m);
  m.punts = config.with == method::ring ? punts.count() : std::nullopt;
  m.cpu_seconds = cpu.own;
  m.cpu_kernel_seconds = cpu.kernel;
  m.foreign_processors = foreign_processors(cpu, m.seconds);
  if (drive_before && drive_after && drive_after->reads > drive_before->reads) {
    m.request_bytes = static_cast<double>(drive_after->bytes - drive_before->bytes) /
                      static_cast<double>(drive_after->reads - drive_before->reads);
  }
  m.pages = kind_of(taken->span());
  if (config.into == destination::fresh) memory.give_back();
  verify_afterwards(source, config, m);
  return m;
}

}  // namespace ringload::bench
