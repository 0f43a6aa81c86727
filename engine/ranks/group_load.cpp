// SPDX-License-Identifier: Apache-2.0

// Each call of a group_load becomes a step in the thread of a group_job.

#include <ringload/group_load.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/end_operation.hpp"
#include "ranks/group_job.hpp"

namespace ringload::inline v0 {

namespace detail {

namespace {

struct opening_step final : step_thread::step {
  opening_step(std::shared_ptr<group_job> j, ringload::source s, boost::asio::any_io_executor e,
               std::unique_ptr<operation<group_load>> w)
      : job(std::move(j)), from(std::move(s)), executor(std::move(e)), waiting(std::move(w)) {}

  void run() noexcept override {
    const auto done = job->open(from, *waiting->cancel);
    if (!done) return end_operation(waiting, result<group_load>(done.error()));
    end_operation(waiting, result<group_load>(group_load(std::move(job), std::move(executor))));
  }

  std::shared_ptr<group_job> job;
  source from;
  boost::asio::any_io_executor executor;
  std::unique_ptr<operation<group_load>> waiting;
};

// A call of an open group_load. `job` is a reference, because the destructor of the job waits for
// its steps.
template <class T, result<T> (group_job::*Make)(const group_call&, cancel_request&)>
struct calling final : step_thread::step {
  calling(group_job& j, group_call w, std::unique_ptr<operation<T>> o)
      : job(j), call(std::move(w)), waiting(std::move(o)) {}

  void run() noexcept override { end_operation(waiting, (job.*Make)(call, *waiting->cancel)); }

  group_job& job;
  group_call call;
  std::unique_ptr<operation<T>> waiting;
};
using tensor_call = calling<tensor, &group_job::make>;
using model_call = calling<model, &group_job::make_model>;

}  // namespace

void begin_group_load(loader* rank_loader, std::shared_ptr<group> rank_group, source from,
                      const group_options& options,
                      std::unique_ptr<operation<group_load>> waiting) {
  std::shared_ptr<group_job> job;
  try {
    job = std::make_shared<group_job>(*rank_loader, rank_group, options);
  } catch (const std::system_error& refused) {
    rank_group->fail("it could not start a thread");
    const fault failure = thread_refused(refused.code().value());
    return waiting->fail(failure);
  }
  auto& thread = job->thread();
  thread.add(std::make_unique<opening_step>(std::move(job), std::move(from),
                                            rank_loader->get_executor(), std::move(waiting)));
}

void begin_group_call(const std::shared_ptr<group_job>& job, group_call call,
                      std::unique_ptr<operation<tensor>> waiting) {
  job->thread().add(std::make_unique<tensor_call>(*job, std::move(call), std::move(waiting)));
}

void begin_group_model(const std::shared_ptr<group_job>& job, group_call call,
                       std::unique_ptr<operation<model>> waiting) {
  job->thread().add(std::make_unique<model_call>(*job, std::move(call), std::move(waiting)));
}

}  // namespace detail

const ringload::catalog& group_load::catalog() const noexcept { return job_->file().catalog(); }

load_stats group_load::stats() const { return job_->stats(); }

std::vector<std::string> group_load::all_names() const {
  std::vector<std::string> names;
  for (const tensor_info& info : catalog().tensors) names.push_back(info.name);
  return names;
}

}  // namespace ringload::inline v0
