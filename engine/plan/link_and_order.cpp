// SPDX-License-Identifier: Apache-2.0

#include "plan/link_and_order.hpp"

#include <algorithm>
#include <span>
#include <tuple>

namespace ringload::inline v0 {

namespace {

// Sets the range [parts_begin, parts_end) of each read, so that the range contains all parts that
// need the read. Also computes plan::bytes_read.
void join_parts(plan& new_plan) {
  for (read_op& read : new_plan.reads) {
    read.parts_begin = no_index;
    read.parts_end = 0;
    new_plan.bytes_read += read.bytes;
  }
  for (std::uint32_t i = 0; i < new_plan.parts.size(); ++i) {
    for (std::uint32_t r = new_plan.parts[i].reads_begin; r < new_plan.parts[i].reads_end; ++r) {
      read_op& read = new_plan.reads[r];
      read.parts_begin = std::min(read.parts_begin, i);
      read.parts_end = i + 1;
    }
  }
}

void join_outputs(plan& new_plan) {
  const auto before = [](const stream_output& a, const stream_output& b) {
    return a.stream != b.stream ? a.stream < b.stream : a.stream_offset < b.stream_offset;
  };
  std::sort(new_plan.outputs.begin(), new_plan.outputs.end(), before);
  for (std::uint32_t i = 0; i < new_plan.outputs.size(); ++i) {
    stream_op& stream = new_plan.streams[new_plan.outputs[i].stream];
    if (stream.outputs_end == 0) stream.outputs_begin = i;
    stream.outputs_end = i + 1;
  }
}

// Orders the reads of all chains. A chain consists of the reads of a stream that has several reads.
// The reads of a chain must be taken in stream order. Up to `streams_at_once` chains take turns.
// When one of these chains ends, the next chain begins.
std::vector<std::uint32_t> interleave_chains(std::span<const stream_op> streams,
                                             std::size_t streams_at_once) {
  struct chain_reads {
    std::uint32_t next;
    std::uint32_t end;
  };
  std::vector<std::uint32_t> order;
  std::vector<chain_reads> active;
  std::size_t next_stream = 0;
  for (;;) {
    for (; active.size() < streams_at_once && next_stream < streams.size(); ++next_stream) {
      if (streams[next_stream].is_chain())
        active.push_back({streams[next_stream].reads_begin, streams[next_stream].reads_end});
    }
    if (active.empty()) return order;
    for (chain_reads& chain : active) order.push_back(chain.next++);
    std::erase_if(active, [](const chain_reads& chain) { return chain.next == chain.end; });
  }
}

// Orders the reads outside of chains by file offset. Therefore the staged reads at both ends of a
// tensor are next to its unstaged reads, and tensors complete one after another. Two reads can
// begin at the same offset, because offsets are rounded down. Then the shorter read is first,
// because its wanted bytes have lower offsets.
std::vector<std::uint32_t> by_file_offset(const plan& new_plan, const std::vector<bool>& in_chain) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t r = 0; r < new_plan.reads.size(); ++r) {
    if (!in_chain[r]) order.push_back(r);
  }
  std::ranges::sort(order, {}, [&new_plan](std::uint32_t r) {
    const read_op& read = new_plan.reads[r];
    return std::tuple(read.file, read.file_offset, read.bytes, r);
  });
  return order;
}

// Interleaves chains and other reads in proportion to their bytes, so that chains and other reads
// end at about the same time. Therefore the drive has work even if decoders are slow, and decoders
// have work while other bytes are read.
void find_order(plan& new_plan, std::size_t streams_at_once) {
  const std::vector<std::uint32_t> chains = interleave_chains(new_plan.streams, streams_at_once);
  std::vector<bool> in_chain(new_plan.reads.size());
  std::uint64_t chain_bytes = 0;
  std::uint64_t other_bytes = 0;
  for (const std::uint32_t r : chains) in_chain[r] = true;
  for (std::size_t r = 0; r < new_plan.reads.size(); ++r) {
    (in_chain[r] ? chain_bytes : other_bytes) += new_plan.reads[r].bytes;
  }
  const std::vector<std::uint32_t> other_reads = by_file_offset(new_plan, in_chain);
  if (chains.empty() && std::ranges::is_sorted(other_reads)) return;
  new_plan.order.reserve(new_plan.reads.size());
  double chain_done = 0;
  double other_done = 0;
  std::size_t next_other = 0;
  for (const std::uint32_t r : chains) {
    for (; next_other < other_reads.size(); ++next_other) {
      if (other_done * static_cast<double>(chain_bytes) >=
          chain_done * static_cast<double>(other_bytes))
        break;
      new_plan.order.push_back(other_reads[next_other]);
      other_done += new_plan.reads[other_reads[next_other]].bytes;
    }
    new_plan.order.push_back(r);
    chain_done += new_plan.reads[r].bytes;
  }
  for (; next_other < other_reads.size(); ++next_other)
    new_plan.order.push_back(other_reads[next_other]);
}

}  // namespace

void link_and_order(plan& new_plan, std::uint32_t streams_at_once) {
  join_parts(new_plan);
  join_outputs(new_plan);
  find_order(new_plan, std::max<std::uint32_t>(1, streams_at_once));
}

}  // namespace ringload::inline v0
