// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decodes the compressed streams of loads in a thread pool. A stream is a range of stored bytes
// that must be decoded from beginning to end. Its bytes arrive in pieces, in any order.
//
// The pieces of a stream are decoded in stream order, by one thread at a time. If the next piece of
// the stream has arrived, the same thread decodes this piece too. The decoder's history (the last
// decoded bytes) is then still in the processor's cache. At most one thread per processor decodes,
// because a second thread would evict that history. After 4 pieces in a row, the thread appends the
// stream to the queue and takes another stream.

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

// A part of a stream's stored bytes. The caller must keep the bytes valid until decode() completes.
struct stream_piece {
  stream_piece(std::uint64_t offset, std::span<const std::byte> stored, bool is_last,
               work_interval* interval)
      : stream_offset(offset), bytes(stored), last(is_last), times(interval) {}

  const std::uint64_t stream_offset;
  const std::span<const std::byte> bytes;
  const bool last;             // True for the last piece of the stream.
  work_interval* const times;  // Records the time of the decoding. Null if the load is not traced.

  // False if the piece was dropped instead of decoded.
  bool decoded = false;
  result<void> outcome;  // Set when `decoded` is true.

  // Used by class `decoders` only.
  std::shared_ptr<boost::asio::any_completion_handler<void()>> resume;
  stream_piece* next = nullptr;
};

struct running_stream {
  // Decodes the next stored bytes. The function object is empty after the last piece was decoded.
  std::function<result<void>(std::span<const std::byte> bytes, bool last)> decode;

  // Used by class `decoders` only. Guarded by the mutex of that class.
  stream_piece* waiting = nullptr;  // Linked list of arrived pieces, sorted by offset.
  stream_piece* current = nullptr;  // The piece that a thread is decoding.
  std::uint64_t next_offset = 0;    // Stream offset of the next piece to decode.
  bool queued = false;              // True while the stream is in the queue.
  bool ended = false;               // True after a piece has failed or give_up() was called.
  running_stream* next = nullptr;   // Next stream in the queue.
};

class decoders {
 public:
  // Starts the threads. Coroutines are resumed in `loop`, which must outlive this object. In
  // traces, the numbers of the threads begin with `first_number`. Throws `error` if a thread cannot
  // start.
  decoders(boost::asio::io_context& loop, std::uint32_t threads, std::uint32_t first_number)
      : loop_(loop), idle_(threads), threads_(threads, first_number) {}
  decoders(const decoders&) = delete;
  decoders& operator=(const decoders&) = delete;

  // ---- Must be called in the thread of `loop` ----

  // Completes when the piece has been decoded or dropped. The bytes of the piece are not used
  // afterwards. A piece waits until all earlier pieces of the stream have been decoded. After a
  // failed piece, no further piece of the stream is decoded. The caller must then call give_up() to
  // complete the waiting pieces.
  boost::asio::awaitable<void> decode(running_stream& stream, stream_piece& piece);

  // Ends the stream. Completes the pieces that no thread has started. These pieces are not decoded.
  // No piece may be added afterwards.
  void give_up(running_stream& stream);

 private:
  struct start;

  void add(running_stream& stream, stream_piece& piece);
  void run() noexcept;
  running_stream* take_stream();
  bool end_piece(running_stream& stream, bool may_continue);
  void enqueue(running_stream& stream);
  void resume(stream_piece& piece);

  boost::asio::io_context& loop_;

  std::mutex mutex_;                 // Guards idle_ and queue_.
  std::uint32_t idle_;               // Number of threads that are not decoding.
  running_stream* queue_ = nullptr;  // FIFO queue of the streams whose next piece has arrived.

  // The last member, because its destructor joins the threads, which use the members above.
  threads threads_;
};

}  // namespace ringload::inline v0::detail
