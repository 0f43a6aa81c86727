// SPDX-License-Identifier: Apache-2.0
#pragma once

// One compressed stream of a load: decodes its stored bytes in order, in bounded memory, and copies
// the decoded ones to the tensors that lie in them.
//
// Where the host can write to their destination, the bytes of a tensor that stay as they are are
// decoded into it. All others pass through a small buffer, out of which the device's copies take
// them.

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
  // Enough for a copy to be worth handing to a device, and to stay in a processor's cache.
  static constexpr std::size_t buffer_bytes = std::size_t{256} << 10;

  // Makes these copies, out of `from`, before it returns.
  using copier =
      std::function<boost::system::error_code(const std::byte* from, std::span<const copy_op>)>;

  // `what` is a stream of `of`, which outlives this, as does what `stored` refers to. `memory` is
  // the destination of its first output if the host writes to it, else null.
  stream_state(const plan& of, const stream_op& what, const plan_input_builder::stream& stored,
               const verification& how, std::byte* memory, copier copy);
  stream_state(const stream_state&) = delete;
  stream_state& operator=(const stream_state&) = delete;

  // Decodes the next stored bytes. One thread at a time.
  result<void> decode(std::span<const std::byte> bytes, bool last);

 private:
  result<void> take(std::span<const std::byte> in);
  result<void> finish();
  std::span<std::byte> room() override;
  void filled(std::size_t bytes) override;
  // Copies what whole elements the buffer holds, and keeps the rest.
  void flush();
  bool has_enough() const noexcept {
    return given_ >= bytes_needed_ && bytes_needed_ < stored_.decoded_bytes;
  }

  const plan& plan_;
  const std::span<const stream_output> outputs_;
  const std::uint64_t bytes_needed_;  // Of the decoded stream: what follows is not decoded.
  const stored_stream& stored_;
  const unsigned element_bytes_;
  const stored_digest* const digest_;  // Of the stored bytes; null: not compared.
  const verification& how_;
  std::byte* const direct_;  // Where the bytes of the only output go, or null.
  const decoded_into into_;  // one_memory: that output has all bytes, and there is no buffer.
  const copier copy_;
  std::optional<stream_decoder> decoder_;
  hasher hashed_;

  std::uint64_t given_ = 0;             // Decoded so far.
  std::vector<std::byte> buffer_;       // The last of them.
  std::size_t held_ = 0;                // In the buffer, up to given_.
  std::vector<std::uint64_t> reached_;  // By output: the decoded offset of the next byte to copy.
  std::vector<copy_op> copies_;
  boost::system::error_code failed_;  // Of a copy.
};

}  // namespace ringload::inline v0::detail
