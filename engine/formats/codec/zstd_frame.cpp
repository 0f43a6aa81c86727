// SPDX-License-Identifier: Apache-2.0

#include "formats/codec/zstd_frame.hpp"

#if RINGLOAD_HAS_ZSTD
#include <zstd.h>

#include <memory>
#include <new>
#include <string>
#include <utility>
#endif

namespace ringload::inline v0 {

#if RINGLOAD_HAS_ZSTD

namespace {

struct free_context {
  void operator()(::ZSTD_CCtx* context) const noexcept { ::ZSTD_freeCCtx(context); }
};
using owned_context = std::unique_ptr<::ZSTD_CCtx, free_context>;

class library_encoder final : public zstd_frame_encoder {
 public:
  explicit library_encoder(owned_context context) noexcept : context_(std::move(context)) {}

  result<void> encode(std::span<const std::byte> in, std::vector<std::byte>& out) override {
    out.resize(::ZSTD_compressBound(in.size()));
    const std::size_t bytes =
        ::ZSTD_compress2(context_.get(), out.data(), out.size(), in.data(), in.size());
    if (::ZSTD_isError(bytes)) {
      return fault{errc::malformed_stream, "", std::string("zstd: ") + ::ZSTD_getErrorName(bytes)};
    }
    out.resize(bytes);
    return {};
  }

 private:
  owned_context context_;
};

}  // namespace

result<std::unique_ptr<zstd_frame_encoder>> zstd_frame_encoder::make(int level,
                                                                     bool has_content_size) {
  owned_context context(::ZSTD_createCCtx());
  if (!context) throw std::bad_alloc();
  ::ZSTD_CCtx_setParameter(context.get(), ::ZSTD_c_compressionLevel, level);
  ::ZSTD_CCtx_setParameter(context.get(), ::ZSTD_c_contentSizeFlag, has_content_size ? 1 : 0);
  return std::unique_ptr<zstd_frame_encoder>(std::make_unique<library_encoder>(std::move(context)));
}

#else

result<std::unique_ptr<zstd_frame_encoder>> zstd_frame_encoder::make(int, bool) {
  return fault{errc::codec_unavailable, "",
               "compressing with zstd was requested, but this ringload was built with "
               "RINGLOAD_ZSTD=OFF"};
}

#endif

}  // namespace ringload::inline v0
