// SPDX-License-Identifier: Apache-2.0

#include "formats/zip/inflate.hpp"

#include <algorithm>
#include <utility>

#include "formats/codec/decoder.hpp"

namespace ringload::inline v0 {

namespace {

// The deflated header of a NumPy array has about 80 bytes.
constexpr std::size_t first_chunk_bytes = 512;
constexpr std::size_t chunk_bytes = std::size_t{64} << 10;

}  // namespace

result<inflater::beginning> inflater::read(input& from, std::uint64_t offset,
                                           std::uint64_t stored_bytes, std::size_t count) {
  auto deflate_decoder = make_deflate_decoder(false);
  if (!deflate_decoder) return deflate_decoder.error();
  // The buffer has one additional byte, so that the end of a stream of `count` bytes is detected.
  out_.resize(count + 1);
  std::size_t produced = 0;
  std::uint64_t taken = 0;
  std::size_t chunk = first_chunk_bytes;
  bool ended = false;
  while (!ended && produced <= count && taken < stored_bytes) {
    const auto count_to_read =
        static_cast<std::size_t>(std::min<std::uint64_t>(chunk, stored_bytes - taken));
    auto stored = from.read(offset + taken, count_to_read);
    if (!stored) return stored.error();
    auto step = (*deflate_decoder)->decode(*stored, std::span(out_).subspan(produced));
    if (!step) {
      return fault{
          step.error().code == errc::malformed_stream ? errc::malformed_header : step.error().code,
          "byte " + grouped(offset + taken), step.error().cause()};
    }
    taken += step->taken;
    produced += step->produced;
    ended = step->ended;
    chunk = chunk_bytes;
    if (step->taken == 0 && step->produced == 0) break;
  }
  const bool complete = ended && produced <= count && taken == stored_bytes;
  return beginning{std::span<const std::byte>(out_).first(std::min(produced, count)), complete};
}

std::vector<std::byte> inflater::take(std::size_t count) {
  out_.resize(count);
  return std::move(out_);
}

}  // namespace ringload::inline v0
