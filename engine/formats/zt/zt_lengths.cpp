// SPDX-License-Identifier: Apache-2.0

#include "formats/zt/zt_lengths.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/printable.hpp"
#include "formats/codec/decoder.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::size_t counted_at_once = std::size_t{64} << 10;
constexpr std::size_t decoded_at_once = std::size_t{256} << 10;

bool lacks_its_length(const zt_component& part) noexcept {
  return part.zstd && !part.uncompressed_length;
}

// Returns the number of decoded bytes. If the call fails because the file cannot be read, sets
// `is_read_error`.
result<std::uint64_t> decoded_bytes(input& from, std::uint64_t begin, std::uint64_t end,
                                    std::uint64_t& budget, bool& is_read_error) {
  auto decoder = make_decoder(codec::zstd, 1);
  if (!decoder) return decoder.error();
  std::vector<std::byte> ignored(decoded_at_once);
  std::uint64_t count = 0;
  bool is_whole = true;
  while (begin < end) {
    const auto bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(end - begin, counted_at_once));
    auto stored = from.read(begin, bytes);
    if (!stored) {
      is_read_error = true;
      return stored.error();
    }
    begin += bytes;
    for (std::span<const std::byte> left = *stored;;) {
      auto step = (*decoder)->decode(left, ignored);
      if (!step) return step.error();
      if (step->produced > budget) {
        return fault{
            errc::unsupported_feature, "",
            "the file does not contain the decoded length of this compressed component, and "
            "decoding more than " +
                grouped(zt_counted_bytes_max) + " bytes to count them is not allowed"};
      }
      budget -= step->produced;
      count += step->produced;
      left = left.subspan(step->taken);
      if (step->taken == 0 && step->produced == 0) break;
      is_whole = step->ended;
    }
  }
  if (!is_whole) return malformed_stream("its last frame is cut off");
  return count;
}

}  // namespace

bool lacks_zt_lengths(const zt_object& object, const zt_blob_rules& blobs) noexcept {
  return blobs.length_by_shape && object.format && *object.format != "dense" && object.components &&
         std::ranges::any_of(*object.components, lacks_its_length);
}

result<void> count_zt_lengths(zt_object& object, input& from, const zt_blob_rules& blobs,
                              std::uint64_t& budget) {
  for (zt_component& part : *object.components) {
    // A component without a range cannot be decoded. add_zt_object() reports the missing range.
    if (!lacks_its_length(part) || !part.offset || !part.length) continue;
    if (*part.offset > blobs.end || *part.length > blobs.end - *part.offset) continue;
    bool is_read_error = false;
    auto count =
        decoded_bytes(from, *part.offset, *part.offset + *part.length, budget, is_read_error);
    if (!count) {
      fault problem = count.error().in(tensor_place(object.name) + ", component '" +
                                       printable(part.name) + "'");
      if (is_read_error) return problem;
      object.unreadable = std::move(problem);
      return {};
    }
    part.uncompressed_length = *count;
  }
  return {};
}

}  // namespace ringload::inline v0
