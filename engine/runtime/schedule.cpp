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

bool schedule::take_from(work_queue& queue, bool awaited, turn& found) {
  for (std::size_t left = queue.size(); left > 0; --left) {
    std::shared_ptr<work> owner = std::move(queue.front());
    queue.pop_front();
    const work::offer offer = owner->take(awaited);
    if (!offer.step && !offer.later) continue;
    retry_allocation([&] { queue.push_back(owner); });
    if (!offer.step) continue;
    found = {std::move(owner), *offer.step, awaited};
    return true;
  }
  return false;
}

bool schedule::next(turn& found) {
  return take_from(urgent_, true, found) || take_from(ready_, false, found) ||
         take_from(last_, false, found);
}

boost::asio::awaitable<schedule::turn> schedule::take() {
  turn found;
  bool is_found = next(found);
  while (!is_found && !closed_) {
    co_await waiting_.wait();
    is_found = next(found);
  }
  co_return found;
}

}  // namespace ringload::inline v0::detail
