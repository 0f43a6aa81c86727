// SPDX-License-Identifier: Apache-2.0

#include "runtime/engine.hpp"

#include <pthread.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <string>

#include "base/catch_as_fault.hpp"
#include "base/io_unit.hpp"
#include "base/processors.hpp"
#include "base/retry_allocation.hpp"
#include "base/signals_blocked.hpp"
#include "io/object_io.hpp"
#include "io/pool_io.hpp"
#include "io/ring_io.hpp"
#include "runtime/engine_options.hpp"
#include "runtime/worker.hpp"

namespace ringload::inline v0::detail {

namespace {

// Number of loads that can open their files at the same time. The threads mostly wait for I/O.
constexpr std::uint32_t open_threads_count = 2;
constexpr std::uint32_t distant_closing_threads_count = 4;
// Number of saves that can flush their files at the same time.
constexpr std::uint32_t saving_threads_count = 2;
// Maximum number of reads by GPUDirect Storage at the same time. Each read blocks a thread.
constexpr std::uint32_t storage_threads_max = 16;

// Spawns the coroutine that `make_coroutine` returns. Repeats this step until a coroutine returns
// normally. If memory is exhausted, co_spawn may throw, the coroutine may end with an exception, or
// the coroutine may be destroyed without a notice.
template <class Life>
void spawn_until_done(boost::asio::io_context& loop, const Life& make_coroutine) {
  struct ending {
    boost::asio::io_context& loop;
    const Life make_coroutine;
    bool returned = false;
    ~ending() {
      if (returned) return;
      retry_allocation([this] {
        boost::asio::post(loop, [&loop_again = loop, again = make_coroutine] {
          spawn_until_done(loop_again, again);
        });
      });
    }
  };
  auto end =
      retry_allocation([&] { return std::unique_ptr<ending>(new ending{loop, make_coroutine}); });
  try {
    boost::asio::co_spawn(
        loop, make_coroutine(),
        [end = std::move(end)](const std::exception_ptr& failed) { end->returned = !failed; });
  } catch (const std::bad_alloc&) {
    // The destructor of `ending` has already posted the next attempt.
  }
}

}  // namespace

engine::engine(std::vector<device> targets, const loader_options& requested,
               std::vector<extension> added, const allocation_log& allocations)
    : options(options_for(requested, targets)),
      slots_max(slots_max_for(requested, options, targets)),
      spare_slots(spare_slots_for(options, slots_max)),
      log(allocations),
      extensions(std::move(added)),
      devices(std::move(targets)) {}

engine::~engine() = default;

std::shared_ptr<engine> engine::make(std::vector<device> targets, const loader_options& requested,
                                     wrapper wrap, std::vector<extension> extensions,
                                     const allocation_log& log) {
  if (targets.empty())
    throw error(errc::invalid_options, "loader", "no device is given, expected at least one");
  const loader_options chosen = options_for(requested, targets);
  if (auto valid = check_options(chosen); !valid) throw to_error(valid.error());
  const auto construct = [&]() -> result<std::shared_ptr<engine>> {
    return std::make_shared<engine>(targets, requested, extensions, log);
  };
  auto built = catch_as_fault(construct);  // The constructor of io_context can fail.
  if (!built) throw to_error(built.error());
  const std::shared_ptr<engine> created = std::move(*built);
  std::promise<result<void>> ready;
  std::future<result<void>> startup = ready.get_future();
  std::promise<void> done;
  created->done_ = done.get_future();
  {
    const signals_blocked now;
    try {
      // The thread shares ownership of the engine. If close() stops waiting for a blocked drive,
      // the thread still uses the engine.
      created->thread_ = std::thread([self = created, wrap = std::move(wrap),
                                      ready = std::move(ready), done = std::move(done)]() mutable {
        self->run(wrap, std::move(ready));
        self.reset();
        done.set_value();
      });
    } catch (const std::system_error& e) {
      throw to_error(thread_refused(e.code().value()));
    }
  }
  const result<void> status = startup.get();
  if (!status) {
    created->thread_.join();
    throw to_error(status.error());
  }
  return created;
}

void engine::run(const wrapper& wrap, std::promise<result<void>> ready) {
  ::pthread_setname_np(::pthread_self(), "ringload");
  threads::this_thread_owner = this;
  thread_count_ = 1;
  // Without `work_guard_`, the loop could stop before a worker is spawned, and would never run
  // again.
  work_guard_.emplace(loop.get_executor());
  result<void> status = catch_as_fault([&] { return set_up(wrap); });
  if (status) {
    status = catch_as_fault([&]() -> result<void> {
      spawn_workers(options.slots);
      return {};
    });
  }
  const bool has_started = status.has_value();
  ready.set_value(std::move(status));
  while (has_started && !loop.stopped()) {
    // If a command throws bad_alloc, only this command and its handlers are lost. The loop
    // continues with the next command.
    try {
      loop.run();
    } catch (const std::exception&) {
    }
  }
  tear_down();
}

void engine::spawn_workers(std::uint32_t count) {
  for (; workers_ < count; ++workers_) {
    spawn_until_done(loop, [this, slot = workers_] { return worker(read_schedule, slot); });
  }
}

void engine::add_workers(std::uint64_t bytes_in_flight) {
  const std::uint64_t needed = (bytes_in_flight + options.slot_bytes - 1) / options.slot_bytes;
  if (needed <= workers_ || workers_ == slots_max) return;
  // Without address space for more slots, the load continues with the slots that it has.
  if (!catch_as_fault([this] { return staging.grow(); })) return;
  spawn_workers(static_cast<std::uint32_t>(std::min<std::uint64_t>(needed, slots_max)));
  drives.set_reads_max(workers_);
}

result<void> engine::set_up(const wrapper& wrap) {
  devices.make(options, log);
  if (auto opened = staging.open(options, slots_max, spare_slots, log); !opened)
    return opened.error();
  second_reads.open(slots_max, spare_slots);
  if (auto attached = devices.attach(loop, staging.region()); !attached) return attached.error();
  start(open_threads, open_threads_count);
  start(closing_thread, 1);
  if (auto opened = open_storage(wrap); !opened) return opened.error();
  return choose_reader(wrap);
}

void engine::start(std::optional<threads>& pool, std::uint32_t count,
                   std::optional<cpu_set_t> processors) {
  pool.emplace(count, 0, processors, this);
  thread_count_ += count;
}

result<void> engine::open_storage(const wrapper& wrap) {
  if (options.gpu_direct == gpu_direct::off) return {};
  result<std::unique_ptr<direct_storage>> opened =
      fault{errc::device_unavailable, "GPUDirect Storage", "the loader has several devices"};
  if (devices.size() == 1) {
    opened = devices.backend_at(0).open_storage(options.slots, options.slot_bytes);
  }
  if (!opened && options.gpu_direct == gpu_direct::required) return opened.error();
  if (!opened) {
    const std::lock_guard lock(mutex_);
    stats_.gpu_direct_reason = message_of(opened.error());
    return {};
  }
  storage = std::move(*opened);
  start(storage_threads, std::min(options.slots, storage_threads_max));
  storage_io = std::make_unique<pool_io>(loop, *storage_threads);
  if (wrap) storage_io = wrap(std::move(storage_io));
  return {};
}

result<void> engine::choose_reader(const wrapper& wrap) {
  std::string reason = "read_engine::threads was requested";
  if (options.engine != read_engine::threads) {
    auto created_ring = ring::make(loop, slots_max + spare_slots);
    if (created_ring) {
      the_ring = std::move(*created_ring);
      reason = "io_uring with " + the_ring->flags();
    } else if (options.engine == read_engine::ring) {
      return created_ring.error();
    } else {
      reason = message_of(created_ring.error());
    }
  }
  const std::uint32_t copiers = the_ring ? options.copy_threads : options.reader_threads;
  start(copy_threads, copiers, processors_of_copies(copiers));
  if (the_ring) the_ring->limit_workers(options.copy_threads);
  drives.set_reads_max(the_ring ? options.slots : std::min(options.slots, options.reader_threads));
  make_queues(wrap);
  {
    const std::lock_guard lock(mutex_);
    stats_.engine = the_ring ? read_engine::ring : read_engine::threads;
    stats_.engine_reason = std::move(reason);
  }
  staging.open_registration(the_ring.get());
  return {};
}

// Returns the processors near the device, for the copy threads. If the loader has several devices,
// returns an empty optional, because each copy thread works for all devices.
std::optional<cpu_set_t> engine::processors_of_copies(std::uint32_t copiers) {
  if (devices.size() != 1) return std::nullopt;
  const auto near = devices.backend_at(0).near_processors();
  return near ? usable_processors(*near, copiers) : std::nullopt;
}

void engine::make_queues(const wrapper& wrap) {
  const auto wrapped = [&wrap](std::unique_ptr<io_queue> queue) {
    return wrap ? wrap(std::move(queue)) : std::move(queue);
  };
  const auto make = [&](bool by_ring) {
    return wrapped(by_ring ? std::unique_ptr<io_queue>(std::make_unique<ring_io>(*the_ring))
                           : std::make_unique<pool_io>(loop, *copy_threads));
  };
  direct_io = make(the_ring != nullptr);
  buffered_io = make(the_ring && options.engine == read_engine::ring);
  threads_io = make(false);
  object_io = wrapped(std::make_unique<object_queue>(loop));
}

void engine::prepare_slots() {
  // GPUDirect Storage reads into slots in GPU memory, so most host slots are not needed.
  if (slots_begun_ || !devices.all_staged() || storage) return;
  slots_begun_ = true;
  for (std::uint32_t slot = 0; slot < options.slots; ++slot) {
    // Ignores failures, because the worker of the slot prepares the slot again at its first step.
    boost::asio::post(copy_threads->get_executor(), [this, slot] {
      (void)catch_as_fault([this, slot] { return staging.make_ready(slot, devices); });
    });
  }
}

result<void> engine::start_checking() {
  if (check_threads) return {};
  return catch_as_fault([this]() -> result<void> {
    start(check_threads, options.copy_threads);
    for (std::uint32_t i = 0; i < options.copy_threads; ++i) {
      spawn_until_done(loop, [this, i] { return worker(check_schedule, i); });
    }
    return {};
  });
}

result<void> engine::start_decoding() {
  if (stream_decoders) return {};
  return catch_as_fault([this]() -> result<void> {
    const std::uint32_t count =
        std::clamp(std::thread::hardware_concurrency(), 1U, options.copy_threads);
    stream_decoders.emplace(loop, count, copy_threads->count());
    thread_count_ += count;
    return {};
  });
}

threads& engine::closing_threads(bool is_distant) noexcept {
  if (!is_distant) return *closing_thread;
  if (!distant_closing_threads) {
    const auto started = catch_as_fault([this]() -> result<void> {
      start(distant_closing_threads, distant_closing_threads_count);
      return {};
    });
    if (!started) return *closing_thread;
  }
  return *distant_closing_threads;
}

result<void> engine::start_saving() {
  if (saving_threads) return {};
  return catch_as_fault([this]() -> result<void> {
    start(saving_threads, saving_threads_count);
    return {};
  });
}

void engine::tear_down() {
  // No read or copy is in flight here. Each user (load or save) is removed after its last read or
  // copy. close_when_idle() ends the loop when no user is left and no second read (see
  // second_reads.hpp) is in flight.
  if (open_threads) open_threads->join();
  headers.join();
  if (closing_thread) closing_thread->join();
  if (distant_closing_threads) distant_closing_threads->join();
  if (copy_threads) copy_threads->join();
  if (storage_threads) storage_threads->join();
  stream_decoders.reset();
  if (check_threads) check_threads->join();
  if (saving_threads) saving_threads->join();
  thread_count_ = 0;
  direct_io.reset();
  buffered_io.reset();
  threads_io.reset();
  object_io.reset();
  storage_io.reset();
  storage.reset();
  devices.detach();
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    if (the_ring) {
      stats_.longest_submit_seconds =
          static_cast<double>(the_ring->longest_submit_nanoseconds()) * 1e-9;
    }
    the_ring.reset();
  }
  // A `load_operation` can keep the engine object alive after close(). Therefore the slots and the
  // free list of device memory are released here.
  devices.clear();
  staging.close();
}

