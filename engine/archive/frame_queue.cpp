// SPDX-License-Identifier: Apache-2.0
#include "archive/frame_queue.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "core/attempt.hpp"

namespace ringload::inline v0 {

frame_queue::frame_queue(std::uint32_t encoders) : encoders_(encoders), workers_(encoders) {}

frame_queue::~frame_queue() { workers_.join(); }

std::span<std::byte> frame_queue::room(std::size_t bytes) {
  if (next_.empty() && !spare_.empty()) {
    next_ = std::move(spare_.back());
    spare_.pop_back();
  }
  next_.resize(bytes);
  return next_;
}

void frame_queue::push(int level, bool last) {
  chunks_.push_back(std::make_unique<chunk>());
  chunk& one = *chunks_.back();
  one.in = std::exchange(next_, {});
  one.level = level;
  one.last = last;
  boost::asio::post(workers_.get_executor(), [this, &one] { encode(one); });
}

result<void> frame_queue::encode_now(chunk& one) {
  idle_encoder mine{one.level, nullptr};
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(idle_, one.level, &idle_encoder::level);
    if (found != idle_.end()) {
      mine = std::move(*found);
      idle_.erase(found);
    }
  }
  if (mine.with == nullptr) {
    auto made = zstd_frame_encoder::make(one.level);
    if (!made) return made.error();
    mine.with = std::move(*made);
  }
  auto outcome = mine.with->encode(one.in, one.out);
  const std::lock_guard lock(mutex_);
  if (idle_.size() < encoders_) idle_.push_back(std::move(mine));
  return outcome;
}

// In a thread of workers_.
void frame_queue::encode(chunk& one) {
  auto outcome = attempt([this, &one] { return encode_now(one); });
  const std::lock_guard lock(mutex_);
  one.outcome = std::move(outcome);
  one.encoded = true;
  encoded_.notify_one();
}

result<frame_queue::frame> frame_queue::take() {
  chunk& oldest = *chunks_.front();
  {
    std::unique_lock lock(mutex_);
    encoded_.wait(lock, [&oldest] { return oldest.encoded; });
  }
  const std::unique_ptr<chunk> mine = std::move(chunks_.front());
  chunks_.pop_front();
  if (!mine->outcome) return mine->outcome.error();
  spare_.push_back(std::move(mine->in));
  return frame{std::move(mine->out), mine->last};
}

}  // namespace ringload::inline v0
