// SPDX-License-Identifier: Apache-2.0
#pragma once

// Encodes bytes as one Zstandard frame. A long stream is cut into pieces that become a frame each.
// Several threads can then encode one stream, and the result does not depend on their number.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0 {

inline constexpr int zstd_level_min = 1;
inline constexpr int zstd_level_max = 22;
inline constexpr int zstd_level_default = 3;  // The default of zTensor too.

// Must be used by one thread at a time. Keeps its tables between frames.
class zstd_frame_encoder {
 public:
  // Fails with errc::codec_unavailable if the library was built without zstd.
  static result<std::unique_ptr<zstd_frame_encoder>> make(int level);
  virtual ~zstd_frame_encoder() = default;

  // Replaces `out` with the frame. As .zt files require, the frame has no content size and no
  // checksum, because the manifest has both.
  virtual result<void> encode(std::span<const std::byte> in, std::vector<std::byte>& out) = 0;
};

}  // namespace ringload::inline v0
