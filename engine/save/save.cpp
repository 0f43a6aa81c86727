// SPDX-License-Identifier: Apache-2.0

// The coroutine that runs a save from beginning to end.

#include <ringload/loader.hpp>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "base/printable.hpp"
#include "base/retry_allocation.hpp"
#include "runtime/engine.hpp"
#include "runtime/on_thread.hpp"
#include "runtime/spawn_owned.hpp"
#include "save/save_job.hpp"

namespace ringload::inline v0::detail {

namespace {

// Prepares a save. Runs in a saving thread, because the file system may block.
struct set_up_task {
  engine& e;
  const save_job& job;
  result<save_setup> setup = fault();

  void operator()() noexcept {
    const save_services services = {e.devices, e.direct, e.options.slot_bytes, e.extensions,
                                    job.stop_token()};
    setup = catch_as_fault([&] { return set_up_save(job.request(), services); });
  }
};

// Task for a saving thread. Gives the files their final names, or removes the files. Also releases
// the tensors, because the destructors of their owners may block.
struct end_task {
  save_files files;
  save_job::released_tensors unneeded;
  bool publish;
  bool sync;
  result<void> published;
  std::vector<std::string> paths;  // Set before the files are published.

  void operator()() noexcept {
    if (publish) {
      published = catch_as_fault([this] {
        paths = files.paths();
        return files.publish(sync);
      });
    }
    publish = false;
    files = save_files();
    unneeded = {};
  }
};

boost::asio::awaitable<void> begin(engine& e, const std::shared_ptr<save_job>& job,
                                   set_up_task& set_up) {
  threads& pool = *e.saving_threads;
  co_await on_thread(pool, e.loop, set_up);
  if (!set_up.setup) job->stop(set_up.setup.error());
  if (!set_up.setup || job->stopped()) co_return;
  if (job->options().digest) {
    if (auto ready = e.start_checking(); !ready) job->stop(ready.error());
    if (job->stopped()) co_return;
  }
  job->begin(std::move(*set_up.setup));
  // From here on, the set of files and the offset and size of each write cannot change.

  if (job->options().digest) e.check_schedule.add(job->digests());
  e.read_schedule.add_last(job);
}

boost::asio::awaitable<void> save(engine& e, std::shared_ptr<save_job> job) {
  set_up_task set_up = {e, *job, fault()};
  // If memory is exhausted, the save fails, but its operation still completes.
  bool has_begun = false;
  while (!has_begun || !job->is_quiet()) {
    try {
      if (!std::exchange(has_begun, true)) co_await begin(e, job, set_up);
      while (!job->is_quiet()) co_await job->until_quiet();
    } catch (const std::bad_alloc&) {
      job->stop({errc::memory_exceeded, {}});
    }
  }
  // All bytes are in the files, or the save has failed. The tensors are not read any more.

  end_task end = {
      job->release_files(), job->release_tensors(), !job->stopped(), job->options().sync, {}, {}};
  if (set_up.setup && end.unneeded.group == nullptr) {
    // The save stopped before begin() moved the files into the job.
    end.files = std::move(set_up.setup->files);
    end.unneeded.group = std::move(set_up.setup->group);
  }
  for (bool ended = false; !ended;) {
    try {
      co_await on_thread(*e.saving_threads, e.loop, end);
      ended = true;
    } catch (const std::bad_alloc&) {
      // Memory is exhausted. The loop repeats the task, which skips its completed parts.
    }
  }
  if (!end.published) job->stop(end.published.error());
  job->set_paths(std::move(end.paths));
  job->finish();
  e.remove_user(*job);
}

}  // namespace

void run_save(const std::shared_ptr<save_job>& job) {
  engine& e = *job->the_engine;
  e.add_user(job);
  if (auto ready = e.start_saving(); !ready) {
    job->stop(ready.error());
    job->finish();
    e.remove_user(*job);
    return;
  }
  const auto make_coroutine = [&e](std::shared_ptr<save_job> handle) {
    return save(e, std::move(handle));
  };
  spawn_owned(e.loop, job, make_coroutine, finish_for_memory<save_job>);
}

void begin_save(const std::shared_ptr<engine>& owner, std::string path,
                std::vector<tensor_ref> tensors, save_options options,
                std::unique_ptr<operation<save_result>> waiting) {
  save_request request(std::move(path), std::move(tensors), std::move(options));
  struct command {
    std::shared_ptr<save_job> job;
    std::unique_ptr<operation<save_result>> waiting;
    void operator()() {
      job->await(std::move(waiting));
      run_save(job);
    }
  };
  command start_command{std::make_shared<save_job>(owner, std::move(request)), std::move(waiting)};
  if (owner->post(std::move(start_command))) return;
  const fault destroyed(boost::asio::error::operation_aborted,
                        printable_path(start_command.job->request().path),
                        "the loader was destroyed");
  start_command.job.reset();  // Releases the owners of the tensors before completion.
  start_command.waiting->fail(destroyed);
}

}  // namespace ringload::inline v0::detail
