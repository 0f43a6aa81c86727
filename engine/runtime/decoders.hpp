// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decodes compressed streams, whose stored bytes arrive in pieces, in any order.
//
// The pieces of a stream are decoded in stream order, by one thread at a time. A thread that has
// decoded a piece decodes the next piece of the same stream if the piece has arrived: the decoder's
// history is still in the processor's cache. For the same reason the number of streams that are
// decoded at once does not exceed the number of processors. After a few pieces the thread takes
// another stream.

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

// Stored bytes of a stream. The bytes must stay in place until they are decoded or dropped.
struct stream_piece {
  stream_piece(std::uint64_t offset, std::span<const std::byte> stored, bool is_last,
               work_interval* interval)
      : stream_offset(offset), bytes(stored), last(is_last), times(interval) {}

  const std::uint64_t stream_offset;
  const std::span<const std::byte> bytes;
  const bool last;             // The stream ends with this piece.
  work_interval* const times;  // Null: not traced.

  bool decoded = false;  // False after completion: dropped.
  result<void> outcome;  // Result of decoding.

  // Used by the decoders only.
  std::shared_ptr<boost::asio::any_completion_handler<void()>> resume;
  stream_piece* next = nullptr;
};

// A stream of one load that is being decoded.
struct running_stream {
  // Decodes the next stored bytes; empty once the last piece is decoded.
  std::function<result<void>(std::span<const std::byte> bytes, bool last)> decode;

  // Used by the decoders only, guarded by their mutex.
  stream_piece* waiting = nullptr;  // Arrived pieces, sorted by offset.
  stream_piece* current = nullptr;  // Piece that a thread decodes.
  std::uint64_t next_offset = 0;    // Stream offset of the next piece.
  bool queued = false;              // Waits for a thread.
  bool ended = false;               // Dropped, or failed.
  running_stream* next = nullptr;   // Next stream of the queue.
};

class decoders {
 public:
  // Coroutines are resumed in `loop`, which must outlive the decoders. Throws `error` if a thread
  // cannot be started. Traces number the threads from `first` on.
  decoders(boost::asio::io_context& loop, std::uint32_t threads, std::uint32_t first)
      : loop_(loop), idle_(threads), threads_(threads, first) {}
  decoders(const decoders&) = delete;
  decoders& operator=(const decoders&) = delete;

  // ---- Thread of the loop ----

  // Completes when the piece has been decoded or dropped. Its bytes are not used afterwards. A
  // piece is decoded only after all earlier pieces have arrived. After a failure no piece of the
  // stream is decoded, and the caller must call give_up().
  boost::asio::awaitable<void> decode(running_stream& stream, stream_piece& piece);

  // Drops the pieces that no thread has started. No piece may be added afterwards.
  void give_up(running_stream& stream);

 private:
  struct start;

  void add(running_stream& stream, stream_piece& piece);
  void run() noexcept;
  running_stream* take_stream();
  bool end_piece(running_stream& stream, bool may_continue);
  void enqueue(running_stream& stream);  // The mutex must be held.
  void resume(stream_piece& piece);

  boost::asio::io_context& loop_;

  std::mutex mutex_;                 // Guards the next two.
  std::uint32_t idle_;               // Threads without a stream.
  running_stream* queue_ = nullptr;  // FIFO of the streams whose next piece has arrived.

  threads threads_;  // Last member: the threads use the members above.
};

}  // namespace ringload::inline v0::detail
