// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decodes one compressed stream of a load. Stored bytes are decoded in order, in bounded memory,
// and the decoded bytes are copied to the tensors of the stream. The decoding threads call decode()
// through running_stream::decode.
//
// Bytes are decoded directly into the output if the stream has a single output whose elements are
// neither converted nor reordered. In addition, the host must be able to write to the memory of the
// output. Otherwise bytes are decoded into a small buffer, and the device copies the buffer to the
// tensors.

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/fault.hpp"
#include "formats/codec/stream_decoder.hpp"
#include "plan/plan.hpp"
#include "request/plan_input_builder.hpp"

namespace ringload::inline v0::detail {

class stream_state final : public decoded_output {
 public:
  // The size allows efficient copies to a device, and fits into the processor's cache.
  static constexpr std::size_t buffer_bytes = std::size_t{256} << 10;

  // Starts copies of ranges of `from`. The function must not read `from` after its return, because
  // the caller then overwrites `from`.
  using copier =
      std::function<boost::system::error_code(const std::byte* from, std::span<const copy_op>)>;
  using finisher = std::function<boost::system::error_code()>;

  // `op` is a stream of `plan_ops`. The plan, `verify` and all objects that `stored` points to must
  // outlive this object. `memory` is the destination of the first output, or null if the host
  // cannot write to this destination.
  stream_state(const plan& plan_ops, const stream_op& op, const plan_input_builder::stream& stored,
               const verification& verify, std::byte* memory, copier copy,
               finisher finish_copies = {});
  stream_state(const stream_state&) = delete;
  stream_state& operator=(const stream_state&) = delete;

  // Decodes the next stored bytes. No copy is in progress after the return. Must not be called by
  // two threads at the same time.
  result<void> decode(std::span<const std::byte> bytes, bool last);

 private:
  result<void> decode_bytes(std::span<const std::byte> in);
  result<void> finish();
  std::span<std::byte> next_buffer() override;
  void filled(std::size_t bytes) override;
  // Copies the complete elements in the buffer, and keeps the remaining bytes.
  void flush();
  boost::system::error_code finish_copies() const {
    return finish_copies_ ? finish_copies_() : boost::system::error_code();
  }
  bool has_enough() const noexcept {
    return produced_ >= bytes_needed_ && bytes_needed_ < stored_.decoded_bytes;
  }

  const plan& plan_;
  const std::span<const stream_output> outputs_;
  // Number of decoded bytes that the outputs need. Later bytes need not be decoded.
  const std::uint64_t bytes_needed_;
  const stored_stream& stored_;
  const unsigned element_bytes_;
  // Expected digest of the stored bytes. Null if the digest is not checked.
  const stored_digest* const digest_;
  const verification& verify_;
  // Destination of the only output if bytes are decoded directly into this destination. Otherwise
  // null.
  std::byte* const direct_;
  // `one_memory` if all bytes of the stream are decoded directly into the only output. Then no
  // buffer is used.
  const decoded_into decoded_into_;
  const copier copy_;
  const finisher finish_copies_;
  std::optional<stream_decoder> decoder_;
  hasher hashed_;

  std::uint64_t produced_ = 0;      // Number of bytes decoded so far.
  std::vector<std::byte> buffer_;   // Decoded bytes before they are copied.
  std::size_t buffered_bytes_ = 0;  // Number of bytes in the buffer.
  // Indexed by output: stream offset of the next byte to copy.
  std::vector<std::uint64_t> output_offsets_;
  std::vector<copy_op> copies_;
  boost::system::error_code failed_;  // First failure of a copy.
};

}  // namespace ringload::inline v0::detail