void engine::close(std::chrono::milliseconds timeout) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
    retry_allocation([this] { boost::asio::post(loop, [this] { begin_close(); }); });
  }
  const bool is_own_thread = threads::this_thread_owner == this;
  if (!is_own_thread && done_.wait_for(timeout) == std::future_status::ready) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void engine::begin_close() {
  closing_ = true;
  // stop_at_close() may remove a user from `users_`. The copy keeps each user alive.
  const auto users = retry_allocation([this] { return users_; });
  for (const auto& user : users) retry_allocation([&] { user->stop_at_close(); });
  close_when_idle();
}

void engine::add_user(std::shared_ptr<engine_user> user) {
  const auto& added = users_.emplace_back(std::move(user));
  if (closing_) retry_allocation([&] { added->stop_at_close(); });
}

void engine::remove_user(const engine_user& user) {
  std::erase_if(users_, [&](const auto& added) { return added.get() == &user; });
  if (closing_) close_when_idle();
}

void engine::end_second_reads() {
  if (closing_) close_when_idle();
}

void engine::close_when_idle() {
  if (!users_.empty() || !second_reads.is_idle()) return;
  read_schedule.close();
  check_schedule.close();
  if (the_ring) the_ring->stop();
  work_guard_.reset();
}

void engine::fill_stats(load_stats& stats) const {
  staging.fill_stats(stats);
  stats.threads = thread_count_ + headers.thread_count();
  const std::lock_guard lock(mutex_);
  stats.engine = stats_.engine;
  stats.engine_reason = stats_.engine_reason;
  stats.gpu_direct_reason = stats_.gpu_direct_reason;
  stats.bytes_in_flight = drives.bytes_in_flight_max();
  stats.longest_submit_seconds =
      the_ring ? static_cast<double>(the_ring->longest_submit_nanoseconds()) * 1e-9
               : stats_.longest_submit_seconds;
}

}  // namespace ringload::inline v0::detail
