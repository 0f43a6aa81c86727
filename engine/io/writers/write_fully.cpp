// SPDX-License-Identifier: Apache-2.0

#include "io/writers/write_fully.hpp"

#include <cerrno>
#include <optional>
#include <utility>

#include "base/checked.hpp"
#include "base/io_unit.hpp"
#include "io/io_cursor.hpp"

namespace ringload::inline v0 {

bool can_be_direct(const written_file& file, std::uint64_t file_offset,
                   std::uint32_t bytes) noexcept {
  return file.direct && file.direct_refusal.empty() && file_offset % block_bytes == 0 &&
         bytes % block_bytes == 0;
}

boost::asio::awaitable<void> write_fully(write_queues queues, written_file& to,
                                         const file_block& extent, bool direct,
                                         const std::atomic<bool>& stop, write_outcome& written) {
  io_cursor cursor = io_cursor::write(extent.file_offset, extent.bytes, direct ? block_bytes : 1);
  std::optional<io_cursor::step> remaining = cursor.first();
  write_outcome outcome;
  outcome.direct = direct;
  fault object_failed;
  while (remaining && !stop) {
    io_request request;
    request.is_write = true;
    request.fd = outcome.direct ? to.direct.get() : to.buffered.get();
    request.direct = outcome.direct;
    request.bytes = remaining->bytes;
    request.file_offset = remaining->file_offset;
    request.memory = const_cast<std::byte*>(extent.memory) + remaining->memory_offset;
    request.registered_buffer = extent.registered_buffer;
    request.target = to.object.get();
    request.object_failed = &object_failed;
    io_queue& queue = to.object ? queues.objects : outcome.direct ? queues.direct : queues.buffered;
    const int res = co_await await_io(queue, request);
    auto next = cursor.completed(res);
    if (next) {
      remaining = *next;
    } else if (outcome.direct && remaining->memory_offset == 0 && res == -EINVAL) {
      to.direct_refusal = message_of(next.error()) + ", for a direct write";
      outcome.direct = false;
      cursor = io_cursor::write(extent.file_offset, extent.bytes, 1);
      remaining = cursor.first();
    } else {
      const fault cause = object_failed.code ? object_failed : next.error();
      outcome.status = to.object ? cause.in(to.place)
                                 : cause.in(to.place + ": byte " + grouped(remaining->file_offset));
      break;
    }
  }
  outcome.is_complete = !remaining;
  written = std::move(outcome);
}

}  // namespace ringload::inline v0
