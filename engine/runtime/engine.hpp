// SPDX-License-Identifier: Apache-2.0
#pragma once

// The state that all loads and saves of a loader share. The engine thread runs an event loop with
// an io_uring instance and the workers, which own the slots (pinned I/O buffers). Thread pools make
// the calls that would block the event loop.

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <ringload/allocation_log.hpp>
#include <ringload/device.hpp>
#include <ringload/extension.hpp>
#include <ringload/options.hpp>
#include <ringload/stats.hpp>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "device/backend.hpp"
#include "device/device_set.hpp"
#include "io/direct_file.hpp"
#include "io/header_reader.hpp"
#include "io/io_queue.hpp"
#include "io/ring/ring.hpp"
#include "io/threads.hpp"
#include "runtime/admission_control.hpp"
#include "runtime/decoders.hpp"
#include "runtime/drives.hpp"
#include "runtime/memory_account.hpp"
#include "runtime/rate_limit.hpp"
#include "runtime/schedule.hpp"
#include "runtime/second_reads.hpp"
#include "runtime/slot_pool.hpp"
#include "runtime/work.hpp"

namespace ringload::inline v0::detail {

class engine : public std::enable_shared_from_this<engine> {
 public:
  // Wraps each queue of reads and writes. Used by tests.
  using wrapper = std::function<std::unique_ptr<io_queue>(std::unique_ptr<io_queue>)>;

  // Creates an engine and starts its thread. Throws ringload::error.
  static std::shared_ptr<engine> make(std::vector<device> targets, const loader_options& requested,
                                      wrapper wrap = {}, std::vector<extension> extensions = {},
                                      const allocation_log& log = {});

  // Public only because of std::make_shared.
  engine(std::vector<device> targets, const loader_options& requested,
         std::vector<extension> extensions, const allocation_log& log);
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;
  ~engine();

  // ---- May be called from any thread ----

  // Runs `command` in the engine thread. If the engine is closed, returns false instead.
  template <class Command>
  bool post(Command&& command) {
    // Declared before the lock. If the post fails for lack of memory, the command is thus destroyed
    // without the lock. The destructor of a handler in the command may call post().
    std::shared_ptr<std::optional<std::decay_t<Command>>> held;
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    held = std::make_shared<std::optional<std::decay_t<Command>>>(std::in_place,
                                                                  std::forward<Command>(command));
    boost::asio::post(loop, [held] {
      (**held)();
      held->reset();  // Destroys the command in the engine thread.
    });
    return true;
  }

  // Cancels all loads and saves, and waits until no read or copy is in flight. If a drive does not
  // complete a read within `timeout`, close() stops waiting and detaches the thread. The thread
  // keeps the engine and its memory until the read completes, because the kernel may still write to
  // the memory. If the calling thread is a thread of this engine, close() does not wait, because
  // the engine waits for this thread.
  void close(std::chrono::milliseconds timeout = drain_max);
  static constexpr std::chrono::seconds drain_max{30};

  void fill_stats(load_stats& stats) const;

  // ---- Set before make() returns, constant afterwards ----

  const loader_options options;
  // Maximum number of workers that own a slot, and of slots. The spare slots are not included. At
  // least loader_options::slots.
  const std::uint32_t slots_max;
  // Number of additional slots for second reads.
  const std::uint32_t spare_slots;
  const allocation_log log;
  const memory_accounts memory;
  const std::vector<extension> extensions;
  boost::asio::io_context loop{1};
  // For each function of `devices`, device_set.hpp states which thread may call the function.
  device_set devices;

  // ---- Engine thread only ----

  // Populates and pins all slots in the copy threads, while the first load opens its files. Does
  // nothing if reads can bypass the slots.
  void prepare_slots();

  // Adds workers until `bytes_in_flight` bytes can be in flight, or until there are `slots_max`
  // workers. Used if a mount needs more bytes in flight than the present slots contain.
  void add_workers(std::uint64_t bytes_in_flight);

