// SPDX-License-Identifier: Apache-2.0

// The public load of many ranks: each call becomes a step of the job's own thread.

#include <ringload/group_load.hpp>
#include <system_error>
#include <utility>

#include "ranks/group_job.hpp"

namespace ringload::inline v0 {

namespace detail {

namespace {

struct opening_step final : step_thread::step {
  opening_step(std::shared_ptr<group_job> j, std::string s,
               std::unique_ptr<operation<group_load>> w)
      : job(std::move(j)), source(std::move(s)), waiting(std::move(w)) {}

  void run() noexcept override {
    const auto done = job->open(source, *waiting->cancel);
    if (!done) return waiting->complete(to_exception(done.error()), group_load());
    waiting->complete(nullptr, group_load(std::move(job)));
  }

  std::shared_ptr<group_job> job;
  std::string source;
  std::unique_ptr<operation<group_load>> waiting;
};

// The job waits for it before it goes.
struct calling final : step_thread::step {
  calling(group_job& j, group_call w, std::unique_ptr<operation<tensor>> o)
      : job(j), what(std::move(w)), waiting(std::move(o)) {}

  void run() noexcept override {
    auto made = job.make(what, *waiting->cancel);
    if (!made) return waiting->complete(to_exception(made.error()), tensor());
    waiting->complete(nullptr, std::move(*made));
  }

  group_job& job;
  group_call what;
  std::unique_ptr<operation<tensor>> waiting;
};

}  // namespace

void begin_group_load(loader& with, std::shared_ptr<group> ranks, std::string source,
                      const group_options& how, std::unique_ptr<operation<group_load>> waiting) {
  std::shared_ptr<group_job> job;
  try {
    job = std::make_shared<group_job>(with, ranks, how);
  } catch (const std::system_error& refused) {
    ranks->fail("it could not start a thread");
    const fault why = thread_refused(refused.code().value());
    return waiting->complete(to_exception(why), group_load());
  }
  auto& thread = job->thread();
  thread.add(std::make_unique<opening_step>(std::move(job), std::move(source), std::move(waiting)));
}

void begin_group_call(const std::shared_ptr<group_job>& of, group_call what,
                      std::unique_ptr<operation<tensor>> waiting) {
  of->thread().add(std::make_unique<calling>(*of, std::move(what), std::move(waiting)));
}

}  // namespace detail

const ringload::catalog& group_load::catalog() const noexcept { return job_->file().catalog(); }

load_stats group_load::stats() const { return job_->stats(); }

}  // namespace ringload::inline v0
