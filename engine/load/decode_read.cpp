// SPDX-License-Identifier: Apache-2.0
#include "load/decode_read.hpp"

#include <boost/asio/post.hpp>
#include <semaphore>
#include <span>
#include <vector>

#include "base/retry_allocation.hpp"
#include "load/job.hpp"
#include "load/traced_step.hpp"
#include "runtime/decoders.hpp"
#include "runtime/engine.hpp"

namespace ringload::inline v0::detail {

namespace {

struct waited_copy final : copy_operation {
  std::binary_semaphore finished{0};
  boost::system::error_code failed;
};

boost::system::error_code copy_and_wait(engine& e, backend& by, const copy_operation& what) {
  if (by.copy_now(what)) return {};
  waited_copy op;
  static_cast<copy_operation&>(op) = what;
  op.done = [](copy_operation& self, boost::system::error_code failed) {
    auto& mine = static_cast<waited_copy&>(self);
    mine.failed = failed;
    mine.finished.release();
  };
  retry_allocation([&] { boost::asio::post(e.loop, [&] { by.start(op); }); });
  op.finished.acquire();
  return op.failed;
}

// Makes copies out of memory of the host and waits for them, in a thread that may block.
boost::system::error_code copy_and_wait(engine& e, const destinations& into,
                                        const copy_operation& what) {
  if (backend* const only = into.only()) return copy_and_wait(e, *only, what);
  std::vector<copy_op> order;
  boost::system::error_code failed;
  for (const destinations::share& one : into.shares(what.copies, order)) {
    if (!failed) failed = copy_and_wait(e, *one.by, one.of(what));
  }
  return failed;
}

copy_operation copies_into(engine& e, const destinations& into, std::span<const strided_map> maps) {
  copy_operation what;
  what.destinations = into.memory();
  what.maps = maps;
  what.threads = e.copy_threads->get_executor();
  return what;
}

boost::asio::awaitable<void> feed_stream(engine& e, job& of, feed_op what, std::uint32_t slot,
                                         result<void>& outcome) {
  traced_step step(of.options(), load_step::decoded, slot);
  const stream_state::copier copy = [&e, &of](const std::byte* from,
                                              std::span<const copy_op> copies) {
    copy_operation op = copies_into(e, of.into(), of.maps());
    op.slot = from;
    op.copies = copies;
    return copy_and_wait(e, of.into(), op);
  };
  running_stream& one = of.stream(what.stream, copy);
  stream_piece piece(what.stream_offset, e.staging.at(slot).subspan(what.slot_offset, what.bytes),
                     of.ends_stream(what), step.times());
  co_await e.stream_decoders->decode(one, piece);
  if (!piece.decoded) co_return;
  of.begin_writing();
  step.of_stream(what.stream);
  step.end(of.first_tensor_of_stream(what.stream), what.bytes);
  if (!piece.outcome) {
    outcome = piece.outcome.error().in(of.stream_place(what.stream));
    co_return;
  }
  if (piece.last) of.stream_decoded(what.stream);
}

}  // namespace

boost::asio::awaitable<void> feed_streams(engine& e, job& of, const read_op& read,
                                          std::uint32_t slot, result<void>& outcome) {
  const std::span<const feed_op> feeds = of.feeds(read);
  for (std::size_t i = 0; i < feeds.size() && outcome && !of.stopped(); ++i) {
    co_await feed_stream(e, of, feeds[i], slot, outcome);
  }
}

result<void> place_unread(engine& e, opened_load& work) {
  const plan& made = work.plan;
  fill_state* const fill = work.fill ? &*work.fill : nullptr;
  copy_operation op = copies_into(e, work.into, made.maps);
  const auto place = [&](const copy_op& one, const std::byte* from,
                         std::uint32_t tensor) -> result<void> {
    op.slot = from;
    op.copies = {&one, 1};
    if (fill != nullptr) fill->writing = true;
    if (const auto failed = copy_and_wait(e, work.into, op)) {
      return fault{failed, work.named->catalog().tensors[tensor].name};
    }
    return {};
  };
  for (const fill_op& each : made.fills) {
    copy_op one = {};
    one.destination = each.destination;
    one.destination_offset = each.destination_offset;
    one.bytes = each.value_bytes;
    one.map = each.map;
    auto good = place(one, made.fill_values.data() + each.value, each.tensor);
    if (!good) return good.error();
  }
  for (const stream_output& each : made.outputs) {
    const auto& bytes = work.streams[made.streams[each.stream].stream].stored->in_memory;
    if (bytes == nullptr) continue;
    copy_op one = {};
    one.destination = each.destination;
    one.destination_offset = each.destination_offset;
    one.bytes = static_cast<std::uint32_t>(each.bytes);
    one.map = each.map;
    one.cast = each.cast;
    auto good = place(one, bytes->data() + each.stream_offset, each.tensor);
    if (!good) return good.error();
  }
  return {};
}

}  // namespace ringload::inline v0::detail
