// SPDX-License-Identifier: Apache-2.0
#include "runtime/schedule.hpp"

#include <algorithm>

#include "base/retry_allocation.hpp"

namespace ringload::inline v0::detail {

void schedule::add_to(work_queue& queue, const std::shared_ptr<work>& owner) {
  if (std::ranges::find(queue, owner) == queue.end()) queue.push_back(owner);
  waiting_.wake_all();
}

void schedule::add(const std::shared_ptr<work>& owner) { add_to(ready_, owner); }

void schedule::prioritize(const std::shared_ptr<work>& owner) { add_to(urgent_, owner); }

void schedule::add_last(const std::shared_ptr<work>& owner) { add_to(last_, owner); }

void schedule::close() {
  closed_ = true;
  waiting_.wake_all();
}

bool schedule::take_from(work_queue& queue, bool awaited, turn& taken) {
  for (std::size_t left = queue.size(); left > 0; --left) {
    std::shared_ptr<work> owner = std::move(queue.front());
    queue.pop_front();
    const work::offer offer = owner->take(awaited);
    if (!offer.step && !offer.later) continue;
    retry_allocation([&] { queue.push_back(owner); });
    if (!offer.step) continue;
    taken = {std::move(owner), *offer.step, awaited};
    return true;
  }
  return false;
}

bool schedule::next(turn& taken) {
  return take_from(urgent_, true, taken) || take_from(ready_, false, taken) ||
         take_from(last_, false, taken);
}

boost::asio::awaitable<schedule::turn> schedule::take() {
  turn taken;
  bool is_taken = next(taken);
  while (!is_taken && !closed_) {
    co_await waiting_.wait();
    is_taken = next(taken);
  }
  co_return taken;
}

}  // namespace ringload::inline v0::detail
