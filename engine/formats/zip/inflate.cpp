// SPDX-License-Identifier: Apache-2.0
#include "formats/zip/inflate.hpp"

#include <algorithm>
#include <utility>

#include "formats/codec/decoder.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::size_t first_chunk_bytes = 512;  // A NumPy header is about 80 deflated bytes.
constexpr std::size_t chunk_bytes = std::size_t{64} << 10;

}  // namespace

result<inflater::beginning> inflater::read(input& from, std::uint64_t offset,
                                           std::uint64_t stored_bytes, std::size_t count) {
  auto deflate_decoder = make_deflate_decoder(false);
  if (!deflate_decoder) return deflate_decoder.error();
  // One byte more than `count` detects the end of a stream with exactly `count` bytes.
  out_.resize(count + 1);
  std::size_t given = 0;
  std::uint64_t taken = 0;
  std::size_t chunk = first_chunk_bytes;
  bool ended = false;
  while (!ended && given <= count && taken < stored_bytes) {
    const auto wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(chunk, stored_bytes - taken));
    auto stored = from.read(offset + taken, wanted);
    if (!stored) return stored.error();
    auto done = (*deflate_decoder)->decode(*stored, std::span(out_).subspan(given));
    if (!done) {
      return fault{
          done.error().code == errc::malformed_stream ? errc::malformed_header : done.error().code,
          "byte " + grouped(offset + taken), done.error().cause};
    }
    taken += done->taken;
    given += done->given;
    ended = done->ended;
    chunk = chunk_bytes;
    if (done->taken == 0 && done->given == 0) break;
  }
  const bool complete = ended && given <= count && taken == stored_bytes;
  return beginning{std::span<const std::byte>(out_).first(std::min(given, count)), complete};
}

std::vector<std::byte> inflater::take(std::size_t count) {
  out_.resize(count);
  return std::move(out_);
}

}  // namespace ringload::inline v0
