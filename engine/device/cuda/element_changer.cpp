// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/element_changer.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "base/retry_allocation.hpp"
#include "device/cuda/delta_kernels.hpp"

namespace ringload::inline v0::cuda {

using boost::system::error_code;

static_assert(change_piece::tile_elements == element_change::tile_elements);

struct element_changer::slice {
  std::uint64_t first_tile;
  std::uint64_t tiles_end;
  std::uint64_t first_value;
  std::uint64_t values;

  std::uint64_t tiles() const noexcept { return tiles_end - first_tile; }
};

namespace {

std::uint64_t first_value_of(const element_change& change, std::uint64_t tile) noexcept {
  if (!change.tile_begins.empty()) return change.tile_begins[tile];
  return std::min(tile * element_change::tile_elements, change.elements());
}

bool is_sparse(const element_change& change) noexcept { return !change.tile_begins.empty(); }

std::uint64_t header_bytes(const element_change& change, std::uint64_t tiles,
                           std::uint64_t values) noexcept {
  return is_sparse(change) ? offset_of_planes(tiles, values) : 0;
}

error_code upload_bytes(uploader& upload, std::span<const std::byte> from, std::byte* to) {
  if (from.empty()) return {};
  const std::array<std::byte*, 1> destinations = {to};
  const copy_op whole = {
      .destination_offset = 0, .slot_offset = 0, .bytes = static_cast<std::uint32_t>(from.size())};
  copy_operation copy;
  copy.slot = from.data();
  copy.copies = {&whole, 1};
  copy.destinations = destinations;
  return upload.start(copy);
}

}  // namespace

element_changer::element_changer() noexcept : join_chunk_(sum_piece::chunk_bytes) {}

error_code element_changer::open(const allocation_log& log) {
  if (auto failed = end_.make()) return failed;
  if (auto failed = stream_.open()) return failed;
  return buffer_.take(buffer_bytes, log);
}

error_code element_changer::finish(error_code failed) {
  if (!failed) failed = end_.record(stream_.get());
  if (!failed) failed = end_.wait();
  // After a failure, work that was launched earlier may still be running.
  if (failed) (void)code_of(cudaStreamSynchronize(stream_.get()));
  return failed;
}

error_code element_changer::upload_slice(const element_change& change, const slice& tiles,
                                         uploader& upload) {
  error_code failed;
  if (is_sparse(change)) {
    begins_.clear();
    for (std::uint64_t t = tiles.first_tile; t <= tiles.tiles_end; ++t) {
      begins_.push_back(static_cast<std::uint32_t>(change.tile_begins[t] - tiles.first_value));
    }
    failed = upload_bytes(upload, std::as_bytes(std::span(begins_)), buffer_.data());
    const auto positions = change.positions.subspan(tiles.first_value, tiles.values);
    if (!failed) {
      failed = upload_bytes(upload, std::as_bytes(positions),
                            buffer_.data() + offset_of_positions(tiles.tiles()));
    }
  }
  std::byte* plane = buffer_.data() + header_bytes(change, tiles.tiles(), tiles.values);
  for (std::uint32_t i = 0; i < change.width && !failed; ++i) {
    const auto values =
        change.planes.subspan(i * change.changed() + tiles.first_value, tiles.values);
    failed = upload_bytes(upload, values, plane);
    plane += tiles.values;
  }
  const error_code unfinished = upload.finish();
  return failed ? failed : unfinished;
}

error_code element_changer::change_slice(const element_change& change, const slice& tiles,
                                         uploader& upload, bool& is_changed) {
  is_changed = false;
  if (tiles.values == 0) {
    is_changed = true;
    return {};
  }
  if (auto failed = upload_slice(change, tiles, upload)) return failed;
  const std::uint64_t first_element = tiles.first_tile * element_change::tile_elements;
  change_piece piece = {};
  piece.from = buffer_.data();
  piece.to = change.memory.data() + first_element * change.width;
  piece.elements =
      std::min(change.elements() - first_element, tiles.tiles() * element_change::tile_elements);
  piece.values = tiles.values;
  piece.width = static_cast<std::uint8_t>(change.width);
  piece.sparse = is_sparse(change) ? 1 : 0;
  auto failed = code_of(launch_change(piece, stream_.get()));
  is_changed = !failed;
  return finish(failed);
}

error_code element_changer::change(const element_change& change, std::uint64_t tiles_end,
                                   uploader& upload, std::uint64_t& tiles_changed) {
  tiles_changed = 0;
  if (change.before != nullptr) {
    const auto failed =
        code_of(cudaMemcpyAsync(change.memory.data(), change.before, change.memory.size(),
                                cudaMemcpyDeviceToDevice, stream_.get()));
    if (auto unfinished = finish(failed)) return unfinished;
  }
  while (tiles_changed < tiles_end) {
    slice next = {tiles_changed, tiles_changed, first_value_of(change, tiles_changed), 0};
    while (next.tiles_end < tiles_end) {
      const std::uint64_t values = first_value_of(change, next.tiles_end + 1) - next.first_value;
      const std::uint64_t bytes =
          header_bytes(change, next.tiles() + 1, values) + values * change.width;
      if (bytes > buffer_bytes) break;
      ++next.tiles_end;
      next.values = values;
    }
    bool is_changed = false;
    const auto failed = change_slice(change, next, upload, is_changed);
    if (is_changed) tiles_changed = next.tiles_end;
    if (failed) return failed;
  }
  return {};
}

error_code element_changer::sum(std::span<const std::byte> bytes, read_back_pool& readers,
                                std::uint32_t& crc) {
  constexpr std::uint64_t slice_bytes =
      buffer_bytes / sizeof(std::uint32_t) * sum_piece::chunk_bytes;
  crc = 0;
  for (std::uint64_t offset = 0; offset < bytes.size(); offset += slice_bytes) {
    const auto part =
        bytes.subspan(offset, std::min<std::uint64_t>(slice_bytes, bytes.size() - offset));
    const sum_piece piece = {part.data(), buffer_.data(), part.size()};
    if (auto failed = finish(code_of(launch_sum(piece, stream_.get())))) return failed;
    chunk_crcs_.resize(chunks_of(part.size()));
    const auto into = std::as_writable_bytes(std::span(chunk_crcs_));
    if (auto failed = readers.copy(buffer_.data(), into)) return failed;
    const std::uint64_t last_bytes =
        part.size() - (chunk_crcs_.size() - 1) * sum_piece::chunk_bytes;
    for (std::size_t i = 0; i + 1 < chunk_crcs_.size(); ++i) crc = join_chunk_(crc, chunk_crcs_[i]);
    crc = join_crc32c(crc, chunk_crcs_.back(), last_bytes);
  }
  return {};
}

result<bool> shared_element_changer::open(int device, const allocation_log& log) {
  if (auto failed = use_device(device)) return fault{failed, name_of(device)};
  if (changer_) return true;
  auto opened = std::make_unique<element_changer>();
  const auto failed = opened->open(log);
  if (failed.value() == cudaErrorMemoryAllocation) return false;
  if (failed) return fault{failed, name_of(device)};
  changer_ = std::move(opened);
  return true;
}

error_code shared_element_changer::change_tiles(int device, const element_change& change,
                                                std::uint64_t tiles_end, upload_pool& uploaders,
                                                const allocation_log& log,
                                                std::uint64_t& tiles_changed) {
  auto taken = uploaders.take(device, {}, log);
  if (!taken) return taken.error().code;
  error_code failed;
  try {
    failed = changer_->change(change, tiles_end, **taken, tiles_changed);
  } catch (const std::bad_alloc&) {
    failed = errc::memory_exceeded;
    (void)(*taken)->finish();
  }
  uploaders.put(std::move(*taken));
  return failed;
}

result<bool> shared_element_changer::change(int device, const element_change& change,
                                            upload_pool& uploaders, const allocation_log& log) {
  const std::lock_guard lock(mutex_);
  auto opened = open(device, log);
  if (!opened || !*opened) return opened;
  std::uint64_t tiles_changed = 0;
  const auto failed = change_tiles(device, change, change.tiles(), uploaders, log, tiles_changed);
  if (!failed) return true;
  if (tiles_changed > 0 && change.before == nullptr) {
    // The change is an XOR, so the same values restore the old elements.
    std::uint64_t tiles_restored = 0;
    const auto lost = retry_allocation([&] {
      return change_tiles(device, change, tiles_changed, uploaders, log, tiles_restored);
    });
    if (lost) {
      return fault{errc::not_restored, name_of(device) + ": restoring elements", lost.message()};
    }
  }
  return fault{failed, name_of(device) + ": changing elements"};
}

result<std::optional<std::uint32_t>> shared_element_changer::crc32c_of(
    int device, std::span<const std::byte> bytes, read_back_pool& readers,
    const allocation_log& log) {
  const std::lock_guard lock(mutex_);
  const auto opened = open(device, log);
  if (!opened) return opened.error();
  if (!*opened) return std::optional<std::uint32_t>();
  std::uint32_t crc = 0;
  if (auto failed = changer_->sum(bytes, readers, crc)) {
    return fault{failed, name_of(device) + ": computing a CRC-32C"};
  }
  return std::optional<std::uint32_t>(crc);
}

}  // namespace ringload::inline v0::cuda
