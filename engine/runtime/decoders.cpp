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

// Pieces of a stream that a thread decodes before it is another's turn.
constexpr unsigned pieces_in_a_row = 4;

void decode_now(const running_stream& stream, stream_piece& one) noexcept {
  if (one.times) one.times->begins();
  one.outcome = catch_as_fault([&] { return stream.decode(one.bytes, one.last); });
  one.decoded = true;
  if (one.times) one.times->ends();
}

bool has_next(const running_stream& one) noexcept {
  return !one.ended && one.waiting != nullptr && one.waiting->stream_offset == one.next_offset;
}

stream_piece* take_next(running_stream& from) noexcept {
  return std::exchange(from.waiting, from.waiting->next);
}

// In a list that is linked by `next`: the place of the first that `stop` is true for, or the end.
template <class T, class Stop>
T** find_place(T*& first, const Stop& stop) noexcept {
  T** at = &first;
  while (*at != nullptr && !stop(**at)) at = &(*at)->next;
  return at;
}

}  // namespace

struct decoders::start {
  template <class Handler>
  void operator()(Handler&& handler, decoders* by, running_stream* to, stream_piece* what) const {
    auto erased = retry_allocation([&] {
      return boost::asio::any_completion_handler<void()>(std::forward<Handler>(handler));
    });
    what->resume = keep_handler(std::move(erased));
    by->add(*to, *what);
  }
};

boost::asio::awaitable<void> decoders::decode(running_stream& of, stream_piece& what) {
  return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void()>(
      start(), boost::asio::use_awaitable, this, &of, &what);
}

void decoders::add(running_stream& to, stream_piece& one) {
  {
    const std::scoped_lock lock(mutex_);
    stream_piece** const at = find_place(to.waiting, [&](const stream_piece& other) {
      return other.stream_offset > one.stream_offset;
    });
    one.next = std::exchange(*at, &one);
    if (to.now != nullptr || to.queued || !has_next(to)) return;
    enqueue(to);
    if (idle_ == 0) return;
    --idle_;
  }
  retry_allocation([&] { boost::asio::post(on_.get_executor(), [this] { run(); }); });
}

void decoders::run() noexcept {
  while (running_stream* const one = take_stream()) {
    bool more = true;
    for (unsigned left = pieces_in_a_row; more; --left) {
      stream_piece& piece = *one->now;
      decode_now(*one, piece);
      more = end_piece(*one, left > 1);
      // After this the stream may be gone, unless another piece of it waits.
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
  running_stream* const one = std::exchange(queue_, queue_->next);
  one->queued = false;
  one->now = take_next(*one);
  return one;
}

bool decoders::end_piece(running_stream& of, bool may_go_on) {
  const std::scoped_lock lock(mutex_);
  const stream_piece& ended = *std::exchange(of.now, nullptr);
  of.next_offset = ended.stream_offset + ended.bytes.size();
  of.ended = of.ended || !ended.outcome;
  if (!has_next(of)) return false;
  if (may_go_on) {
    of.now = take_next(of);
  } else {
    enqueue(of);
  }
  return may_go_on;
}

void decoders::enqueue(running_stream& one) {
  one.queued = true;
  one.next = nullptr;
  *find_place(queue_, [](const running_stream&) { return false; }) = &one;
}

void decoders::give_up(running_stream& of) {
  stream_piece* given_up = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    of.ended = true;
    if (std::exchange(of.queued, false)) {
      *find_place(queue_, [&](const running_stream& other) { return &other == &of; }) = of.next;
    }
    given_up = std::exchange(of.waiting, nullptr);
  }
  while (given_up != nullptr) resume(*std::exchange(given_up, given_up->next));
}

// The coroutine that waits owns the piece.
void decoders::resume(stream_piece& one) { resume_in(loop_, one.resume); }

}  // namespace ringload::inline v0::detail
