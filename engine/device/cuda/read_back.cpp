// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/read_back.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace ringload::inline v0::cuda {

using boost::system::error_code;

error_code reader_rooms::open(const allocation_log& log) {
  auto made = mapping::make(rooms_count * room_bytes, page_kind::transparent);
  if (!made) return made.error().code;
  memory_ = std::move(*made);
  memory_.note_in(log);
  if (auto failed = populate(memory_.span())) return failed;
  pinned_.emplace(slot_region{memory_.span(), memory_.bytes()});
  (void)pinned_->pin(memory_.span());  // Unpinned it is slower.
  for (event& each : filled_) {
    if (auto failed = each.make()) return failed;
  }
  return on_.open();
}

error_code reader_rooms::copy(const std::byte* from, std::span<std::byte> into) {
  auto failed = copy_pieces(from, into);
  if (failed) (void)code_of(cudaStreamSynchronize(on_.get()));
  return failed;
}

error_code reader_rooms::copy_pieces(const std::byte* from, std::span<std::byte> into) {
  const auto piece_at = [&](std::size_t at) {
    return piece{from + at, into.subspan(at, std::min(room_bytes, into.size() - at)),
                 at / room_bytes % rooms_count};
  };
  if (into.empty()) return {};
  if (auto failed = begin(piece_at(0))) return failed;
  for (std::size_t at = 0; at < into.size(); at += room_bytes) {
    if (at + room_bytes < into.size()) {
      if (auto failed = begin(piece_at(at + room_bytes))) return failed;
    }
    if (auto failed = finish(piece_at(at))) return failed;
  }
  return {};
}

error_code reader_rooms::begin(const piece& one) {
  auto failed = code_of(cudaMemcpyAsync(room(one.room), one.from, one.into.size(),
                                        cudaMemcpyDeviceToHost, on_.get()));
  if (failed) return failed;
  return filled_[one.room].record(on_.get());
}

error_code reader_rooms::finish(const piece& one) {
  if (auto failed = filled_[one.room].wait()) return failed;
  std::memcpy(one.into.data(), room(one.room), one.into.size());
  return {};
}

std::unique_ptr<reader_rooms> read_back_pool::take_idle() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return nullptr;
  auto one = std::move(idle_.back());
  idle_.pop_back();
  return one;
}

error_code read_back_pool::copy(const std::byte* from, std::span<std::byte> into) noexcept {
  try {
    auto mine = take_idle();
    if (!mine) {
      mine = std::make_unique<reader_rooms>();
      if (auto failed = mine->open(log_)) return failed;
    }
    auto failed = mine->copy(from, into);
    if (failed) return failed;
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(mine));
    return {};
  } catch (const std::bad_alloc&) {
    return errc::memory_exceeded;
  }
}

}  // namespace ringload::inline v0::cuda
