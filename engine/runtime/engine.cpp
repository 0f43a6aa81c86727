// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine.hpp"

#include <pthread.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>

#include "base/catch_as_fault.hpp"
#include "base/io_unit.hpp"
#include "base/retry_allocation.hpp"
#include "base/signals_blocked.hpp"
#include "io/readers/object_reader.hpp"
#include "io/readers/pool_reader.hpp"
#include "io/readers/ring_reader.hpp"
#include "runtime/worker.hpp"

namespace ringload::inline v0::detail {

namespace {

// Loads that may open their files at the same time; opening mostly waits for I/O.
constexpr std::uint32_t open_threads_count = 2;
// Saves that may flush their files at the same time.
constexpr std::uint32_t saving_threads_count = 2;

result<void> check(const loader_options& options) {
  const auto wrong = [](const char* expected) {
    return fault{errc::invalid_options, "loader_options", expected};
  };
  if (options.slots < 1 || options.slots > 1024) return wrong("slots must be 1 to 1,024, or 0");
  if (options.slot_bytes < 64 * 1024 || options.slot_bytes > 64 * 1024 * 1024 ||
      (options.slot_bytes & (options.slot_bytes - 1)) != 0) {
    return wrong("slot_bytes must be a power of two, 64 KiB to 64 MiB");
  }
  if (options.copy_threads < 1 || options.copy_threads > 64)
    return wrong("copy_threads must be 1 to 64, or 0");
  if (options.reader_threads < 1 || options.reader_threads > 64)
    return wrong("reader_threads must be 1 to 64");
  return {};
}

// The options for a GPU also suffice for the host.
device_kind kind_for(const std::vector<device>& targets) {
  const bool has_gpu =
      std::ranges::find(targets, device_kind::cuda, &device::kind) != targets.end();
  return has_gpu ? device_kind::cuda : device_kind::host;
}

// Spawns the coroutine that `life` makes, and respawns the coroutine until it returns normally. Out
// of memory, co_spawn may throw, end the coroutine with an exception, or destroy it silently.
template <class Life>
void spawn_until_done(boost::asio::io_context& loop, const Life& life) {
  struct ending {
    boost::asio::io_context& loop;
    const Life life;
    bool returned = false;
    ~ending() {
      if (returned) return;
      retry_allocation([this] {
        boost::asio::post(
            loop, [&loop_again = loop, again = life] { spawn_until_done(loop_again, again); });
      });
    }
  };
  auto end = retry_allocation([&] { return std::unique_ptr<ending>(new ending{loop, life}); });
  try {
    boost::asio::co_spawn(loop, life(), [end = std::move(end)](const std::exception_ptr& failed) {
      end->returned = !failed;
    });
  } catch (const std::bad_alloc&) {
    // ~ending() has respawned the coroutine.
  }
}

}  // namespace

engine::engine(std::vector<device> targets, const loader_options& options,
               std::vector<extension> added, const allocation_log& allocations)
    : within(chosen_options(options, kind_for(targets))),
      log(allocations),
      extensions(std::move(added)),
      devices(std::move(targets)) {}

engine::~engine() = default;

std::shared_ptr<engine> engine::make(std::vector<device> targets, const loader_options& within,
                                     wrappers wrap, std::vector<extension> extensions,
                                     const allocation_log& log) {
  if (targets.empty())
    throw error(errc::invalid_options, "loader", "no device is given, expected at least one");
  const loader_options chosen = chosen_options(within, kind_for(targets));
  if (auto valid = check(chosen); !valid) throw to_error(valid.error());
  const auto construct = [&]() -> result<std::shared_ptr<engine>> {
    return std::make_shared<engine>(targets, within, extensions, log);
  };
  auto built = catch_as_fault(construct);  // io_context needs descriptors.
  if (!built) throw to_error(built.error());
  const std::shared_ptr<engine> created = std::move(*built);
  std::promise<result<void>> ready;
  std::future<result<void>> startup = ready.get_future();
  std::promise<void> done;
  created->done_ = done.get_future();
  {
    const signals_blocked now;
    try {
      // The thread shares ownership: the engine must survive if close() stops waiting for a drive.
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

void engine::run(const wrappers& wrap, std::promise<result<void>> ready) {
  ::pthread_setname_np(::pthread_self(), "ringload");
  result<void> status = catch_as_fault([&] { return set_up(wrap); });
  if (status) {
    status = catch_as_fault([&]() -> result<void> {
      for (std::uint32_t slot = 0; slot < within.slots; ++slot) {
        spawn_until_done(loop, [this, slot] { return worker(read_schedule, slot); });
      }
      return {};
    });
    stay_.emplace(loop.get_executor());
  }
  const bool begun = status.has_value();
  ready.set_value(std::move(status));
  while (begun && !loop.stopped()) {
    // A command that throws bad_alloc is lost with its handlers. All other commands still run.
    try {
      loop.run();
    } catch (const std::exception&) {
    }
  }
  tear_down();
}

result<void> engine::set_up(const wrappers& wrap) {
  devices.make(within, log);
  if (auto opened = staging.open(within, log); !opened) return opened.error();
  if (auto attached = devices.attach(loop, staging.region()); !attached) return attached.error();
  open_threads.emplace(open_threads_count);
  closing_thread.emplace(1);
  return choose_reader(wrap);
}

result<void> engine::choose_reader(const wrappers& wrap) {
  std::string reason = "read_engine::threads was requested";
  if (within.engine != read_engine::threads) {
    auto created_ring = ring::make(loop, within.slots);
    if (created_ring) {
      the_ring = std::move(*created_ring);
      reason = "io_uring with " + the_ring->flags();
    } else if (within.engine == read_engine::ring) {
      return created_ring.error();
    } else {
      reason = message_of(created_ring.error());
    }
  }
  copy_threads.emplace(the_ring ? within.copy_threads : within.reader_threads);
  if (the_ring) the_ring->limit_workers(within.copy_threads);
  drives.share_out(the_ring ? within.slots : std::min(within.slots, within.reader_threads));
  make_readers_and_writers(wrap);
  {
    const std::lock_guard lock(mutex_);
    facts_.engine = the_ring ? read_engine::ring : read_engine::threads;
    facts_.engine_reason = std::move(reason);
  }
  staging.open_registration(the_ring.get());
  return {};
}

void engine::make_readers_and_writers(const wrappers& wrap) {
  if (the_ring) {
    direct_reader = std::make_unique<ring_reader>(*the_ring);
  } else {
    direct_reader = std::make_unique<pool_reader>(loop, *copy_threads);
  }
  if (the_ring && within.engine == read_engine::ring) {
    buffered_reader = std::make_unique<ring_reader>(*the_ring);
  } else {
    buffered_reader = std::make_unique<pool_reader>(loop, *copy_threads);
  }
  supply_reader = std::make_unique<pool_reader>(loop, *copy_threads);
  object_reader = std::make_unique<ringload::object_reader>(loop);
  writers = make_block_writers(loop, the_ring.get(), *copy_threads);
  if (wrap.of_reader) {
    direct_reader = wrap.of_reader(std::move(direct_reader));
    buffered_reader = wrap.of_reader(std::move(buffered_reader));
    supply_reader = wrap.of_reader(std::move(supply_reader));
    object_reader = wrap.of_reader(std::move(object_reader));
  }
  if (wrap.of_writer) {
    writers.direct = wrap.of_writer(std::move(writers.direct));
    writers.buffered = wrap.of_writer(std::move(writers.buffered));
  }
}

void engine::prepare_slots() {
  if (slots_begun_ || !devices.all_staged()) return;
  slots_begun_ = true;
  for (std::uint32_t slot = 0; slot < within.slots; ++slot) {
    // If this fails, the worker of the slot tries again and reports the cause.
    boost::asio::post(copy_threads->get_executor(), [this, slot] {
      (void)catch_as_fault([this, slot] { return staging.make_ready(slot, devices); });
    });
  }
}

result<void> engine::start_checking() {
  if (check_threads) return {};
  return catch_as_fault([this]() -> result<void> {
    check_threads.emplace(within.copy_threads);
    for (std::uint32_t i = 0; i < within.copy_threads; ++i) {
      spawn_until_done(loop, [this, i] { return worker(check_schedule, i); });
    }
    return {};
  });
}

result<void> engine::start_decoding() {
  if (stream_decoders) return {};
  return catch_as_fault([this]() -> result<void> {
    const std::uint32_t count =
        std::clamp(std::thread::hardware_concurrency(), 1U, within.copy_threads);
    stream_decoders.emplace(loop, count, copy_threads->count());
    return {};
  });
}

result<void> engine::start_saving() {
  if (saving_threads) return {};
  return catch_as_fault([this]() -> result<void> {
    saving_threads.emplace(saving_threads_count);
    return {};
  });
}

void engine::tear_down() {
  // No read or copy is in flight: a job is removed after its reads and copies, and no job is left.
  if (open_threads) open_threads->join();
  if (closing_thread) closing_thread->join();
  if (copy_threads) copy_threads->join();
  stream_decoders.reset();
  if (check_threads) check_threads->join();
  if (saving_threads) saving_threads->join();
  direct_reader.reset();
  buffered_reader.reset();
  supply_reader.reset();
  object_reader.reset();
  writers = {};
  devices.detach();
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    if (the_ring) {
      facts_.longest_submit_seconds =
          static_cast<double>(the_ring->longest_submit_nanoseconds()) * 1e-9;
    }
    the_ring.reset();
  }
  // A `load_operation` keeps the engine alive, but not the slots and the free list.
  devices.clear();
  staging.close();
}

void engine::close(std::chrono::milliseconds most) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
    retry_allocation([this] { boost::asio::post(loop, [this] { begin_close(); }); });
  }
  if (done_.wait_for(most) == std::future_status::ready) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void engine::begin_close() {
  closing_ = true;
  for (const auto& user : std::vector(users_)) user->stop_at_close();
  close_when_idle();
}

void engine::remove_user(const engine_user& user) {
  std::erase_if(users_, [&](const auto& added) { return added.get() == &user; });
  if (closing_) close_when_idle();
}

void engine::close_when_idle() {
  if (!users_.empty()) return;
  read_schedule.close();
  check_schedule.close();
  if (the_ring) the_ring->stop();
  stay_.reset();
}

void engine::fill_stats(load_stats& stats) const {
  staging.fill_stats(stats);
  const std::lock_guard lock(mutex_);
  stats.engine = facts_.engine;
  stats.engine_reason = facts_.engine_reason;
  stats.bytes_in_flight = drives.bytes_in_flight_max();
  stats.longest_submit_seconds =
      the_ring ? static_cast<double>(the_ring->longest_submit_nanoseconds()) * 1e-9
               : facts_.longest_submit_seconds;
}

}  // namespace ringload::inline v0::detail