  // Keeps a load or a save alive until remove_user() is called. If the engine is being closed,
  // stops the user at once.
  void add_user(std::shared_ptr<engine_user> user);
  void remove_user(const engine_user& user);
  // Must be called when the last second read has ended, because close() waits for second reads.
  void end_second_reads();

  // Each function creates threads and workers at the first call.
  result<void> start_checking();
  result<void> start_decoding();
  result<void> start_saving();
  // Returns the threads that close the files of a load. `is_distant` is true if a file is on a
  // distant mount or in a store. Must be called in the engine thread.
  threads& closing_threads(bool is_distant) noexcept;

  // Reads of loads and writes of saves. The workers that own a slot carry out these steps.
  schedule read_schedule{loop};
  // Checks of the digests of tensors, and of the indices of sparse tensors. Workers without a slot
  // carry out the checks.
  schedule check_schedule{loop};
  detail::drives drives{loop, options, slots_max};
  admission_control write_admission{loop, options};
  rate_limit read_rate{loop, options.bytes_per_second_max};
  direct_files direct;
  header_reader headers;
  std::optional<threads> open_threads;
  // Closes files and frees memory. Not part of open_threads, because the end of one load must not
  // wait while another load opens its files.
  std::optional<threads> closing_thread;
  // Close the files of loads that have files on distant mounts or in stores, because checking such
  // a file may wait for a server. Memory is freed by `closing_thread`. Started by the first such
  // load.
  std::optional<threads> distant_closing_threads;
  std::optional<threads> copy_threads;
  std::optional<threads> check_threads;     // Created by start_checking().
  std::optional<decoders> stream_decoders;  // Created by start_decoding().
  std::optional<threads> saving_threads;    // Created by start_saving().
  slot_pool staging;
  detail::second_reads second_reads{*this};
  // Null if io_uring is not used. A thread pool then carries out the reads.
  std::unique_ptr<ring> the_ring;
  std::unique_ptr<io_queue> direct_io;
  std::unique_ptr<io_queue> buffered_io;  // Reads through the page cache.
  // Reads from a `byte_supply`, reads that leave no pages in the page cache, and buffered writes.
  std::unique_ptr<io_queue> threads_io;
  std::unique_ptr<io_queue> object_io;  // Reads of objects in an object store.
  // GPUDirect Storage. The three members are empty if GPUDirect Storage is not used.
  std::unique_ptr<direct_storage> storage;
  std::optional<threads> storage_threads;
  std::unique_ptr<io_queue> storage_io;  // Reads into slots in GPU memory.

 private:
  using work_guard = boost::asio::executor_work_guard<boost::asio::io_context::executor_type>;

  void run(const wrapper& wrap, std::promise<result<void>> ready);
  // Spawns workers until their number is `count`.
  void spawn_workers(std::uint32_t count);
  result<void> set_up(const wrapper& wrap);
  result<void> open_storage(const wrapper& wrap);
  // Starts the threads of a pool, and counts them.
  void start(std::optional<threads>& pool, std::uint32_t count,
             std::optional<cpu_set_t> processors = std::nullopt);
  std::optional<cpu_set_t> processors_of_copies(std::uint32_t copiers);
  result<void> choose_reader(const wrapper& wrap);
  void make_queues(const wrapper& wrap);
  void tear_down();
  void begin_close();
  void close_when_idle();

  std::thread thread_;
  std::future<void> done_;
  std::atomic<std::uint32_t> thread_count_ = 0;  // The engine thread and the threads of all pools.

  mutable std::mutex mutex_;
  // Guarded by the mutex.
  bool closed_ = false;
  load_stats stats_;  // Only longest_submit_seconds changes after make().

  // Used by the engine thread only.
  std::optional<work_guard> work_guard_;
  std::vector<std::shared_ptr<engine_user>> users_;
  bool closing_ = false;
  bool slots_begun_ = false;
  std::uint32_t workers_ = 0;  // Workers with a slot.
};

}  // namespace ringload::inline v0::detail
