// SPDX-License-Identifier: Apache-2.0

#include "remote/http/body_window.hpp"

#include <algorithm>
#include <cstring>

namespace ringload::inline v0::remote_http {

namespace {

constexpr std::uint64_t block_bytes_min = 4 << 10;
constexpr std::uint64_t block_bytes_max = 256 << 10;
// Number of completely copied blocks that are kept, because adjacent reads overlap at their ends.
constexpr std::size_t taken_blocks_max = 4;

}  // namespace

body_window::body_window(std::uint64_t kept_bytes_max)
    : kept_bytes_max_(kept_bytes_max),
      block_bytes_(std::clamp(kept_bytes_max / 16, block_bytes_min, block_bytes_max)) {}

void body_window::begin_anew(bool failed) {
  position_ = 0;
  if (!failed) furthest_ = 0;
  blocks_.clear();
  kept_bytes_ = 0;
}

void body_window::copy_kept(wanted_part& part) {
  for (block& chunk : blocks_) {
    const std::uint64_t end = chunk.begin + chunk.filled;
    if (part.complete() || part.next() < chunk.begin || part.next() >= end) continue;
    const auto from = static_cast<std::size_t>(part.next() - chunk.begin);
    const std::size_t bytes =
        std::min(chunk.filled - from, part.into.size() - static_cast<std::size_t>(part.reached));
    std::memcpy(part.into.data() + part.reached, chunk.bytes.data() + from, bytes);
    part.reached += bytes;
    chunk.taken += bytes;
  }
}

void body_window::add(wanted_part& part) {
  copy_kept(part);
  if (!part.complete()) parts_.push_back(&part);
}

void body_window::remove(wanted_part& part) noexcept { std::erase(parts_, &part); }

bool body_window::has_parts_ahead() const noexcept {
  return std::ranges::any_of(parts_,
                             [this](const wanted_part* part) { return part->next() >= position_; });
}

// Drops all completely copied blocks except the newest taken_blocks_max. If more than
// kept_bytes_max_ bytes are still kept, drops the oldest blocks.
void body_window::drop_old() {
  if (keeps_all()) return;
  std::size_t taken_blocks = 0;
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    const bool taken = blocks_[i].taken >= blocks_[i].filled;
    if (!taken || ++taken_blocks <= taken_blocks_max) continue;
    kept_bytes_ -= blocks_[i].filled;
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  while (!blocks_.empty() && kept_bytes_ > kept_bytes_max_) {
    kept_bytes_ -= blocks_.front().filled;
    blocks_.pop_front();
  }
}

std::span<std::byte> body_window::next_buffer() {
  if (blocks_.empty() || blocks_.back().filled == blocks_.back().bytes.size()) {
    drop_old();
    block& next = blocks_.emplace_back();
    next.begin = position_;
    next.bytes.resize(static_cast<std::size_t>(std::min(block_bytes_, end_ - position_)));
  }
  return std::span(blocks_.back().bytes).subspan(blocks_.back().filled);
}

std::uint64_t body_window::take(std::size_t bytes, std::vector<wanted_part*>& complete) {
  block& newest = blocks_.back();
  const std::uint64_t taken_before = newest.taken;
  newest.filled += bytes;
  kept_bytes_ += bytes;
  for (wanted_part* const part : parts_) {
    if (part->next() < position_ || part->next() >= position_ + bytes) continue;
    const auto from = static_cast<std::size_t>(part->next() - newest.begin);
    const std::size_t count =
        std::min(newest.filled - from, part->into.size() - static_cast<std::size_t>(part->reached));
    std::memcpy(part->into.data() + part->reached, newest.bytes.data() + from, count);
    part->reached += count;
    newest.taken += count;
  }
  position_ += bytes;
  const std::uint64_t fresh =
      position_ - std::min(position_, std::max(furthest_, position_ - bytes));
  furthest_ = std::max(furthest_, position_);
  const std::uint64_t taken = newest.taken - taken_before;
  wasted_bytes_ -= std::min(wasted_bytes_, taken);
  if (taken == 0) wasted_bytes_ += fresh;
  const auto complete_parts = std::partition(
      parts_.begin(), parts_.end(), [](const wanted_part* part) { return !part->complete(); });
  complete.insert(complete.end(), complete_parts, parts_.end());
  parts_.erase(complete_parts, parts_.end());
  return fresh;
}

}  // namespace ringload::inline v0::remote_http
