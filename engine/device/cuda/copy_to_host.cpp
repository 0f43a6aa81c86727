// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/copy_to_host.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace ringload::inline v0::cuda {

using boost::system::error_code;

error_code reader_rooms::open(const allocation_log& log) {
  auto new_memory = mapping::make(rooms_count * room_bytes, page_kind::transparent);
  if (!new_memory) return new_memory.error().code;
  memory_ = std::move(*new_memory);
  memory_.note_in(log);
  if (auto failed = populate(memory_.span())) return failed;
  pinned_.emplace(slot_region{memory_.span(), memory_.bytes()});
  (void)pinned_->pin(memory_.span());  // If pinning fails, copies are slower.
  for (event& room_event : filled_) {
    if (auto failed = room_event.make()) return failed;
  }
  return stream_.open();
}

error_code reader_rooms::copy(const std::byte* from, std::span<std::byte> into, bool is_pinned) {
  auto failed = is_pinned ? copy_directly(from, into) : copy_pieces(from, into);
  if (failed) (void)code_of(cudaStreamSynchronize(stream_.get()));
  return failed;
}

error_code reader_rooms::copy_directly(const std::byte* from, std::span<std::byte> into) {
  auto failed = code_of(
      cudaMemcpyAsync(into.data(), from, into.size(), cudaMemcpyDeviceToHost, stream_.get()));
  if (!failed) failed = filled_[0].record(stream_.get());
  return failed ? failed : filled_[0].wait();
}

error_code reader_rooms::copy_pieces(const std::byte* from, std::span<std::byte> into) {
  const auto piece_from = [&](std::size_t offset) {
    return piece{from + offset, into.subspan(offset, std::min(room_bytes, into.size() - offset)),
                 offset / room_bytes % rooms_count};
  };
  if (into.empty()) return {};
  if (auto failed = begin(piece_from(0))) return failed;
  for (std::size_t offset = 0; offset < into.size(); offset += room_bytes) {
    if (offset + room_bytes < into.size()) {
      if (auto failed = begin(piece_from(offset + room_bytes))) return failed;
    }
    if (auto failed = finish(piece_from(offset))) return failed;
  }
  return {};
}

error_code reader_rooms::begin(const piece& part) {
  auto failed = code_of(cudaMemcpyAsync(room(part.room), part.from, part.into.size(),
                                        cudaMemcpyDeviceToHost, stream_.get()));
  if (failed) return failed;
  return filled_[part.room].record(stream_.get());
}

error_code reader_rooms::finish(const piece& part) {
  if (auto failed = filled_[part.room].wait()) return failed;
  std::memcpy(part.into.data(), room(part.room), part.into.size());
  return {};
}

std::unique_ptr<reader_rooms> read_back_pool::take_idle() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return nullptr;
  auto rooms = std::move(idle_.back());
  idle_.pop_back();
  return rooms;
}

void read_back_pool::keep(std::unique_ptr<reader_rooms> rooms) noexcept try {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(rooms));
} catch (const std::bad_alloc&) {
}

error_code read_back_pool::copy(const std::byte* from, std::span<std::byte> into,
                                bool is_pinned) noexcept {
  try {
    auto rooms = take_idle();
    if (!rooms) {
      rooms = std::make_unique<reader_rooms>();
      if (auto failed = rooms->open(log_)) return failed;
    }
    auto failed = rooms->copy(from, into, is_pinned);
    if (!failed) keep(std::move(rooms));
    return failed;
  } catch (const std::bad_alloc&) {
    return errc::memory_exceeded;
  }
}

}  // namespace ringload::inline v0::cuda
