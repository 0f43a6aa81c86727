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

void schedule::remove(const work& ended) noexcept {
  for (work_queue* const queue : {&urgent_, &ready_, &last_}) {
    std::erase_if(*queue, [&ended](const auto& owner) { return owner.get() == &ended; });
  }
}

void schedule::close() {
  closed_ = true;
  waiting_.wake_all();
}

bool schedule::take_from(work_queue& queue, bool awaited, assignment& taken) {
  for (std::size_t left = queue.size(); left > 0; --left) {
    std::shared_ptr<work> owner = std::move(queue.front());
    queue.pop_front();
    const work::offer offer = owner->take_step(awaited);
    if (!offer.step && !offer.has_waiting_step) continue;
    retry_allocation([&] { queue.push_back(owner); });
    if (!offer.step) continue;
    taken = {std::move(owner), *offer.step, awaited};
    return true;
  }
  return false;
}

bool schedule::find_step(assignment& taken) {
  return take_from(urgent_, true, taken) || take_from(ready_, false, taken) ||
         take_from(last_, false, taken);
}

boost::asio::awaitable<schedule::assignment> schedule::take_step() {
  assignment taken;
  bool is_taken = find_step(taken);
  while (!is_taken && !closed_) {
    co_await waiting_.wait();
    is_taken = find_step(taken);
  }
  co_return taken;
}

}  // namespace ringload::inline v0::detail
