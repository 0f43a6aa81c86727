// SPDX-License-Identifier: Apache-2.0
#include "pipeline/schedule.hpp"

#include "core/surely.hpp"
#include "pipeline/job.hpp"

namespace ringload::inline v0::detail {

void schedule::add(std::shared_ptr<job> one) {
  jobs_.push_back(std::move(one));
  waiting_.wake_all();
}

void schedule::hurry(std::shared_ptr<job> one) {
  hurried_.push_back(std::move(one));
  waiting_.wake_all();
}

void schedule::close() {
  closed_ = true;
  waiting_.wake_all();
}

bool schedule::next(turn& out) {
  while (!hurried_.empty()) {
    std::shared_ptr<job> one = std::move(hurried_.front());
    hurried_.pop_front();
    const auto read = one->take_awaited();
    if (!read) continue;
    out = {one, *read};
    surely([&] { hurried_.push_back(one); });
    return true;
  }
  while (!jobs_.empty()) {
    std::shared_ptr<job> one = std::move(jobs_.front());
    jobs_.pop_front();
    const auto read = one->take_next();
    if (!read) continue;
    out = {one, *read};
    if (one->has_next()) surely([&] { jobs_.push_back(one); });
    return true;
  }
  return false;
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
