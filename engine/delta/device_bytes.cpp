// SPDX-License-Identifier: Apache-2.0

#include "delta/device_bytes.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <ringload/verify.hpp>

namespace ringload::inline v0::detail {

namespace {

// The size of the host buffer through which bytes of a device are copied or summed.
constexpr std::size_t buffer_bytes = std::size_t{4} << 20;
// The largest number of bytes of one copy, which copy_op stores in 32 bits.
constexpr std::size_t copy_bytes_max = std::size_t{1} << 30;

// Calls `visit(offset, buffer)` for consecutive pieces of `bytes` bytes. Stops at a failure.
template <class Visit>
result<void> visit_pieces(std::size_t bytes, const Visit& visit) {
  const std::size_t size = std::min(bytes, buffer_bytes);
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(size);
  for (std::size_t offset = 0; offset < bytes; offset += size) {
    const std::span<std::byte> piece(buffer.get(), std::min(size, bytes - offset));
    if (auto visited = visit(offset, piece); !visited) return visited;
  }
  return {};
}

}  // namespace

result<void> device_bytes::read(std::span<const std::byte> from, std::span<std::byte> into) const {
  if (into.empty()) return {};
  return owner_.copy_to_host(from.data(), into);
}

result<void> device_bytes::write(std::span<const std::byte> from, std::span<std::byte> into) const {
  if (into.empty()) return {};
  if (is_host_) {
    std::memcpy(into.data(), from.data(), into.size());
    return {};
  }
  auto taken = owner_.take_uploader();
  if (!taken) return taken.error();
  const std::array<std::byte*, 1> destinations = {into.data()};
  boost::system::error_code failed;
  const auto start = [&](std::size_t offset) {
    const std::size_t bytes = std::min(copy_bytes_max, from.size() - offset);
    const copy_op piece = {
        .destination_offset = offset, .slot_offset = 0, .bytes = static_cast<std::uint32_t>(bytes)};
    copy_operation copy;
    copy.slot = from.data() + offset;
    copy.copies = {&piece, 1};
    copy.destinations = destinations;
    return (*taken)->start(copy);
  };
  try {
    for (std::size_t offset = 0; offset < from.size() && !failed; offset += copy_bytes_max) {
      failed = start(offset);
    }
  } catch (const std::bad_alloc&) {
    // Earlier copies may still run, so the uploader must finish before it is returned.
    (void)(*taken)->finish();
    owner_.return_uploader(std::move(*taken));
    throw;
  }
  const boost::system::error_code unfinished = (*taken)->finish();
  owner_.return_uploader(std::move(*taken));
  if (!failed) failed = unfinished;
  if (failed) return fault{failed, on_.name() + ": copying to the device"};
  return {};
}

result<void> device_bytes::copy(std::span<const std::byte> from, std::span<std::byte> into) const {
  if (is_host_) return write(from, into);
  return visit_pieces(from.size(), [&](std::size_t offset, std::span<std::byte> piece) {
    auto copied = read(from.subspan(offset, piece.size()), piece);
    return copied ? write(piece, into.subspan(offset, piece.size())) : copied;
  });
}

result<bool> device_bytes::change(std::span<const std::byte> before, std::span<std::byte> after,
                                  const change_view& change) const {
  if (is_host_ || change.changed() > std::numeric_limits<std::uint32_t>::max()) return false;
  element_change on_device;
  on_device.memory = after;
  on_device.width = change.width;
  if (before.data() != after.data()) on_device.before = before.data();
  on_device.planes = change.planes;
  tiled_positions tiled;
  if (change.is_sparse) {
    tiled = positions_in_tiles(change, element_change::tile_elements);
    on_device.positions = tiled.positions;
    on_device.tile_begins = tiled.tile_begins;
  }
  return owner_.change_elements(on_device);
}

result<std::uint32_t> device_bytes::crc32c_of(std::span<const std::byte> bytes) const {
  if (is_host_) return crc32c(bytes);
  const auto on_device = owner_.crc32c_of(bytes);
  if (!on_device) return on_device.error();
  if (*on_device) return **on_device;
  std::uint32_t crc = 0;
  const auto summed =
      visit_pieces(bytes.size(), [&](std::size_t offset, std::span<std::byte> piece) {
        auto copied = read(bytes.subspan(offset, piece.size()), piece);
        if (copied) crc = crc32c(piece, crc);
        return copied;
      });
  if (!summed) return summed.error();
  return crc;
}

}  // namespace ringload::inline v0::detail
