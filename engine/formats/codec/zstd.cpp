// SPDX-License-Identifier: Apache-2.0

// Zstandard with its own library.
//
// The library decodes into its own window, of 2 MiB for level 3, and copies the bytes out. The copy
// takes a tenth of the time, or a seventh if the output is new memory. If all output is one memory,
// the library can look back there instead. The parameter for this is not part of the stable
// interface: if the library refuses it, the window is used.

#include "formats/codec/decoder.hpp"

#if RINGLOAD_HAS_ZSTD
#define ZSTD_STATIC_LINKING_ONLY  // Declares that parameter.
#include <zstd.h>
#include <zstd_errors.h>

#include <cassert>
#include <new>
#include <string>
#endif

namespace ringload::inline v0 {

#if RINGLOAD_HAS_ZSTD

namespace {

// A frame states how many decoded bytes must be kept. Up to level 22 without --long this is at most
// 128 MiB. Larger windows are refused, as by the zstd tool.
constexpr int window_log_max = 27;

class zstd_decoder final : public decoder {
 public:
  zstd_decoder(::ZSTD_DCtx* context, decoded_into into) noexcept : context_(context) {
    ::ZSTD_DCtx_setParameter(context, ::ZSTD_d_windowLogMax, window_log_max);
    looks_back_ = into == decoded_into::one_memory &&
                  !::ZSTD_isError(::ZSTD_DCtx_setParameter(context, ZSTD_d_stableOutBuffer, 1));
  }

  result<progress> decode(std::span<const std::byte> in, std::span<std::byte> out) override {
    ::ZSTD_inBuffer from = {in.data(), in.size(), 0};
    ::ZSTD_outBuffer to = {out.data(), out.size(), 0};
    if (looks_back_) {
      if (memory_.dst == nullptr) memory_ = to;
      assert(memory_.pos == memory_.size ||
             (out.data() == static_cast<std::byte*>(memory_.dst) + memory_.pos &&
              out.size() == memory_.size - memory_.pos));
      to = memory_;
    }
    const std::size_t given_before = to.pos;
    for (;;) {
      const std::size_t taken = from.pos;
      const std::size_t given = to.pos;
      const std::size_t left = ::ZSTD_decompressStream(context_.get(), &to, &from);
      if (looks_back_ && ::ZSTD_getErrorCode(left) == ::ZSTD_error_dstSize_tooSmall) {
        return malformed_stream("zstd: it decodes to more bytes than the header says");
      }
      if (::ZSTD_isError(left)) {
        return fault{errc::malformed_stream, "", std::string("zstd: ") + ::ZSTD_getErrorName(left)};
      }
      between_frames_ = left == 0;
      const bool stuck = from.pos == taken && to.pos == given;
      if (stuck || from.pos == from.size || to.pos == to.size) break;
    }
    if (looks_back_) memory_ = to;
    // Frames follow each other, so only the end of the stored bytes is the end.
    return progress{from.pos, to.pos - given_before, between_frames_};
  }

 private:
  struct release {
    void operator()(::ZSTD_DCtx* context) const noexcept { ::ZSTD_freeDCtx(context); }
  };

  std::unique_ptr<::ZSTD_DCtx, release> context_;
  bool between_frames_ = false;
  // The library looks back into the output, which it must see as a whole.
  bool looks_back_ = false;
  ::ZSTD_outBuffer memory_ = {nullptr, 0, 0};
};

}  // namespace

result<std::unique_ptr<decoder>> make_zstd_decoder(decoded_into into) {
  ::ZSTD_DCtx* const context = ::ZSTD_createDCtx();
  if (context == nullptr) throw std::bad_alloc();
  return std::unique_ptr<decoder>(std::make_unique<zstd_decoder>(context, into));
}

#else

result<std::unique_ptr<decoder>> make_zstd_decoder(decoded_into) {
  return fault{errc::codec_unavailable, "",
               "the bytes are compressed with zstd, but this ringload was built with "
               "RINGLOAD_ZSTD=OFF"};
}

#endif

}  // namespace ringload::inline v0
