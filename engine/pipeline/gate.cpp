// SPDX-License-Identifier: Apache-2.0
#include "pipeline/gate.hpp"

#include <algorithm>

namespace ringload::inline v0::detail {

gate::gate(boost::asio::io_context& loop, const limits& within) noexcept
    : line_(loop), ordered_(within.bytes_in_flight) {
  if (ordered_ > 0) return;
  const std::uint64_t most = within.slots * within.slot_bytes;
  const std::uint64_t least = std::min(most, 2 * within.slot_bytes);
  found_.emplace(least, std::clamp(bytes_in_flight_at_first, least, most), most);
}

boost::asio::awaitable<void> gate::enter(std::uint64_t bytes) {
  const std::uint64_t wanted = bytes;
  while (bytes_ > 0 && bytes_ + wanted > bytes_max()) co_await line_.wait();
  bytes_ += wanted;
  // There may be room for one more, which then looks for itself.
  if (bytes_ < bytes_max()) line_.wake_one();
}

void gate::leave(std::uint64_t bytes) {
  bytes_ -= bytes;
  if (found_) found_->came_back(bytes, window::clock::now(), bytes_ == 0 && line_.empty());
  line_.wake_one();
}

}  // namespace ringload::inline v0::detail
