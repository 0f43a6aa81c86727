// SPDX-License-Identifier: Apache-2.0

#include "formats/codec/decoder.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

namespace ringload::inline v0 {

namespace {

class raw_decoder final : public decoder {
 public:
  result<progress> decode(std::span<const std::byte> in, std::span<std::byte> out) override {
    const std::size_t bytes = std::min(in.size(), out.size());
    if (bytes > 0) std::memcpy(out.data(), in.data(), bytes);
    return progress{bytes, bytes, false};
  }
};

// Decodes base-128 integers. Each byte has seven bits of the integer, and the lowest bits are
// first. If the top bit is set, another byte follows. Negative integers of any width are stored in
// ten bytes, so the decoder drops the bits above the width of an element.
class varint_decoder final : public decoder {
 public:
  explicit varint_decoder(unsigned element_bytes) noexcept : element_bytes_(element_bytes) {}

  result<progress> decode(std::span<const std::byte> in, std::span<std::byte> out) override {
    progress step;
    for (;;) {
      for (; ready_bytes_ > 0 && step.produced < out.size(); --ready_bytes_) {
        out[step.produced++] = static_cast<std::byte>(value_);
        value_ >>= 8U;
      }
      if (ready_bytes_ > 0 || step.taken == in.size()) {
        step.ended = ready_bytes_ == 0 && shift_ == 0;
        return step;
      }
      if (shift_ == 0) value_ = 0;
      if (shift_ >= 70)
        return fault{errc::malformed_stream, "", "a varint has more than ten bytes"};
      const auto byte = static_cast<std::uint8_t>(in[step.taken++]);
      if (shift_ < 64) value_ |= std::uint64_t{byte & 0x7FU} << shift_;
      shift_ += 7;
      if ((byte & 0x80U) != 0) continue;
      shift_ = 0;
      ready_bytes_ = element_bytes_;
    }
  }

 private:
  const unsigned element_bytes_;
  std::uint64_t value_ = 0;
  unsigned shift_ = 0;        // Position of the next seven bits in value_.
  unsigned ready_bytes_ = 0;  // Number of bytes of value_ that are not yet written to the output.
};

}  // namespace

result<std::unique_ptr<decoder>> make_decoder(codec stored_codec, unsigned element_bytes,
                                              decoded_into into) {
  switch (stored_codec) {
    case codec::raw: return std::unique_ptr<decoder>(std::make_unique<raw_decoder>());
    case codec::varint:
      return std::unique_ptr<decoder>(std::make_unique<varint_decoder>(element_bytes));
    case codec::deflate: return make_deflate_decoder(false);
    case codec::zlib: return make_deflate_decoder(true);
    case codec::zstd: return make_zstd_decoder(into);
  }
  return fault{errc::codec_unavailable, ""};
}

}  // namespace ringload::inline v0
