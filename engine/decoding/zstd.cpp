// SPDX-License-Identifier: Apache-2.0

// Zstandard, by its own library.

#include "decoding/decoder.hpp"

#if RINGLOAD_HAS_ZSTD
#include <zstd.h>

#include <new>
#include <string>
#endif

namespace ringload::inline v0 {

#if RINGLOAD_HAS_ZSTD

namespace {

// A frame may say how much must be kept of what was decoded. Up to level 22, and without --long, it
// is 128 MiB at most; larger is refused, as the zstd tool does.
constexpr int window_log_max = 27;

class zstd_decoder final : public decoder {
 public:
  explicit zstd_decoder(::ZSTD_DCtx* with) noexcept : context_(with) {}

  result<progress> decode(std::span<const std::byte> in, std::span<std::byte> out) override {
    ::ZSTD_inBuffer from = {in.data(), in.size(), 0};
    ::ZSTD_outBuffer to = {out.data(), out.size(), 0};
    for (;;) {
      const std::size_t taken = from.pos;
      const std::size_t given = to.pos;
      const std::size_t left = ::ZSTD_decompressStream(context_.get(), &to, &from);
      if (::ZSTD_isError(left)) {
        return fault{errc::malformed_stream, "", std::string("zstd: ") + ::ZSTD_getErrorName(left)};
      }
      between_frames_ = left == 0;
      const bool stuck = from.pos == taken && to.pos == given;
      if (stuck || from.pos == from.size || to.pos == to.size) break;
    }
    // Frames follow each other, so only the end of the stored bytes is the end.
    return progress{from.pos, to.pos, between_frames_};
  }

 private:
  struct release {
    void operator()(::ZSTD_DCtx* one) const noexcept { ::ZSTD_freeDCtx(one); }
  };

  std::unique_ptr<::ZSTD_DCtx, release> context_;
  bool between_frames_ = false;
};

}  // namespace

result<std::unique_ptr<decoder>> make_zstd_decoder() {
  ::ZSTD_DCtx* const context = ::ZSTD_createDCtx();
  if (context == nullptr) throw std::bad_alloc();
  auto made = std::make_unique<zstd_decoder>(context);
  ::ZSTD_DCtx_setParameter(context, ::ZSTD_d_windowLogMax, window_log_max);
  return std::unique_ptr<decoder>(std::move(made));
}

#else

result<std::unique_ptr<decoder>> make_zstd_decoder() {
  return fault{errc::codec_unavailable, "",
               "it is stored with zstd, and this ringload was built with RINGLOAD_ZSTD=OFF"};
}

#endif

}  // namespace ringload::inline v0
