// SPDX-License-Identifier: Apache-2.0

// Decodes one compressed stream of a load, and copies the decoded bytes to its outputs. An output
// is a tensor or a part of a tensor.

#include "load/stream_state.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "request/digest.hpp"

namespace ringload::inline v0::detail {

namespace {

std::span<const stream_output> outputs_of(const plan& plan_ops, const stream_op& op) {
  return std::span(plan_ops.outputs).subspan(op.outputs_begin, op.outputs_end - op.outputs_begin);
}

// Returns true if the first output receives all decoded bytes of the stream.
bool is_whole(std::span<const stream_output> outputs, const stored_stream& stored) {
  return outputs.front().stream_offset == 0 && outputs.front().bytes == stored.decoded_bytes;
}

std::byte* direct_target(std::span<const stream_output> outputs, std::byte* memory) {
  if (memory == nullptr || outputs.size() != 1) return nullptr;
  const stream_output& only = outputs.front();
  const bool is_unchanged = only.map == no_index && !only.cast.needed();
  return is_unchanged ? memory + only.destination_offset : nullptr;
}

}  // namespace

stream_state::stream_state(const plan& plan_ops, const stream_op& op,
                           const plan_input_builder::stream& stored, const verification& verify,
                           std::byte* memory, copier copy, finisher finish_copies)
    : plan_(plan_ops),
      outputs_(outputs_of(plan_ops, op)),
      bytes_needed_(op.bytes_needed),
      stored_(*stored.stored),
      element_bytes_(stored.element_bytes),
      digest_(stored.digest),
      verify_(verify),
      direct_(direct_target(outputs_, memory)),
      decoded_into_(direct_ != nullptr && is_whole(outputs_, stored_) ? decoded_into::one_memory
                                                                      : decoded_into::pieces),
      copy_(std::move(copy)),
      finish_copies_(std::move(finish_copies)),
      buffer_(decoded_into_ == decoded_into::one_memory
                  ? 0
                  : static_cast<std::size_t>(
                        std::clamp<std::uint64_t>(stored_.decoded_bytes, 64, buffer_bytes))) {
  for (const stream_output& output : outputs_) output_offsets_.push_back(output.stream_offset);
}

result<void> stream_state::decode(std::span<const std::byte> bytes, bool last) {
  result<void> outcome;
  try {
    outcome = decode_bytes(bytes);
    if (outcome && last) outcome = finish();
  } catch (...) {
    (void)finish_copies();
    throw;
  }
  // finish_copies() waits until all copies have ended. The wait is also needed after a failure,
  // because copies may still write to the destination.
  const auto failed = finish_copies();
  if (failed && outcome) outcome = fault{failed, ""};
  return outcome;
}

result<void> stream_state::decode_bytes(std::span<const std::byte> in) {
  if (has_enough()) return {};
  if (!decoder_) {
    auto created = stream_decoder::make(stored_, element_bytes_, decoded_into_);
    if (!created) return created.error();
    decoder_.emplace(std::move(*created));
    if (digest_ != nullptr) hashed_ = begin_digest(digest_->algorithm, verify_);
  }
  if (digest_ != nullptr) hashed_.update(in);
  if (auto status = decoder_->take(in, *this); !status) return status.error();
  if (failed_) return fault{failed_, ""};
  return {};
}

result<void> stream_state::finish() {
  if (auto begun = decode_bytes({}); !begun) return begun.error();
  if (!has_enough()) {
    if (auto status = decoder_->finish(*this); !status) return status.error();
  }
  flush();
  if (failed_) return fault{failed_, ""};
  if (digest_ == nullptr) return {};
  return end_digest(hashed_, digest_->algorithm, digest_->bytes, "the file");
}

std::span<std::byte> stream_state::next_buffer() {
  const std::span<std::byte> buffer = std::span(buffer_).subspan(buffered_bytes_);
  if (direct_ == nullptr) return buffer;
  // Decoded bytes before and after the needed range belong to no tensor. These bytes are written to
  // the buffer and ignored.
  const stream_output& only = outputs_.front();
  const std::uint64_t end = only.stream_offset + only.bytes;
  if (produced_ < only.stream_offset) {
    const std::uint64_t before = only.stream_offset - produced_;
    return buffer.first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), before)));
  }
  if (produced_ >= end) return buffer;
  return {direct_ + (produced_ - only.stream_offset), static_cast<std::size_t>(end - produced_)};
}

void stream_state::filled(std::size_t bytes) {
  produced_ += bytes;
  if (direct_ != nullptr) return;
  buffered_bytes_ += bytes;
  if (buffered_bytes_ == buffer_.size()) flush();
}

void stream_state::flush() {
  if (direct_ != nullptr) return;
  const std::uint64_t base = produced_ - buffered_bytes_;
  copies_.clear();
  std::uint64_t keep_from = produced_;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const stream_output& out = outputs_[i];
    const std::uint64_t end = std::min(out.stream_offset + out.bytes, produced_);
    std::uint64_t& reached = output_offsets_[i];
    if (reached >= end) continue;
    const strided_map* const map = out.map == no_index ? nullptr : &plan_.maps[out.map];
    const std::uint64_t unit = map                 ? map->element_bytes
                               : out.cast.needed() ? out.cast.from_bytes()
                                                   : 1;
    const bool whole = end == out.stream_offset + out.bytes;
    std::uint64_t copied_end = end;
    if (map == nullptr) copied_end -= (end - out.stream_offset) % unit;
    if (copied_end - reached >= unit || whole) {
      copy_op copied = {};
      copied.destination = out.destination;
      copied.destination_offset = out.destination_offset;
      copied.slot_offset = static_cast<std::uint32_t>(reached - base);
      copied.bytes = static_cast<std::uint32_t>(copied_end - reached);
      if (map) {
        copied.map = out.map;
        copied.source_offset = reached - out.stream_offset;
      } else {
        copied.cast = out.cast;
        copied.destination_offset +=
            out.cast.needed() ? (reached - out.stream_offset) / unit * out.cast.to_bytes()
                              : reached - out.stream_offset;
      }
      copies_.push_back(copied);
      // A range of a strided map may end inside an element. The next range then begins before the
      // end of this range, so that the next range contains the whole element.
      reached = whole ? end : map ? copied_end - (unit - 1) : copied_end;
    }
    if (!whole) keep_from = std::min(keep_from, reached);
  }
  if (!copies_.empty() && !failed_) failed_ = copy_(buffer_.data(), copies_);
  const auto dropped = static_cast<std::size_t>(std::max(keep_from, base) - base);
  buffered_bytes_ -= dropped;
  if (dropped > 0 && buffered_bytes_ > 0)
    std::memmove(buffer_.data(), buffer_.data() + dropped, buffered_bytes_);
}

}  // namespace ringload::inline v0::detail
