// SPDX-License-Identifier: Apache-2.0

// The life of a save, from beginning to end: load.cpp backwards.

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

// Each of these blocks, on the file system or on what the owners of tensors do, so it runs in a
// thread of its own.
struct set_up_task {
  engine& e;
  const save_job& of;
  result<save_setup> made = fault();

  void operator()() noexcept {
    const save_services by = {e.devices, e.direct, e.within.slot_bytes};
    made = catch_as_fault([&] { return set_up_save(of.request(), by); });
  }
};

// Publishes the files, or removes them; and lets go of the tensors.
struct end_task {
  save_files files;
  save_job::remains unneeded;
  bool publish;
  bool sync;
  result<void> published;
  std::vector<std::string> paths;  // Once they are published.

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

boost::asio::awaitable<void> begin(engine& e, const std::shared_ptr<save_job>& one,
                                   set_up_task& set_up) {
  engine& with = e;
  co_await on_thread(*with.saving_threads, with.loop, set_up);
  if (!set_up.made) one->stop(set_up.made.error());
  if (!set_up.made || one->stopped()) co_return;
  if (one->how().digest) {
    if (auto ready = with.start_checking(); !ready) one->stop(ready.error());
    if (one->stopped()) co_return;
  }
  one->begin(std::move(*set_up.made));
  // Files and writes are fixed: nothing below chooses an offset or a size.

  if (one->how().digest) with.check_schedule.add(one->digests());
  with.read_schedule.add_last(one);
}

boost::asio::awaitable<void> save(engine& e, std::shared_ptr<save_job> one) {
  set_up_task set_up = {e, *one, fault()};
  // Any small allocation below may fail. The save then fails, and its waiter is still completed.
  try {
    co_await begin(e, one, set_up);
  } catch (const std::bad_alloc&) {
    one->stop({errc::memory_exceeded, {}});
  }
  for (bool waiting = !one->quiet(); waiting; waiting = !one->quiet()) {
    try {
      co_await one->until_quiet();
    } catch (const std::bad_alloc&) {
      one->stop({errc::memory_exceeded, {}});
    }
  }
  // All bytes are in the files, or the save has failed. Nothing reads the tensors any more.

  end_task end = {
      one->release_files(), one->release_tensors(), !one->stopped(), one->how().sync, {}, {}};
  if (set_up.made && end.unneeded.group == nullptr) {
    end.files = std::move(set_up.made->files);  // It was stopped before it began.
    end.unneeded.group = std::move(set_up.made->all);
  }
  for (bool ended = false; !ended;) {
    try {
      co_await on_thread(*e.saving_threads, e.loop, end);
      ended = true;
    } catch (const std::bad_alloc&) {
      // Once more: what has been done already is not done again.
    }
  }
  if (!end.published) one->stop(end.published.error());
  one->set_paths(std::move(end.paths));
  one->finish();
  e.remove_user(*one);
}

}  // namespace

void run_save(const std::shared_ptr<save_job>& one) {
  engine& e = *one->the_engine;
  e.add_user(one);
  // As run_job() does.
  const auto answer = [one](save_job*) {
    if (one->finished()) return;
    one->stop({errc::memory_exceeded, {}});
    one->finish();
    one->the_engine->remove_user(*one);
  };
  if (auto ready = e.start_saving(); !ready) {
    one->stop(ready.error());
    one->finish();
    e.remove_user(*one);
    return;
  }
  try {
    const std::shared_ptr<save_job> handle(one.get(), answer);
    boost::asio::co_spawn(e.loop, save(e, handle), boost::asio::detached);
  } catch (const std::bad_alloc&) {
    // The handle's deleter has run.
  }
}

void begin_save(const std::shared_ptr<engine>& with, save_request what,
                std::unique_ptr<operation<save_result>> waiting) {
  auto one = std::make_shared<save_job>(with, std::move(what));
  struct command {
    std::shared_ptr<save_job> one;
    std::unique_ptr<operation<save_result>> waiting;
    void operator()() {
      one->await(std::move(waiting));
      run_save(one);
    }
  };
  command whole{one, std::move(waiting)};
  if (with->post(std::move(whole))) return;
  const fault gone(boost::asio::error::operation_aborted, printable_path(one->request().path),
                   "the loader was destroyed");
  whole.waiting->complete(to_exception(gone), save_result());
}

}  // namespace ringload::inline v0::detail
