// SPDX-License-Identifier: Apache-2.0
#pragma once

// Properties of the entries that any parser returns for any file.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/shape.hpp"
#include "fuzz.hpp"

namespace ringload::testing {

inline void hold_stream(const stored_stream& stream, std::uint64_t file_bytes) {
  if (stream.file == 0 && stream.in_memory == nullptr) {
    hold(stream.offset <= file_bytes && stream.bytes <= file_bytes - stream.offset,
         "a stream lies in its file");
  }
  if (stream.stored_codec == codec::raw && !stream.fletcher32 && stream.in_memory == nullptr) {
    hold(stream.bytes == stream.decoded_bytes, "raw bytes are their own");
  }
}

// The elements of the box are inside the decoded stream, and the box is inside the tensor.
inline void hold_piece(const piece& p, const entry& of) {
  const std::size_t rank = of.shape.size();
  hold(p.origin.size() == rank && p.extent.size() == rank && p.stride_bytes.size() == rank,
       "a box has the dimensions of its tensor");
  if (bits(of.dtype) % 8 != 0) return;
  std::uint64_t last = p.first_byte;
  for (std::size_t d = 0; d < rank; ++d) {
    hold(p.extent[d] != 0, "a box is not empty");
    hold(p.origin[d] <= of.shape[d] && p.extent[d] <= of.shape[d] - p.origin[d],
         "a box lies in its tensor");
    const auto along = checked_multiply(p.extent[d] - 1, p.stride_bytes[d]);
    hold(along.has_value(), "a box does not leave 64 bits");
    const auto sum = checked_add(last, *along);
    hold(sum.has_value(), "a box does not leave 64 bits");
    last = *sum;
  }
  const auto end = checked_add(last, bits(of.dtype) / 8);
  hold(end && *end <= p.stored.decoded_bytes, "a box lies in its stream");
}

inline void hold_entry(const entry& e, std::uint64_t file_bytes) {
  const auto elements = element_count(e.shape);
  hold(elements.has_value(), "a shape does not leave 64 bits");
  const auto width = checked_multiply(*elements, bits(e.dtype));
  hold(width && *width / 8 == e.bytes && *width % 8 == 0, "a tensor has the bytes of its shape");
  if (e.stored == nullptr) {
    hold(e.offset <= file_bytes && e.bytes <= file_bytes - e.offset, "an extent lies in its file");
    return;
  }
  std::uint64_t covered = 0;
  for (const piece& p : e.stored->pieces) {
    hold_stream(p.stored, file_bytes);
    hold_piece(p, e);
    covered += element_count(p.extent).value_or(0);
  }
  hold(covered <= *elements, "boxes do not have more elements than the tensor");
  const unsigned swap = e.stored->swap_bytes;
  hold(swap == 0 || swap == 2 || swap == 4 || swap == 8, "bytes are swapped in units");
}

inline void hold_entries(const file_entries& found, std::uint64_t file_bytes) {
  std::pair<std::uint32_t, std::uint64_t> before = {};
  for (const entry& e : found.tensors) {
    hold_entry(e, file_bytes);
    const bool elsewhere = e.stored != nullptr && !e.stored->pieces.empty();
    const std::pair at{elsewhere ? e.stored->pieces.front().stored.file : 0, e.offset};
    hold(at >= before, "tensors stand in file order");
    before = at;
  }
}

inline void hold_fault(const fault& why) {
  const std::string text = message_of(why);
  hold(!text.empty() && text.find('\n') == std::string::npos && text.size() < 2000,
       "an error is a line");
}

}  // namespace ringload::testing
