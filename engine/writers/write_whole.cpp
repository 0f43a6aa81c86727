// SPDX-License-Identifier: Apache-2.0
#include "writers/write_whole.hpp"

#include <cerrno>

#include "core/block.hpp"
#include "core/checked.hpp"
#include "writers/pool_writer.hpp"
#include "writers/ring_writer.hpp"
#include "writers/write_cursor.hpp"

namespace ringload::inline v0 {

block_writers make_block_writers(boost::asio::io_context& loop, ring* by, threads& pool) {
  block_writers made;
  if (by != nullptr) {
    made.direct = std::make_unique<ring_writer>(*by);
  } else {
    made.direct = std::make_unique<pool_writer>(loop, pool);
  }
  made.buffered = std::make_unique<pool_writer>(loop, pool);
  return made;
}

bool can_be_direct(const written_file& file, std::uint64_t file_offset,
                   std::uint32_t bytes) noexcept {
  return file.direct && file.direct_refusal.empty() && file_offset % block_bytes == 0 &&
         bytes % block_bytes == 0;
}

boost::asio::awaitable<void> write_whole(block_writers& with, written_file& to,
                                         const block_of_file& what, bool direct,
                                         const std::atomic<bool>& stop, write_end& end) {
  write_cursor cursor(what.bytes, direct ? block_bytes : 1);
  end = {};
  end.direct = direct;
  while (!end.whole && !stop) {
    const std::uint32_t written = cursor.written();
    write_request next;
    next.fd = end.direct ? to.direct.get() : to.buffered.get();
    next.direct = end.direct;
    next.bytes = what.bytes - written;
    next.file_offset = what.file_offset + written;
    next.from = what.from + written;
    next.registered_buffer = what.registered_buffer;
    const int res = co_await write(end.direct ? *with.direct : *with.buffered, next);
    auto all = cursor.completed(res);
    if (all) {
      end.whole = *all;
    } else if (end.direct && written == 0 && res == -EINVAL) {
      to.direct_refusal = message_of(all.error()) + ", for a direct write";
      end.direct = false;
      cursor = write_cursor(what.bytes, 1);
    } else {
      end.outcome = all.error().in(to.place + ": byte " + grouped(next.file_offset));
      break;
    }
  }
}

}  // namespace ringload::inline v0
