// SPDX-License-Identifier: Apache-2.0
#pragma once

// One compressed stream of a load. Decodes the stored bytes in order, in bounded memory, and copies
// the decoded bytes to the tensors of the stream.
//
// The bytes are decoded into the destination if the stream has a single unconverted tensor and the
// host can write to the destination. Otherwise the bytes pass through a small buffer, and the
// device's copies read the buffer.

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
  // Large enough for an efficient device copy, and small enough for a processor's cache.
  static constexpr std::size_t buffer_bytes = std::size_t{256} << 10;

  // Makes copies out of `from`. Returns after the copies have ended.
  using copier =
      std::function<boost::system::error_code(const std::byte* from, std::span<const copy_op>)>;

  // `op` is a stream of `plan_ops`. The plan and the referents of `stored` must outlive this
  // object. `memory` is the destination of the first output if the host can write to it, else null.
  stream_state(const plan& plan_ops, const stream_op& op, const plan_input_builder::stream& stored,
               const verification& verify, std::byte* memory, copier copy);
  stream_state(const stream_state&) = delete;
  stream_state& operator=(const stream_state&) = delete;

  // Decodes the next stored bytes. Must not be called by two threads at once.
  result<void> decode(std::span<const std::byte> bytes, bool last);

 private:
  result<void> take(std::span<const std::byte> in);
  result<void> finish();
  std::span<std::byte> room() override;
  void filled(std::size_t bytes) override;
  // Copies the whole elements in the buffer, and keeps the remaining bytes.
  void flush();
  bool has_enough() const noexcept {
    return given_ >= bytes_needed_ && bytes_needed_ < stored_.decoded_bytes;
  }

  const plan& plan_;
  const std::span<const stream_output> outputs_;
  const std::uint64_t bytes_needed_;  // Decoded bytes. Later bytes are not decoded.
  const stored_stream& stored_;
  const unsigned element_bytes_;
  const stored_digest* const digest_;  // Digest of the stored bytes. Null: not compared.
  const verification& verify_;
  std::byte* const direct_;  // Destination of the only output, or null.
  const decoded_into into_;  // one_memory: the only output has all bytes. No buffer.
  const copier copy_;
  std::optional<stream_decoder> decoder_;
  hasher hashed_;

  std::uint64_t given_ = 0;             // Decoded bytes so far.
  std::vector<std::byte> buffer_;       // The last decoded bytes.
  std::size_t held_ = 0;                // Bytes in the buffer, up to given_.
  std::vector<std::uint64_t> reached_;  // Indexed by output: offset of the next byte to copy.
  std::vector<copy_op> copies_;
  boost::system::error_code failed_;  // Failure of a copy.
};

}  // namespace ringload::inline v0::detail
