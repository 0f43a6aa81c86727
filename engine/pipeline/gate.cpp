// SPDX-License-Identifier: Apache-2.0
#include "pipeline/gate.hpp"

#include <algorithm>

namespace ringload::inline v0::detail {

gate::gate(boost::asio::io_context& loop, const limits& within) noexcept
    : awaited_(loop), others_(loop), ordered_(within.bytes_in_flight) {
  if (ordered_ > 0) return;
  const std::uint64_t most = within.slots * within.slot_bytes;
  const std::uint64_t least = std::min(most, 2 * within.slot_bytes);
  found_.emplace(least, std::clamp(bytes_in_flight_at_first, least, most), most);
}

boost::asio::awaitable<void> gate::enter(std::uint64_t bytes, bool awaited) {
  waiting_line& line = awaited ? awaited_ : others_;
  if (awaited_.empty() && line.empty() && has_room_for(bytes)) {
    bytes_ += bytes;
    co_return;
  }
  co_await line.wait(bytes);  // Who lets it in has counted it.
}

void gate::leave(std::uint64_t bytes) {
  bytes_ -= bytes;
  const bool idle = bytes_ == 0 && awaited_.empty() && others_.empty();
  if (found_) found_->came_back(bytes, window::clock::now(), idle);
  let_in();
}

void gate::let_in() {
  for (;;) {
    waiting_line& line = awaited_.empty() ? others_ : awaited_;
    if (line.empty() || !has_room_for(line.first_weight())) return;
    bytes_ += line.first_weight();
    line.wake_one();
  }
}

}  // namespace ringload::inline v0::detail
