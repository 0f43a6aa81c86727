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

result<void> check(const loader_options& l) {
  const auto wrong = [](const char* what) {
    return fault{errc::invalid_options, "loader_options", what};
  };
  if (l.slots < 1 || l.slots > 1024) return wrong("slots must be 1 to 1,024, or 0");
  if (l.slot_bytes < 64 * 1024 || l.slot_bytes > 64 * 1024 * 1024 ||
      (l.slot_bytes & (l.slot_bytes - 1)) != 0) {
    return wrong("slot_bytes must be a power of two, 64 KiB to 64 MiB");
  }
  if (l.copy_threads < 1 || l.copy_threads > 64) return wrong("copy_threads must be 1 to 64, or 0");
  if (l.reader_threads < 1 || l.reader_threads > 64) return wrong("reader_threads must be 1 to 64");
  return {};
}

// What a GPU needs is enough for the host.
device_kind kind_for(const std::vector<device>& on) {
  const bool any = std::ranges::find(on, device_kind::cuda, &device::kind) != on.end();
  return any ? device_kind::cuda : device_kind::host;
}

// Spawns the coroutine that `life` makes, and respawns it unless it returned normally: out of
// memory, co_spawn may throw, end it with an exception, or destroy it silently.
template <class Life>
void spawn_until_done(boost::asio::io_context& loop, const Life& life) {
  struct ending {
    boost::asio::io_context& loop;
    const Life life;
    bool its_own = false;
    ~ending() {
      if (its_own) return;
      retry_allocation([this] {
        boost::asio::post(loop, [&on = loop, again = life] { spawn_until_done(on, again); });
      });
    }
  };
  auto end = retry_allocation([&] { return std::unique_ptr<ending>(new ending{loop, life}); });
  try {
    boost::asio::co_spawn(loop, life(), [end = std::move(end)](const std::exception_ptr& failed) {
      end->its_own = !failed;
    });
  } catch (const std::bad_alloc&) {
    // ~ending() has respawned it.
  }
}

}  // namespace

engine::engine(std::vector<device> on, const loader_options& l, std::vector<extension> w,
               const allocation_log& a)
    : within(chosen_options(l, kind_for(on))), log(a), with(std::move(w)), devices(std::move(on)) {}

engine::~engine() = default;

std::shared_ptr<engine> engine::make(std::vector<device> on, const loader_options& within,
                                     wrappers wrap, std::vector<extension> with,
                                     const allocation_log& log) {
  if (on.empty()) throw error(errc::invalid_options, "loader", "it is given no device");
  const loader_options chosen = chosen_options(within, kind_for(on));
  if (auto good = check(chosen); !good) throw to_error(good.error());
  const auto make_it = [&]() -> result<std::shared_ptr<engine>> {
    return std::make_shared<engine>(on, within, with, log);
  };
  auto found = catch_as_fault(make_it);  // io_context needs descriptors.
  if (!found) throw to_error(found.error());
  const std::shared_ptr<engine> made = std::move(*found);
  std::promise<result<void>> ready;
  std::future<result<void>> answer = ready.get_future();
  std::promise<void> done;
  made->done_ = done.get_future();
  {
    const signals_blocked now;
    try {
      // The thread shares ownership: it keeps the engine if close() stops waiting for a drive.
      made->thread_ = std::thread([self = made, wrap = std::move(wrap), ready = std::move(ready),
                                   done = std::move(done)]() mutable {
        self->run(wrap, std::move(ready));
        self.reset();
        done.set_value();
      });
    } catch (const std::system_error& e) {
      throw to_error(thread_refused(e.code().value()));
    }
  }
  const result<void> good = answer.get();
  if (!good) {
    made->thread_.join();
    throw to_error(good.error());
  }
  return made;
}

void engine::run(const wrappers& wrap, std::promise<result<void>> ready) {
  ::pthread_setname_np(::pthread_self(), "ringload");
  result<void> good = catch_as_fault([&] { return set_up(wrap); });
  if (good) {
    good = catch_as_fault([&]() -> result<void> {
      for (std::uint32_t slot = 0; slot < within.slots; ++slot) {
        spawn_until_done(loop, [this, slot] { return worker(read_schedule, slot); });
      }
      return {};
    });
    stay_.emplace(loop.get_executor());
  }
  const bool begun = good.has_value();
  ready.set_value(std::move(good));
  while (begun && !loop.stopped()) {
    // A command that throws bad_alloc is lost with its handlers; the others go on.
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
  if (auto there = devices.attach(loop, staging.region()); !there) return there.error();
  open_threads.emplace(open_threads_count);
  closing_thread.emplace(1);
  return choose_reader(wrap);
}

result<void> engine::choose_reader(const wrappers& wrap) {
  std::string why = "threads were ordered";
  if (within.engine != read_engine::threads) {
    auto made = ring::make(loop, within.slots);
    if (made) {
      the_ring = std::move(*made);
      why = "io_uring with " + the_ring->flags();
    } else if (within.engine == read_engine::ring) {
      return made.error();
    } else {
      why = message_of(made.error());
    }
  }
  copy_threads.emplace(the_ring ? within.copy_threads : within.reader_threads);
  if (the_ring) the_ring->limit_workers(within.copy_threads);
  drives.share_out(the_ring ? within.slots : std::min(within.slots, within.reader_threads));
  make_readers_and_writers(wrap);
  {
    const std::lock_guard lock(mutex_);
    facts_.engine = the_ring ? read_engine::ring : read_engine::threads;
    facts_.engine_reason = std::move(why);
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
    // A worker whose slot could not be made ready tries again, and says why it fails.
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
  // Nothing is in flight: all jobs are removed, which happens after their reads and copies.
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
  // A `load_operation` keeps the engine alive, but neither slots nor the free list.
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
