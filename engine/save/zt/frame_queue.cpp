// SPDX-License-Identifier: Apache-2.0
#include "save/zt/frame_queue.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "base/catch_as_fault.hpp"

namespace ringload::inline v0 {

frame_queue::frame_queue(std::uint32_t encoders) : encoders_(encoders), workers_(encoders) {}

frame_queue::~frame_queue() { workers_.join(); }

std::span<std::byte> frame_queue::next_buffer(std::size_t bytes) {
  if (next_.empty() && !spare_.empty()) {
    next_ = std::move(spare_.back());
    spare_.pop_back();
  }
  next_.resize(bytes);
  return next_;
}

void frame_queue::push(int level, bool last) {
  chunks_.push_back(std::make_unique<chunk>());
  chunk& current = *chunks_.back();
  current.in = std::exchange(next_, {});
  current.level = level;
  current.last = last;
  boost::asio::post(workers_.get_executor(), [this, &current] { encode(current); });
}

result<void> frame_queue::encode_now(chunk& current) {
  idle_encoder reused{current.level, nullptr};
  {
    const std::lock_guard lock(mutex_);
    const auto idle = std::ranges::find(idle_, current.level, &idle_encoder::level);
    if (idle != idle_.end()) {
      reused = std::move(*idle);
      idle_.erase(idle);
    }
  }
  if (reused.encoder == nullptr) {
    auto new_encoder = zstd_frame_encoder::make(current.level);
    if (!new_encoder) return new_encoder.error();
    reused.encoder = std::move(*new_encoder);
  }
  auto outcome = reused.encoder->encode(current.in, current.out);
  const std::lock_guard lock(mutex_);
  if (idle_.size() < encoders_) idle_.push_back(std::move(reused));
  return outcome;
}

// Runs in a thread of workers_.
void frame_queue::encode(chunk& current) {
  auto outcome = catch_as_fault([this, &current] { return encode_now(current); });
  const std::lock_guard lock(mutex_);
  current.outcome = std::move(outcome);
  current.encoded = true;
  encoded_.notify_one();
}

result<frame_queue::frame> frame_queue::take() {
  chunk& oldest = *chunks_.front();
  {
    std::unique_lock lock(mutex_);
    encoded_.wait(lock, [&oldest] { return oldest.encoded; });
  }
  const std::unique_ptr<chunk> taken = std::move(chunks_.front());
  chunks_.pop_front();
  if (!taken->outcome) return taken->outcome.error();
  spare_.push_back(std::move(taken->in));
  return frame{std::move(taken->out), taken->last};
}

}  // namespace ringload::inline v0
