// SPDX-License-Identifier: Apache-2.0

// The public group load: each call becomes a step of the job's thread.

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

// The job waits for this step before it is destroyed.
struct calling final : step_thread::step {
  calling(group_job& j, group_call w, std::unique_ptr<operation<tensor>> o)
      : job(j), call(std::move(w)), waiting(std::move(o)) {}

  void run() noexcept override {
    auto built = job.make(call, *waiting->cancel);
    if (!built) return waiting->complete(to_exception(built.error()), tensor());
    waiting->complete(nullptr, std::move(*built));
  }

  group_job& job;
  group_call call;
  std::unique_ptr<operation<tensor>> waiting;
};

}  // namespace

void begin_group_load(loader& host_loader, std::shared_ptr<group> ranks, std::string source,
                      const group_options& options,
                      std::unique_ptr<operation<group_load>> waiting) {
  std::shared_ptr<group_job> job;
  try {
    job = std::make_shared<group_job>(host_loader, ranks, options);
  } catch (const std::system_error& refused) {
    ranks->fail("it could not start a thread");
    const fault failure = thread_refused(refused.code().value());
    return waiting->complete(to_exception(failure), group_load());
  }
  auto& thread = job->thread();
  thread.add(std::make_unique<opening_step>(std::move(job), std::move(source), std::move(waiting)));
}

void begin_group_call(const std::shared_ptr<group_job>& job, group_call call,
                      std::unique_ptr<operation<tensor>> waiting) {
  job->thread().add(std::make_unique<calling>(*job, std::move(call), std::move(waiting)));
}

}  // namespace detail

const ringload::catalog& group_load::catalog() const noexcept { return job_->file().catalog(); }

load_stats group_load::stats() const { return job_->stats(); }

}  // namespace ringload::inline v0
