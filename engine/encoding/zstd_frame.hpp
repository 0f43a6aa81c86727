// SPDX-License-Identifier: Apache-2.0
#pragma once

// Bytes -> one Zstandard frame. A long stream is cut into pieces, each of which becomes a frame:
// so several threads can work on one stream, and its bytes do not depend on how many they are.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/fault.hpp"

namespace ringload::inline v0 {

inline constexpr int zstd_level_min = 1;
inline constexpr int zstd_level_max = 22;
inline constexpr int zstd_level_default = 3;  // Also that of zTensor.

// Used by one thread at a time; keeps its tables from one frame to the next.
class zstd_frame_encoder {
 public:
  // errc::codec_unavailable where this build has been made without zstd.
  static result<std::unique_ptr<zstd_frame_encoder>> make(int level);
  virtual ~zstd_frame_encoder() = default;

  // Replaces `out` by the frame. As .zt files have them, frames hold neither their content's size
  // nor a checksum: the manifest has both.
  virtual result<void> encode(std::span<const std::byte> in, std::vector<std::byte>& out) = 0;
};

}  // namespace ringload::inline v0
