// SPDX-License-Identifier: Apache-2.0
#include "pipeline/schedule.hpp"

#include <algorithm>

#include "core/retry_allocation.hpp"
#include "pipeline/job.hpp"
#include "pipeline/save_job.hpp"

namespace ringload::inline v0::detail {

namespace {

template <class Job>
void add_once(std::deque<std::shared_ptr<Job>>& queue, const std::shared_ptr<Job>& one) {
  if (std::find(queue.begin(), queue.end(), one) == queue.end()) queue.push_back(one);
}

}  // namespace

void schedule::add(const std::shared_ptr<job>& one) {
  add_once(jobs_, one);
  waiting_.wake_all();
}

void schedule::prioritize(const std::shared_ptr<job>& one) {
  add_once(urgent_, one);
  waiting_.wake_all();
}

void schedule::add(const std::shared_ptr<save_job>& one) {
  add_once(saves_, one);
  waiting_.wake_all();
}

void schedule::close() {
  closed_ = true;
  waiting_.wake_all();
}

bool schedule::next(job_queue& of, take_function how, turn& out) {
  for (std::size_t left = of.size(); left > 0; --left) {
    std::shared_ptr<job> one = std::move(of.front());
    of.pop_front();
    const taken next = (*one.*how)();
    if (!next.what && !next.later) continue;
    retry_allocation([&] { of.push_back(one); });
    if (!next.what) continue;
    out = {std::move(one), nullptr, *next.what, &of == &urgent_, nullptr};
    return true;
  }
  return false;
}

bool schedule::next_write(turn& out) {
  while (!saves_.empty()) {
    std::shared_ptr<save_job> one = std::move(saves_.front());
    saves_.pop_front();
    auto what = one->take_next();
    if (!what) continue;
    retry_allocation([&] { saves_.push_back(one); });
    out = {nullptr, std::move(one), what->write, false, std::move(what->of)};
    return true;
  }
  return false;
}

bool schedule::next(turn& out) {
  return next(urgent_, take_awaited_, out) || next(jobs_, take_in_turn_, out) || next_write(out);
}

boost::asio::awaitable<schedule::turn> schedule::take() {
  turn mine;
  bool found = next(mine);
  while (!found && !closed_) {
    co_await waiting_.wait();
    found = next(mine);
  }
  co_return mine;
}

}  // namespace ringload::inline v0::detail
