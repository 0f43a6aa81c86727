// SPDX-License-Identifier: Apache-2.0
#pragma once

// The shared state of all loads of a loader: the engine thread with its loop and ring, the slots
// and their workers, and the thread pools for calls that would block the loop.

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
#include <vector>

#include "device/backend.hpp"
#include "device/device_set.hpp"
#include "io/direct_file.hpp"
#include "io/readers/reader.hpp"
#include "io/ring/ring.hpp"
#include "io/threads.hpp"
#include "io/writers/write_fully.hpp"
#include "runtime/admission_control.hpp"
#include "runtime/decoders.hpp"
#include "runtime/drives.hpp"
#include "runtime/memory_account.hpp"
#include "runtime/schedule.hpp"
#include "runtime/slot_pool.hpp"
#include "runtime/work.hpp"

namespace ringload::inline v0::detail {

class engine : public std::enable_shared_from_this<engine> {
 public:
  // Lets tests wrap the real readers and writers.
  struct wrappers {
    std::function<std::unique_ptr<reader>(std::unique_ptr<reader>)> of_reader;
    std::function<std::unique_ptr<block_writer>(std::unique_ptr<block_writer>)> of_writer;
  };

  // Throws ringload::error.
  static std::shared_ptr<engine> make(std::vector<device> targets, const loader_options& within,
                                      wrappers wrap = {}, std::vector<extension> extensions = {},
                                      const allocation_log& log = {});

  // Use make(), which also starts the engine thread.
  engine(std::vector<device> targets, const loader_options& within,
         std::vector<extension> extensions, const allocation_log& log);
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;
  ~engine();

  // ---- From any thread ----

  // Returns false once the engine is closed. The command then never runs.
  template <class Command>
  bool post(Command&& command) {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    boost::asio::post(loop, std::forward<Command>(command));
    return true;
  }

  // Cancels all loads and waits until no read or copy is in flight. If a drive never completes a
  // read, close() stops waiting after `most`. The thread and the memory then leak, because freeing
  // the memory would cause a use after free.
  void close(std::chrono::milliseconds most = drain_max);
  static constexpr std::chrono::seconds drain_max{30};

  void fill_stats(load_stats& stats) const;

  // ---- Set before make() returns and never changed ----

  const loader_options within;
  const allocation_log log;
  const memory_accounts memory;
  const std::vector<extension> extensions;
  boost::asio::io_context loop{1};
  device_set devices;  // listed() from any thread. Other functions: see device_set.

  // ---- In the engine thread only ----

  // Starts to make all slots ready while the first load opens its files, if every read needs a
  // slot.
  void prepare_slots();

  // Keeps a load or a save alive from its beginning until its waiters are completed.
  void add_user(std::shared_ptr<engine_user> user) { users_.push_back(std::move(user)); }
  void remove_user(const engine_user& user);

  // The first call creates the threads and workers that check tensors.
  result<void> start_checking();
  // The first call creates the threads that decode streams.
  result<void> start_decoding();
  // The first call creates the threads for saves.
  result<void> start_saving();

  schedule read_schedule{loop};   // Reads and writes, for the workers with a slot.
  schedule check_schedule{loop};  // Tensors to be hashed, for the workers of the check threads.
  detail::drives drives{loop, within};
  admission_control write_admission{loop, within};
  direct_files direct;
  std::optional<threads> open_threads;
  // A separate pool: opening may take long, and a load that ends must not queue behind it.
  std::optional<threads> closing_thread;
  std::optional<threads> copy_threads;
  std::optional<threads> check_threads;     // Created by start_checking().
  std::optional<decoders> stream_decoders;  // Created by start_decoding().
  std::optional<threads> saving_threads;    // Created by start_saving(). Flush files to the drive.
  slot_pool staging;
  std::unique_ptr<ring> the_ring;  // Null: reads go to a thread pool.
  std::unique_ptr<reader> direct_reader;
  std::unique_ptr<reader> buffered_reader;
  std::unique_ptr<reader> supply_reader;  // For bytes that are not read from a file.
  std::unique_ptr<reader> object_reader;  // For objects of a store.
  block_writers writers;

 private:
  using work_guard = boost::asio::executor_work_guard<boost::asio::io_context::executor_type>;

  void run(const wrappers& wrap, std::promise<result<void>> ready);
  result<void> set_up(const wrappers& wrap);
  result<void> choose_reader(const wrappers& wrap);
  void make_readers_and_writers(const wrappers& wrap);
  void tear_down();
  void begin_close();
  void close_when_idle();

  std::thread thread_;
  std::future<void> done_;

  mutable std::mutex mutex_;
  // Guarded by the mutex.
  bool closed_ = false;
  load_stats facts_;  // After make(), only longest_submit_seconds changes.

  // Touched by the engine thread only.
  std::optional<work_guard> stay_;
  std::vector<std::shared_ptr<engine_user>> users_;
  bool closing_ = false;
  bool slots_begun_ = false;
};

}  // namespace ringload::inline v0::detail
