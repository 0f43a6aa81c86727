// SPDX-License-Identifier: Apache-2.0
#include "pipeline/schedule.hpp"

#include <algorithm>

#include "core/surely.hpp"
#include "pipeline/job.hpp"

namespace ringload::inline v0::detail {

namespace {

void join(std::deque<std::shared_ptr<job>>& line, const std::shared_ptr<job>& one) {
  if (std::find(line.begin(), line.end(), one) == line.end()) line.push_back(one);
}

}  // namespace

void schedule::add(const std::shared_ptr<job>& one) {
  join(jobs_, one);
  waiting_.wake_all();
}

void schedule::hurry(const std::shared_ptr<job>& one) {
  join(hurried_, one);
  waiting_.wake_all();
}

void schedule::close() {
  closed_ = true;
  waiting_.wake_all();
}

bool schedule::next(line& of, taking how, turn& out) {
  while (!of.empty()) {
    std::shared_ptr<job> one = std::move(of.front());
    of.pop_front();
    const auto what = (*one.*how)();
    if (!what) continue;
    surely([&] { of.push_back(one); });
    out = {std::move(one), *what, &of == &hurried_};
    return true;
  }
  return false;
}

bool schedule::next(turn& out) {
  return next(hurried_, take_awaited_, out) || next(jobs_, take_in_turn_, out);
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
