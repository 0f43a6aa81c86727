// SPDX-License-Identifier: Apache-2.0
#pragma once

// Encodes bytes as one Zstandard frame. To save a long stream, the caller splits the stream into
// pieces and encodes each piece as a frame. Therefore several threads can encode one stream, and
// the result does not depend on the number of threads.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0 {

inline constexpr int zstd_level_min = 1;
inline constexpr int zstd_level_max = 22;
inline constexpr int zstd_level_default = 3;  // zTensor has the same default.

// Only one thread at a time may use an encoder. The encoder reuses its tables for all frames.
class zstd_frame_encoder {
 public:
  // If `has_content_size` is true, each frame states the size of its contents. Returns
  // errc::codec_unavailable if the library was built without zstd.
  static result<std::unique_ptr<zstd_frame_encoder>> make(int level, bool has_content_size = false);
  virtual ~zstd_frame_encoder() = default;

  // Replaces the contents of `out` with the frame. The frame has no checksum, because the index of
  // a .zt file or of a delta can have a digest.
  virtual result<void> encode(std::span<const std::byte> in, std::vector<std::byte>& out) = 0;
};

}  // namespace ringload::inline v0
