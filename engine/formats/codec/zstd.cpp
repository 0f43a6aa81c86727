// SPDX-License-Identifier: Apache-2.0

// Decodes Zstandard with libzstd.
//
// By default, libzstd decodes into its own window (2 MiB for level 3) and then copies the bytes to
// the output. The copy takes a tenth of the decoding time, or a seventh if the output is newly
// allocated memory. If all outputs are parts of one buffer, libzstd can refer to earlier bytes in
// this buffer instead of a window. The parameter for this mode, ZSTD_d_stableOutBuffer, is not part
// of libzstd's stable interface. If libzstd refuses the parameter, the decoder uses the window.

#include "formats/codec/decoder.hpp"

#if RINGLOAD_HAS_ZSTD
#define ZSTD_STATIC_LINKING_ONLY  // Declares ZSTD_d_stableOutBuffer.
#include <zstd.h>
#include <zstd_errors.h>

#include <cassert>
#include <memory>
#include <new>
#include <string>
#endif

namespace ringload::inline v0 {

#if RINGLOAD_HAS_ZSTD

namespace {

// A frame states the size of its window: the number of decoded bytes that the decoder must keep.
// All levels without --long use at most 128 MiB. Larger windows are refused, as in the zstd tool.
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
    const std::size_t produced_before = to.pos;
    for (;;) {
      const std::size_t taken = from.pos;
      const std::size_t produced = to.pos;
      const std::size_t left = ::ZSTD_decompressStream(context_.get(), &to, &from);
      if (looks_back_ && ::ZSTD_getErrorCode(left) == ::ZSTD_error_dstSize_tooSmall) {
        return malformed_stream("zstd: it decodes to more bytes than the header says");
      }
      if (::ZSTD_isError(left)) {
        return fault{errc::malformed_stream, "", std::string("zstd: ") + ::ZSTD_getErrorName(left)};
      }
      between_frames_ = left == 0;
      const bool stuck = from.pos == taken && to.pos == produced;
      if (stuck || from.pos == from.size || to.pos == to.size) break;
    }
    if (looks_back_) memory_ = to;
    // A stream may have several frames, so the end of a frame is not always the end of the stream.
    return progress{from.pos, to.pos - produced_before, between_frames_};
  }

 private:
  struct release {
    void operator()(::ZSTD_DCtx* context) const noexcept { ::ZSTD_freeDCtx(context); }
  };

  std::unique_ptr<::ZSTD_DCtx, release> context_;
  bool between_frames_ = false;
  // True if libzstd may refer to earlier output bytes. In this case, all outputs are parts of one
  // buffer.
  bool looks_back_ = false;
  ::ZSTD_outBuffer memory_ = {nullptr, 0, 0};
};

}  // namespace

result<std::unique_ptr<decoder>> make_zstd_decoder(decoded_into into) {
  std::unique_ptr<::ZSTD_DCtx, std::size_t (*)(::ZSTD_DCtx*)> context(::ZSTD_createDCtx(),
                                                                      ::ZSTD_freeDCtx);
  if (context == nullptr) throw std::bad_alloc();
  std::unique_ptr<decoder> new_decoder = std::make_unique<zstd_decoder>(context.get(), into);
  (void)context.release();  // The decoder owns the context now.
  return new_decoder;
}

#else

result<std::unique_ptr<decoder>> make_zstd_decoder(decoded_into) {
  return fault{errc::codec_unavailable, "",
               "the bytes are compressed with zstd, but this ringload was built with "
               "RINGLOAD_ZSTD=OFF"};
}

#endif

}  // namespace ringload::inline v0
