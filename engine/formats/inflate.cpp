// SPDX-License-Identifier: Apache-2.0
#include "formats/inflate.hpp"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <string>

namespace ringload::inline v0 {

namespace {

constexpr std::size_t first_chunk_bytes = 512;  // A header of NumPy's becomes about 80 bytes.
constexpr std::size_t chunk_bytes = std::size_t{64} << 10;

}  // namespace

struct inflater::state {
  z_stream stream = {};
  bool ready = false;

  ~state() {
    if (ready) ::inflateEnd(&stream);
  }

  void begin() {
    if (ready) {
      ::inflateReset(&stream);
      return;
    }
    constexpr int without_wrapper = -MAX_WBITS;
    if (::inflateInit2(&stream, without_wrapper) != Z_OK) throw std::bad_alloc();
    ready = true;
  }
};

inflater::inflater() : state_(std::make_unique<state>()) {}
inflater::~inflater() = default;

result<inflater::beginning> inflater::read(input& from, std::uint64_t offset,
                                           std::uint64_t stored_bytes, std::size_t count) {
  state_->begin();
  z_stream& z = state_->stream;
  out_.resize(std::max<std::size_t>(count, 1));
  z.next_out = reinterpret_cast<Bytef*>(out_.data());
  z.avail_out = static_cast<uInt>(count);
  std::uint64_t taken = 0;
  std::size_t chunk = first_chunk_bytes;
  int status = Z_OK;
  while (status == Z_OK && z.avail_out > 0 && taken < stored_bytes) {
    const auto wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(chunk, stored_bytes - taken));
    auto stored = from.read(offset + taken, wanted);
    if (!stored) return stored.error();
    // zlib does not write to its input; its type is older than const.
    z.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(stored->data()));
    z.avail_in = static_cast<uInt>(wanted);
    status = ::inflate(&z, Z_NO_FLUSH);
    taken += wanted - z.avail_in;
    chunk = chunk_bytes;
    if (z.avail_in > 0 && status == Z_OK) break;  // No room is left for what comes out.
  }
  if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
    return fault{errc::malformed_header, "byte " + grouped(offset + taken),
                 "the deflated bytes are damaged here" +
                     (z.msg != nullptr ? ": " + std::string(z.msg) : std::string())};
  }
  const bool complete = status == Z_STREAM_END && taken == stored_bytes;
  return beginning{std::span<const std::byte>(out_).first(count - z.avail_out), complete};
}

std::uint32_t crc32_of(std::span<const std::byte> bytes) noexcept {
  return static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace ringload::inline v0
