// SPDX-License-Identifier: Apache-2.0

// The steps of a save, from begin_save() to finish(). Counterpart of load.cpp.

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <ringload/loader.hpp>

#include "base/catch_as_fault.hpp"
#include "base/printable.hpp"
#include "base/retry_allocation.hpp"
#include "runtime/engine.hpp"
#include "runtime/on_thread.hpp"
#include "save/save_job.hpp"

namespace ringload::inline v0::detail {

namespace {

// The tasks below block on the file system or on the deleters of tensor owners, so they run in
// the saving threads.
struct set_up_task {
  engine& e;
  const save_job& job;
  result<save_setup> setup = fault();

  void operator()() noexcept {
    const save_services services = {e.devices, e.direct, e.within.slot_bytes};
    setup = catch_as_fault([&] { return set_up_save(job.request(), services); });
  }
};

// Publishes or removes the files, and releases the tensors.
struct end_task {
  save_files files;
  save_job::remains unneeded;
  bool publish;
  bool sync;
  result<void> published;
  std::vector<std::string> paths;  // Set by publishing.

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
  co_await on_thread(*e.saving_threads, e.loop, set_up);
  if (!set_up.setup) job->stop(set_up.setup.error());
  if (!set_up.setup || job->stopped()) co_return;
  if (job->options().digest) {
    if (auto ready = e.start_checking(); !ready) job->stop(ready.error());
    if (job->stopped()) co_return;
  }
  job->begin(std::move(*set_up.setup));
  // Files and writes are fixed here. The code below chooses no offset and no size.

  if (job->options().digest) e.check_schedule.add(job->digests());
  e.read_schedule.add_last(job);
}

boost::asio::awaitable<void> save(engine& e, std::shared_ptr<save_job> job) {
  set_up_task set_up = {e, *job, fault()};
  // Any small allocation below may fail. The save then fails, and its waiter is still completed.
  try {
    co_await begin(e, job, set_up);
  } catch (const std::bad_alloc&) {
    job->stop({errc::memory_exceeded, {}});
  }
  for (bool waiting = !job->quiet(); waiting; waiting = !job->quiet()) {
    try {
      co_await job->until_quiet();
    } catch (const std::bad_alloc&) {
      job->stop({errc::memory_exceeded, {}});
    }
  }
  // All bytes are in the files, or the save has failed. The tensors are no longer read.

  end_task end = {
      job->release_files(), job->release_tensors(), !job->stopped(), job->options().sync, {}, {}};
  if (set_up.setup && end.unneeded.group == nullptr) {
    end.files = std::move(set_up.setup->files);  // The save stopped before its first write.
    end.unneeded.group = std::move(set_up.setup->group);
  }
  for (bool ended = false; !ended;) {
    try {
      co_await on_thread(*e.saving_threads, e.loop, end);
      ended = true;
    } catch (const std::bad_alloc&) {
      // Repeats the task. The task skips the steps that are complete.
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
  // Deleter of the handle, as in run_job(): completes a save whose coroutine was not started.
  const auto finish_unstarted = [job](save_job*) {
    if (job->finished()) return;
    job->stop({errc::memory_exceeded, {}});
    job->finish();
    job->the_engine->remove_user(*job);
  };
  if (auto ready = e.start_saving(); !ready) {
    job->stop(ready.error());
    job->finish();
    e.remove_user(*job);
    return;
  }
  try {
    const std::shared_ptr<save_job> handle(job.get(), finish_unstarted);
    boost::asio::co_spawn(e.loop, save(e, handle), boost::asio::detached);
  } catch (const std::bad_alloc&) {
    // The handle's deleter has run.
  }
}

void begin_save(const std::shared_ptr<engine>& owner, save_request request,
                std::unique_ptr<operation<save_result>> waiting) {
  auto job = std::make_shared<save_job>(owner, std::move(request));
  struct command {
    std::shared_ptr<save_job> job;
    std::unique_ptr<operation<save_result>> waiting;
    void operator()() {
      job->await(std::move(waiting));
      run_save(job);
    }
  };
  command start_command{job, std::move(waiting)};
  if (owner->post(std::move(start_command))) return;
  const fault destroyed(boost::asio::error::operation_aborted, printable_path(job->request().path),
                        "the loader was destroyed");
  start_command.waiting->complete(to_exception(destroyed), save_result());
}

}  // namespace ringload::inline v0::detail
