// SPDX-License-Identifier: Apache-2.0
#include "io/writers/write_fully.hpp"

#include <cerrno>

#include "base/checked.hpp"
#include "base/io_unit.hpp"
#include "io/writers/pool_writer.hpp"
#include "io/writers/ring_writer.hpp"
#include "io/writers/write_cursor.hpp"

namespace ringload::inline v0 {

block_writers make_block_writers(boost::asio::io_context& loop, ring* io_ring, threads& pool) {
  block_writers writers;
  if (io_ring != nullptr) {
    writers.direct = std::make_unique<ring_writer>(*io_ring);
  } else {
    writers.direct = std::make_unique<pool_writer>(loop, pool);
  }
  writers.buffered = std::make_unique<pool_writer>(loop, pool);
  return writers;
}

bool can_be_direct(const written_file& file, std::uint64_t file_offset,
                   std::uint32_t bytes) noexcept {
  return file.direct && file.direct_refusal.empty() && file_offset % block_bytes == 0 &&
         bytes % block_bytes == 0;
}

boost::asio::awaitable<void> write_fully(block_writers& writers, written_file& to,
                                         const block_of_file& extent, bool direct,
                                         const std::atomic<bool>& stop, write_end& end) {
  write_cursor cursor(extent.bytes, direct ? block_bytes : 1);
  end = {};
  end.direct = direct;
  while (!end.whole && !stop) {
    const std::uint32_t written = cursor.written();
    write_request next;
    next.fd = end.direct ? to.direct.get() : to.buffered.get();
    next.direct = end.direct;
    next.bytes = extent.bytes - written;
    next.file_offset = extent.file_offset + written;
    next.from = extent.from + written;
    next.registered_buffer = extent.registered_buffer;
    const int res = co_await write(end.direct ? *writers.direct : *writers.buffered, next);
    auto complete = cursor.completed(res);
    if (complete) {
      end.whole = *complete;
    } else if (end.direct && written == 0 && res == -EINVAL) {
      to.direct_refusal = message_of(complete.error()) + ", for a direct write";
      end.direct = false;
      cursor = write_cursor(extent.bytes, 1);
    } else {
      end.outcome = complete.error().in(to.place + ": byte " + grouped(next.file_offset));
      break;
    }
  }
}

}  // namespace ringload::inline v0
