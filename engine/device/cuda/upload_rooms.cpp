// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/upload_rooms.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "device/cuda/device_memory.hpp"
#include "device/cuda/runtime.hpp"
#include "device/cuda/strided_pieces.hpp"

namespace ringload::inline v0::cuda {

using boost::system::error_code;

namespace {

// Returns the smallest slot range that contains all copies. `copies` must not be empty.
slot_range range_of(std::span<const copy_op> copies) {
  slot_range range = {copies.front().slot_offset, 0};
  for (const copy_op& copy : copies) {
    range.begin = std::min(range.begin, copy.slot_offset);
    range.end = std::max(range.end, copy.slot_offset + copy.bytes);
  }
  return range;
}

}  // namespace

error_code upload_rooms::open() {
  auto memory = mapping::make(rooms_count * room_bytes, page_kind::transparent);
  if (!memory) return memory.error().code;
  memory_ = std::move(*memory);
  memory_.note_in(log_);
  if (auto failed = populate(memory_.span())) return failed;
  pinned_.emplace(slot_region{memory_.span(), room_bytes});
  for (std::size_t room = 0; room < rooms_count; ++room) {
    (void)pinned_->pin({room_at(room), room_bytes});  // If pinning fails, copies are slower.
  }
  for (event& ended : ended_) {
    if (auto failed = ended.make()) return failed;
  }
  return stream_.open();
}

error_code upload_rooms::start(const copy_operation& op) {
  if (op.copies.empty()) return {};
  if (auto failed = use_device(device_)) return failed;
  const slot_range range = range_of(op.copies);
  if (range.end - range.begin <= room_bytes) return start_in_room(op);
  for (const copy_op& copy : op.copies) {
    if (auto failed = start_split(op, copy)) return failed;
  }
  return {};
}

// Splits a copy that is larger than a room. Without a strided map, each part has whole elements.
// With a strided map, consecutive parts overlap by one byte less than an element, so that every
// element is completely in one of the parts.
error_code upload_rooms::start_split(const copy_operation& op, const copy_op& copy) {
  const bool is_mapped = copy.map != no_index;
  const std::uint32_t unit = is_mapped            ? op.maps[copy.map].element_bytes
                             : copy.cast.needed() ? copy.cast.from_bytes()
                                                  : 1;
  const auto most = static_cast<std::uint32_t>(is_mapped ? room_bytes : room_bytes / unit * unit);
  for (std::uint32_t done = 0; done < copy.bytes;) {
    copy_op part = copy;
    part.bytes = std::min(copy.bytes - done, most);
    part.slot_offset += done;
    if (is_mapped) {
      part.source_offset += done;
    } else {
      part.destination_offset += copy.cast.needed() ? done / unit * copy.cast.to_bytes() : done;
    }
    copy_operation one = op;
    one.copies = {&part, 1};
    if (auto failed = start_in_room(one)) return failed;
    done += part.bytes;
    if (is_mapped && done < copy.bytes) done -= unit - 1;
  }
  return {};
}

error_code upload_rooms::start_in_room(const copy_operation& op) {
  if (failed_) return failed_;
  const std::size_t room = std::exchange(next_room_, (next_room_ + 1) % rooms_count);
  auto failed = empty_room(room);
  if (!failed) failed = launch(op, room);
  if (failed && !failed_) failed_ = failed;
  return failed;
}

// Waits until the device has copied all bytes from the room.
error_code upload_rooms::empty_room(std::size_t room) {
  if (!running_[room]) return {};
  if (auto failed = ended_[room].wait()) return failed;
  running_[room] = false;
  return {};
}

error_code upload_rooms::launch(const copy_operation& op, std::size_t room) {
  const slot_range range = range_of(op.copies);
  std::memcpy(room_at(room), op.slot + range.begin, range.end - range.begin);
  copies_.assign(op.copies.begin(), op.copies.end());
  for (copy_op& copy : copies_) copy.slot_offset -= range.begin;
  copy_operation in_room = op;
  in_room.slot = room_at(room);
  in_room.copies = copies_;

  plan_transfer(in_room.copies, in_room.destinations, !no_kernels_, transfer_);
  boxes_.clear();
  add_boxes(in_room, transfer_.boxed, boxes_);
  if (!transfer_.staged.empty()) {
    if (no_kernels_) return no_kernels_;
    if (!std::exchange(has_staging_, true)) stream_.take_staging(room_bytes, log_);
  }
  // The event is recorded even after a failure, because earlier work still reads the room.
  running_[room] = true;
  auto failed = stream_.launch(in_room, transfer_, boxes_, pinned_->on_device(room_at(room)));
  const auto unrecorded = stream_.record(ended_[room]);
  return failed ? failed : unrecorded;
}

error_code upload_rooms::finish() {
  if (auto failed = use_device(device_); failed && !failed_) failed_ = failed;
  for (std::size_t room = 0; room < rooms_count; ++room) {
    if (auto failed = empty_room(room); failed && !failed_) failed_ = failed;
  }
  // After a failure, the events do not show whether the device still uses the rooms.
  if (failed_) (void)stream_.wait_out();
  return failed_;
}

result<std::unique_ptr<upload_rooms>> upload_pool::take(int device, error_code no_kernels,
                                                        const allocation_log& log) {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<upload_rooms> rooms = std::move(idle_.back());
      idle_.pop_back();
      return rooms;
    }
  }
  if (auto failed = use_device(device)) return fault{failed, ""};
  auto created = std::make_unique<upload_rooms>(device, no_kernels, log);
  if (auto failed = created->open()) return fault{failed, ""};
  return created;
}

void upload_pool::put(std::unique_ptr<upload_rooms> rooms) noexcept {
  if (!rooms->has_failed()) {
    try {
      const std::lock_guard lock(mutex_);
      idle_.reserve(idle_.size() + 1);
      idle_.push_back(std::move(rooms));
      return;
    } catch (const std::bad_alloc&) {
      // If there is no memory for the list, the object is destroyed below.
    }
  }
  const int device = rooms->device();
  destroy_later(device, std::move(rooms));
}

void upload_pool::clear(int device) noexcept {
  if (!idle_.empty()) destroy_later(device, std::exchange(idle_, {}));
}

}  // namespace ringload::inline v0::cuda
