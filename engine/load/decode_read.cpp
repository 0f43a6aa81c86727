// SPDX-License-Identifier: Apache-2.0
#include "load/decode_read.hpp"

#include <span>
#include <vector>

#include "base/printable.hpp"
#include "load/job.hpp"
#include "load/traced_step.hpp"
#include "load/upload.hpp"
#include "runtime/decoders.hpp"
#include "runtime/engine.hpp"

namespace ringload::inline v0::detail {

namespace {

boost::asio::awaitable<void> feed_stream(engine& e, job& load, feed_op feed, std::uint32_t slot,
                                         result<void>& outcome) {
  traced_step step(load.options(), load_step::decoded, slot);
  running_stream& stream = load.stream(feed.stream);
  stream_piece piece(feed.stream_offset,
                     e.staging.memory(slot).subspan(feed.slot_offset, feed.bytes),
                     load.ends_stream(feed), step.times());
  co_await e.stream_decoders->decode(stream, piece);
  if (!piece.decoded) co_return;
  load.begin_writing();
  step.set_stream(feed.stream);
  step.end(load.first_tensor_of_stream(feed.stream), feed.bytes);
  if (!piece.outcome) {
    outcome = piece.outcome.error().in(load.stream_place(feed.stream));
    co_return;
  }
  if (piece.last) load.stream_decoded(feed.stream);
}

}  // namespace

boost::asio::awaitable<void> feed_streams(engine& e, job& load, const read_op& read,
                                          std::uint32_t slot, result<void>& outcome) {
  const std::span<const feed_op> feeds = load.feeds(read);
  for (std::size_t i = 0; i < feeds.size() && outcome && !load.stopped(); ++i) {
    co_await feed_stream(e, load, feeds[i], slot, outcome);
  }
}

result<void> place_unread(opened_load& work) {
  const plan& plan_ops = work.plan;
  fill_state* const fill = work.fill ? &*work.fill : nullptr;
  upload copies(work.destination_memory, plan_ops.maps);
  const auto place = [&](const copy_op& copy, const std::byte* from,
                         std::uint32_t tensor) -> result<void> {
    if (fill != nullptr) fill->writing = true;
    if (const auto failed = copies.copy(from, {&copy, 1})) {
      const catalog& all = work.named->catalog();
      return fault{failed, tensor_place(all, all.tensors[tensor])};
    }
    return {};
  };
  for (const fill_op& constant : plan_ops.fills) {
    copy_op copy = {};
    copy.destination = constant.destination;
    copy.destination_offset = constant.destination_offset;
    copy.bytes = constant.value_bytes;
    copy.map = constant.map;
    auto status = place(copy, plan_ops.fill_values.data() + constant.value, constant.tensor);
    if (!status) return status.error();
  }
  for (const stream_output& output : plan_ops.outputs) {
    const auto& bytes = work.streams[plan_ops.streams[output.stream].stream].stored->in_memory;
    if (bytes == nullptr) continue;
    copy_op copy = {};
    copy.destination = output.destination;
    copy.destination_offset = output.destination_offset;
    copy.bytes = static_cast<std::uint32_t>(output.bytes);
    copy.map = output.map;
    copy.cast = output.cast;
    auto status = place(copy, bytes->data() + output.stream_offset, output.tensor);
    if (!status) return status.error();
  }
  if (const auto failed = copies.wait()) return fault{failed, ""};
  return {};
}

}  // namespace ringload::inline v0::detail
