// SPDX-License-Identifier: Apache-2.0

#include "runtime/decoders.hpp"

#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "base/retry_allocation.hpp"
#include "runtime/resume_in.hpp"

namespace ringload::inline v0::detail {

namespace {

// After this number of pieces, a thread takes another stream.
constexpr unsigned pieces_in_a_row = 4;

void decode_now(const running_stream& stream, stream_piece& piece) noexcept {
  if (piece.times) piece.times->record_begin();
  piece.outcome = catch_as_fault([&] { return stream.decode(piece.bytes, piece.last); });
  piece.decoded = true;
  if (piece.times) piece.times->record_end();
}

bool has_next(const running_stream& stream) noexcept {
  return !stream.ended && stream.waiting != nullptr &&
         stream.waiting->stream_offset == stream.next_offset;
}

stream_piece* take_next(running_stream& stream) noexcept {
  return std::exchange(stream.waiting, stream.waiting->next);
}

// Searches a linked list for the first element for which `stop` returns true. Returns the address
// of the pointer to this element, or the address of the last pointer, which is null.
template <class T, class Stop>
T** find_place(T*& first, const Stop& stop) noexcept {
  T** link = &first;
  while (*link != nullptr && !stop(**link)) link = &(*link)->next;
  return link;
}

}  // namespace

struct decoders::start {
  template <class Handler>
  void operator()(Handler&& handler, decoders* pool, running_stream* stream,
                  stream_piece* piece) const {
    auto erased = retry_allocation([&] {
      return boost::asio::any_completion_handler<void()>(std::forward<Handler>(handler));
    });
    piece->resume = keep_handler(std::move(erased));
    pool->add(*stream, *piece);
  }
};

boost::asio::awaitable<void> decoders::decode(running_stream& stream, stream_piece& piece) {
  return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void()>(
      start(), boost::asio::use_awaitable, this, &stream, &piece);
}

void decoders::add(running_stream& stream, stream_piece& piece) {
  {
    const std::scoped_lock lock(mutex_);
    stream_piece** const link = find_place(stream.waiting, [&](const stream_piece& waiting) {
      return waiting.stream_offset > piece.stream_offset;
    });
    piece.next = std::exchange(*link, &piece);
    if (stream.current != nullptr || stream.queued || !has_next(stream)) return;
    enqueue(stream);
    if (idle_ == 0) return;
    --idle_;
  }
  retry_allocation([&] { boost::asio::post(threads_.get_executor(), [this] { run(); }); });
}

void decoders::run() noexcept {
  while (running_stream* const stream = take_stream()) {
    bool more = true;
    for (unsigned left = pieces_in_a_row; more; --left) {
      stream_piece& piece = *stream->current;
      decode_now(*stream, piece);
      more = end_piece(*stream, left > 1);
      // If `more` is false, `stream` must not be used after this call, because the resumed
      // coroutine may destroy the stream.
      resume(piece);
    }
  }
}

running_stream* decoders::take_stream() {
  const std::scoped_lock lock(mutex_);
  if (queue_ == nullptr) {
    ++idle_;
    return nullptr;
  }
  running_stream* const stream = std::exchange(queue_, queue_->next);
  stream->queued = false;
  stream->current = take_next(*stream);
  return stream;
}

bool decoders::end_piece(running_stream& stream, bool may_continue) {
  const std::scoped_lock lock(mutex_);
  const stream_piece& ended = *std::exchange(stream.current, nullptr);
  stream.next_offset = ended.stream_offset + ended.bytes.size();
  stream.ended = stream.ended || !ended.outcome;
  if (!has_next(stream)) return false;
  if (may_continue) {
    stream.current = take_next(stream);
  } else {
    enqueue(stream);
  }
  return may_continue;
}

void decoders::enqueue(running_stream& stream) {
  stream.queued = true;
  stream.next = nullptr;
  *find_place(queue_, [](const running_stream&) { return false; }) = &stream;
}

void decoders::give_up(running_stream& stream) {
  stream_piece* given_up = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    stream.ended = true;
    if (std::exchange(stream.queued, false)) {
      *find_place(queue_, [&](const running_stream& candidate) { return &candidate == &stream; }) =
          stream.next;
    }
    given_up = std::exchange(stream.waiting, nullptr);
  }
  while (given_up != nullptr) resume(*std::exchange(given_up, given_up->next));
}

// The waiting coroutine owns `piece`. The piece may be destroyed after this call.
void decoders::resume(stream_piece& piece) { resume_in(loop_, piece.resume); }

}  // namespace ringload::inline v0::detail
