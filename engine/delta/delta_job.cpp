// SPDX-License-Identifier: Apache-2.0

#include "delta/delta_job.hpp"

#include <algorithm>
#include <atomic>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "base/printable.hpp"
#include "base/retry_allocation.hpp"
#include "io/threads.hpp"
#include "runtime/engine.hpp"
#include "runtime/work.hpp"

namespace ringload::inline v0::detail {

namespace {

constexpr std::uint32_t threads_max = 16;

}  // namespace

result<void> for_each_index(std::size_t count,
                            const std::function<result<void>(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::optional<fault> first;  // The first failure. Guarded by the mutex.
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      auto outcome = catch_as_fault([&] { return work(i); });
      if (outcome) continue;
      const std::lock_guard lock(mutex);
      if (!first) first = outcome.error();
      next = count;
    }
  };
  const auto thread_count = std::min<std::size_t>(
      {count, std::max(1U, std::thread::hardware_concurrency()), threads_max});
  if (thread_count > 1) {
    threads pool(static_cast<std::uint32_t>(thread_count));
    for (std::size_t i = 0; i < thread_count; ++i) boost::asio::post(pool.get_executor(), run);
    pool.join();
  } else {
    run();
  }
  if (first) return *first;
  return {};
}

void refuse_replacing(const checkpoint& version, const std::string& path) {
  for (const file_info& file : version.catalog().files) {
    std::error_code failed;
    const auto target = std::filesystem::canonical(file.path, failed);
    if (failed) continue;  // An object of a store.
    // The file may be a symlink, which is in another folder than its target.
    const auto link = std::filesystem::absolute(file.path).parent_path();
    for (auto place : {target, std::filesystem::canonical(link, failed)}) {
      for (; place.has_relative_path(); place = place.parent_path()) {
        if (!std::filesystem::equivalent(place, path, failed) || failed) continue;
        throw error(errc::invalid_saving, printable_path(path),
                    "the delta would replace a file of a version that it is made of");
      }
    }
  }
}

// Registers a delta operation with its engine. The engine waits for the operation before it ends.
class delta_user {
 public:
  delta_user(engine_ptr used_engine, std::shared_ptr<step_cancellation> cancellation)
      : entry_(std::make_shared<entry>(std::move(used_engine), std::move(cancellation))) {}
  delta_user(const delta_user&) = delete;
  delta_user& operator=(const delta_user&) = delete;
  ~delta_user() {
    if (!is_added_) return;
    retry_allocation([this] {
      boost::asio::post(entry_->used_engine->loop,
                        [ended = entry_] { ended->used_engine->remove_user(*ended); });
    });
  }

  // Returns false if the engine is closed.
  bool add() {
    is_added_ = entry_->used_engine->post(
        [added = entry_] { retry_allocation([&added] { added->used_engine->add_user(added); }); });
    return is_added_;
  }

 private:
  struct entry final : engine_user {
    entry(engine_ptr owner, std::shared_ptr<step_cancellation> operation_cancellation)
        : used_engine(std::move(owner)), cancellation(std::move(operation_cancellation)) {}
    void stop_at_close() override { cancellation->close(); }

    const engine_ptr used_engine;
    const std::shared_ptr<step_cancellation> cancellation;
  };

  const std::shared_ptr<entry> entry_;
  bool is_added_ = false;
};

bool delta_services::join_engine() {
  return retry_allocation([this] {
    user_ = std::make_shared<delta_user>(engine_, cancellation_);
    return user_->add();
  });
}

void delta_services::check_cancelled() const {
  if (!cancellation_->is_cancelled()) return;
  throw error(boost::asio::error::operation_aborted, "delta", "it was cancelled");
}

void delta_services::make_host_engine() {
  host_engine_ = engine_;
  if (memory().is_host()) return;
  loader_options options = engine_->options;
  // The loader has chosen these values for its own device. With 0 slots and 0 copy threads, the
  // host engine chooses its own numbers.
  options.slots = 0;
  options.copy_threads = 0;
  options.cached_bytes = 0;
  options.gpu_direct = gpu_direct::off;
  host_engine_ = engine::make({host()}, options, {}, engine_->extensions, engine_->log);
  closed_at_end_.reset(host_engine_.get(), [](engine* owned) { owned->close(); });
}

device_bytes delta_services::memory() const noexcept {
  return {engine_->devices.backend_at(0), engine_->devices.listed().front()};
}

checkpoint delta_services::open(const source& from) const {
  return cancellation_->wait_for<checkpoint>([&](auto&& handler) {
    initiate<checkpoint, &begin_open>(std::move(handler), boost::asio::system_executor(),
                                      host_engine_, from, open_options());
  });
}

model delta_services::load_by(const engine_ptr& used, const source& from,
                              const load_options& options) const {
  return cancellation_->wait_for<model>([&](auto&& handler) {
    initiate<model, &begin_load>(std::move(handler), boost::asio::system_executor(), used, from,
                                 options);
  });
}

model delta_services::load(const source& from, std::vector<std::string> names,
                           const verification& verify) const {
  load_options options;
  options.verify = verify;
  options.select.names(std::move(names));
  return load_by(host_engine_, from, options);
}

model delta_services::load_all(const source& from) const {
  return load_by(host_engine_, from, load_options());
}

model delta_services::load_to_device(const source& from, const load_options& options) const {
  return load_by(engine_, from, options);
}

}  // namespace ringload::inline v0::detail
