// SPDX-License-Identifier: Apache-2.0
#pragma once

// What all loads of a loader share: the engine thread with its loop and ring, the slots and their
// workers, and the thread pools for what would block the loop.

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
  // Lets tests wrap the real readers and writers in some of their own.
  struct wrappers {
    std::function<std::unique_ptr<reader>(std::unique_ptr<reader>)> of_reader;
    std::function<std::unique_ptr<block_writer>(std::unique_ptr<block_writer>)> of_writer;
  };

  // Throws ringload::error.
  static std::shared_ptr<engine> make(std::vector<device> on, const loader_options& within,
                                      wrappers wrap = {}, std::vector<extension> with = {},
                                      const allocation_log& log = {});

  // Use make(), which also starts the engine thread.
  engine(std::vector<device> on, const loader_options& within, std::vector<extension> with,
         const allocation_log& log);
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;
  ~engine();

  // ---- From any thread ----

  // False once the engine is closed: the command will not run.
  template <class Command>
  bool post(Command&& command) {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    boost::asio::post(loop, std::forward<Command>(command));
    return true;
  }

  // Cancels all loads and waits until nothing is in flight. If a drive never completes a read, it
  // stops waiting after `most` and leaks thread and memory: a leak is better than a use after free.
  void close(std::chrono::milliseconds most = drain_max);
  static constexpr std::chrono::seconds drain_max{30};

  void fill_stats(load_stats& stats) const;

  // ---- Set before make() returns and never changed ----

  const loader_options within;
  const allocation_log log;
  const memory_accounts memory;
  const std::vector<extension> with;
  boost::asio::io_context loop{1};
  device_set devices;  // Those that were listed, for any thread; the rest, as it says.

  // ---- In the engine thread only ----

  // Begins to make all slots ready where every read needs one, beside the opening of the first
  // load.
  void prepare_slots();

  // Keeps a load or a save alive from its beginning until its waiters are completed.
  void add_user(std::shared_ptr<engine_user> user) { users_.push_back(std::move(user)); }
  void remove_user(const engine_user& user);

  // Makes the threads and workers that check tensors, on the first call.
  result<void> start_checking();
  // Makes the threads that decode streams, on the first call.
  result<void> start_decoding();
  // Makes the threads that saves need, on the first call.
  result<void> start_saving();

  schedule read_schedule{loop};   // Reads and writes, for the workers that own a slot.
  schedule check_schedule{loop};  // Tensors to be hashed, for the workers of the check threads.
  detail::drives drives{loop, within};
  admission_control write_admission{loop, within};
  direct_files direct;
  std::optional<threads> open_threads;
  // Separate: a load that ends must not queue behind loads that open, which may take long.
  std::optional<threads> closing_thread;
  std::optional<threads> copy_threads;
  std::optional<threads> check_threads;     // From start_checking() on.
  std::optional<decoders> stream_decoders;  // From start_decoding() on.
  std::optional<threads> saving_threads;  // From start_saving() on; they flush files to the drive.
  slot_pool staging;
  std::unique_ptr<ring> the_ring;  // Null: reads go to a thread pool.
  std::unique_ptr<reader> direct_reader;
  std::unique_ptr<reader> buffered_reader;
  std::unique_ptr<reader> supply_reader;  // For what is not read from a file.
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
  load_stats facts_;  // After make() only the longest submit changes.

  // Touched by the engine thread only.
  std::optional<work_guard> stay_;
  std::vector<std::shared_ptr<engine_user>> users_;
  bool closing_ = false;
  bool slots_begun_ = false;
};

}  // namespace ringload::inline v0::detail
