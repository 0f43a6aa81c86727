// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decodes compressed streams, whose stored bytes arrive in pieces, in any order.
//
// The pieces of a stream are decoded in their own order, by one thread at a time. A thread that has
// decoded a piece goes on with the stream's next one if that is there: what the decoder looks back
// to is still in its processor's cache. For the same reason no more streams are decoded at once
// than there are processors. After a few pieces it is another stream's turn.

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "base/fault.hpp"
#include "base/work_interval.hpp"
#include "io/threads.hpp"

namespace ringload::inline v0::detail {

// Stored bytes of a stream. They stay where they are until they are decoded or given up.
struct stream_piece {
  stream_piece(std::uint64_t offset, std::span<const std::byte> stored, bool is_last,
               work_interval* to)
      : stream_offset(offset), bytes(stored), last(is_last), times(to) {}

  const std::uint64_t stream_offset;
  const std::span<const std::byte> bytes;
  const bool last;             // The stream ends with them.
  work_interval* const times;  // Or null.

  bool decoded = false;  // Else it was given up.
  result<void> outcome;  // Of what was decoded.

  // Of the decoders.
  std::shared_ptr<boost::asio::any_completion_handler<void()>> resume;
  stream_piece* next = nullptr;
};

// A stream of one load that is being decoded.
struct running_stream {
  // Decodes the next stored bytes; empty once the last piece is decoded.
  std::function<result<void>(std::span<const std::byte> bytes, bool last)> decode;

  // Of the decoders, guarded by their mutex.
  stream_piece* waiting = nullptr;  // What has arrived, by its offset.
  stream_piece* now = nullptr;      // What a thread decodes.
  std::uint64_t next_offset = 0;    // Where the next piece begins.
  bool queued = false;              // Waits for a thread.
  bool ended = false;               // Given up, or failed.
  running_stream* next = nullptr;   // Of the queue.
};

class decoders {
 public:
  // Resumes in `loop`, which outlives this. Throws `error` if a thread cannot be started. In traces
  // the threads have numbers from `first` on.
  decoders(boost::asio::io_context& loop, std::uint32_t threads, std::uint32_t first)
      : loop_(loop), idle_(threads), on_(threads, first) {}
  decoders(const decoders&) = delete;
  decoders& operator=(const decoders&) = delete;

  // ---- In the loop's thread ----

  // Completes when the piece has been decoded, for which all before it must have come, or when it
  // has been given up; then its bytes are not used any more. After a failure nothing of the stream
  // is decoded, and give_up() is to be called.
  boost::asio::awaitable<void> decode(running_stream& of, stream_piece& what);

  // Of the stream's pieces that no thread has begun with none is decoded. None may come from now
  // on.
  void give_up(running_stream& of);

 private:
  struct start;

  void add(running_stream& to, stream_piece& one);
  void run() noexcept;
  running_stream* take_stream();
  bool end_piece(running_stream& of, bool may_go_on);
  void enqueue(running_stream& one);  // With the mutex held.
  void resume(stream_piece& one);

  boost::asio::io_context& loop_;

  std::mutex mutex_;                 // Guards the next two.
  std::uint32_t idle_;               // Threads that have no stream.
  running_stream* queue_ = nullptr;  // Streams whose next piece is there, first in, first out.

  threads on_;  // Last: they use the others.
};

}  // namespace ringload::inline v0::detail
