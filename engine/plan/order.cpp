// SPDX-License-Identifier: Apache-2.0
#include "plan/order.hpp"

#include <algorithm>
#include <span>
#include <tuple>

namespace ringload::inline v0 {

namespace {

// Which parts each read may feed.
void join_parts(plan& made) {
  for (read_op& read : made.reads) {
    read.parts_begin = no_index;
    read.parts_end = 0;
    made.bytes_read += read.bytes;
  }
  for (std::uint32_t i = 0; i < made.parts.size(); ++i) {
    for (std::uint32_t r = made.parts[i].reads_begin; r < made.parts[i].reads_end; ++r) {
      read_op& read = made.reads[r];
      read.parts_begin = std::min(read.parts_begin, i);
      read.parts_end = i + 1;
    }
  }
}

void join_outputs(plan& made) {
  const auto before = [](const stream_output& a, const stream_output& b) {
    return a.stream != b.stream ? a.stream < b.stream : a.stream_offset < b.stream_offset;
  };
  std::sort(made.outputs.begin(), made.outputs.end(), before);
  for (std::uint32_t i = 0; i < made.outputs.size(); ++i) {
    stream_op& of = made.streams[made.outputs[i].stream];
    if (of.outputs_end == 0) of.outputs_begin = i;
    of.outputs_end = i + 1;
  }
}

// The reads of chains, of which so many take turns: as one ends the next begins.
std::vector<std::uint32_t> in_turns(std::span<const stream_op> streams, std::size_t at_once) {
  struct turn {
    std::uint32_t next;
    std::uint32_t end;
  };
  std::vector<std::uint32_t> order;
  std::vector<turn> now;
  std::size_t begun = 0;
  for (;;) {
    for (; now.size() < at_once && begun < streams.size(); ++begun) {
      if (streams[begun].chain())
        now.push_back({streams[begun].reads_begin, streams[begun].reads_end});
    }
    if (now.empty()) return order;
    for (turn& one : now) order.push_back(one.next++);
    std::erase_if(now, [](const turn& one) { return one.next == one.end; });
  }
}

// The reads of no chain, as the files have their bytes: the ends of a tensor that are staged come
// beside the blocks between them, so that tensors are completed one after the other. Of two that
// begin with the same block the shorter first: then hardly a byte is asked for after a later one.
std::vector<std::uint32_t> by_place(const plan& made, const std::vector<bool>& in_chain) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t r = 0; r < made.reads.size(); ++r) {
    if (!in_chain[r]) order.push_back(r);
  }
  std::ranges::sort(order, {}, [&made](std::uint32_t r) {
    const read_op& read = made.reads[r];
    return std::tuple(read.file, read.file_offset, read.bytes, r);
  });
  return order;
}

// Chains and all other reads go on beside each other, and end together: the drive has work while
// decoders are slow, and decoders while there are bytes that need none.
void find_order(plan& made, std::size_t at_once) {
  const std::vector<std::uint32_t> chains = in_turns(made.streams, at_once);
  std::vector<bool> in_chain(made.reads.size());
  std::uint64_t chain_bytes = 0;
  std::uint64_t other_bytes = 0;
  for (const std::uint32_t r : chains) in_chain[r] = true;
  for (std::size_t r = 0; r < made.reads.size(); ++r) {
    (in_chain[r] ? chain_bytes : other_bytes) += made.reads[r].bytes;
  }
  const std::vector<std::uint32_t> others = by_place(made, in_chain);
  if (chains.empty() && std::ranges::is_sorted(others)) return;
  made.order.reserve(made.reads.size());
  double chain_done = 0;
  double other_done = 0;
  std::size_t other = 0;
  for (const std::uint32_t r : chains) {
    for (; other < others.size(); ++other) {
      if (other_done * static_cast<double>(chain_bytes) >=
          chain_done * static_cast<double>(other_bytes))
        break;
      made.order.push_back(others[other]);
      other_done += made.reads[others[other]].bytes;
    }
    made.order.push_back(r);
    chain_done += made.reads[r].bytes;
  }
  for (; other < others.size(); ++other) made.order.push_back(others[other]);
}

}  // namespace

void complete(plan& made, std::uint32_t streams_at_once) {
  join_parts(made);
  join_outputs(made);
  find_order(made, std::max<std::uint32_t>(1, streams_at_once));
}

}  // namespace ringload::inline v0
