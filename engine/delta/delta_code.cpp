// SPDX-License-Identifier: Apache-2.0

#include "delta/delta_code.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace ringload::inline v0 {

namespace {

// The processor does not predict the next changed elements, because the gaps between them differ.
// Therefore apply_sparse() prefetches the memory at this distance after each changed element. 1,024
// bytes are too near, and 2,048 bytes are slightly slower.
constexpr std::size_t prefetch_distance = 4096;

constexpr unsigned leb128_bits = 7;
constexpr std::uint8_t leb128_more = 0x80;  // Bit that is set if another byte follows.

template <class Element>
Element load(const std::byte* from) noexcept {
  Element element;
  std::memcpy(&element, from, sizeof element);
  return element;
}

// Compares two versions of a tensor. Calls `visit(index, exclusive_or)` for each element that
// differs.
template <class Element, class Visit>
void visit_changed(std::span<const std::byte> before, std::span<const std::byte> after,
                   const Visit& visit) {
  constexpr std::size_t word_bytes = 64;
  const std::size_t bytes = before.size();
  std::size_t offset = 0;
  while (offset < bytes) {
    // Most elements are equal, so 64 bytes are compared at once.
    if (bytes - offset >= word_bytes &&
        std::memcmp(before.data() + offset, after.data() + offset, word_bytes) == 0) {
      offset += word_bytes;
      continue;
    }
    const std::size_t end = std::min(offset + word_bytes, bytes);
    for (; offset < end; offset += sizeof(Element)) {
      const auto difference = static_cast<Element>(load<Element>(before.data() + offset) ^
                                                   load<Element>(after.data() + offset));
      if (difference != 0) visit(offset / sizeof(Element), difference);
    }
  }
}

// Stores byte i of `element` at planes[i * count + index].
template <class Element>
void store_planes(std::byte* planes, std::uint64_t count, std::uint64_t index,
                  Element element) noexcept {
  for (std::size_t i = 0; i < sizeof(Element); ++i) {
    planes[i * count + index] = static_cast<std::byte>(element >> (8 * i));
  }
}

template <class Element>
Element load_planes(const std::byte* planes, std::uint64_t count, std::uint64_t index) noexcept {
  Element element = 0;
  for (std::size_t i = 0; i < sizeof(Element); ++i) {
    element = static_cast<Element>(
        element | static_cast<Element>(static_cast<Element>(planes[i * count + index]) << (8 * i)));
  }
  return element;
}

// Calls `work.operator()<Element>()`, where Element is the unsigned integer type of `width` bytes.
template <class Work>
auto with_element(std::uint32_t width, const Work& work) {
  switch (width) {
    case 1: return work.template operator()<std::uint8_t>();
    case 2: return work.template operator()<std::uint16_t>();
    case 4: return work.template operator()<std::uint32_t>();
    default: return work.template operator()<std::uint64_t>();
  }
}

// Reads one number, and moves `from` behind the number.
inline std::uint64_t read_leb128(const std::byte*& from) noexcept {
  auto byte = static_cast<std::uint8_t>(*from++);
  std::uint64_t number = byte & (leb128_more - 1U);
  for (unsigned shift = leb128_bits; (byte & leb128_more) != 0; shift += leb128_bits) {
    byte = static_cast<std::uint8_t>(*from++);
    number |= static_cast<std::uint64_t>(byte & (leb128_more - 1U)) << shift;
  }
  return number;
}

// The number and the sum of gaps, if every gap has one or two bytes.
struct short_gaps {
  std::uint64_t count = 0;
  std::uint64_t sum = 0;
  bool are_short = true;  // False if a gap has three bytes or more, or is incomplete.
};

// Adds all gaps. The compiler vectorises the inner loop.
short_gaps add_short_gaps(std::span<const std::byte> gaps) noexcept {
  constexpr std::size_t block_bytes = std::size_t{1} << 20;  // The sums of a block fit 32 bits.
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(gaps.data());
  const std::size_t size = gaps.size();
  short_gaps total;
  if (size == 0) return total;
  total.are_short = bytes[size - 1] < leb128_more;
  total.count = bytes[0] < leb128_more ? 1 : 0;
  total.sum = bytes[0] & (leb128_more - 1U);
  for (std::size_t begin = 1; begin < size; begin += block_bytes) {
    const std::size_t end = std::min(begin + block_bytes, size);
    std::uint32_t count = 0;
    std::uint32_t low = 0;   // The sum of all digits. A digit is the low 7 bits of a byte.
    std::uint32_t high = 0;  // The sum of the second digits.
    std::uint8_t has_long = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint8_t digit = bytes[i] & (leb128_more - 1U);
      const std::uint8_t follows = static_cast<std::uint8_t>(bytes[i - 1] >> leb128_bits);
      const std::uint8_t ends = static_cast<std::uint8_t>(bytes[i] >> leb128_bits) ^ 1U;
      count += ends;
      low += digit;
      high += static_cast<std::uint8_t>(digit & static_cast<std::uint8_t>(-follows));
      has_long |= static_cast<std::uint8_t>(follows & (ends ^ 1U));
    }
    total.count += count;
    total.sum += low + std::uint64_t{leb128_more - 1U} * high;
    total.are_short = total.are_short && has_long == 0;
  }
  return total;
}

fault malformed(std::string cause) { return {errc::malformed_stream, {}, std::move(cause)}; }

}  // namespace

std::uint32_t delta_width(dtype type) noexcept {
  switch (bits(type)) {
    case 16: return 2;
    case 32: return 4;
    case 64:
    case 128: return 8;
    default: return 1;
  }
}

void append_gap(std::vector<std::byte>& gaps, std::uint64_t gap) {
  while (gap >= leb128_more) {
    gaps.push_back(static_cast<std::byte>(gap | leb128_more));
    gap >>= leb128_bits;
  }
  gaps.push_back(static_cast<std::byte>(gap));
}

std::uint64_t count_changed(std::span<const std::byte> before, std::span<const std::byte> after,
                            std::uint32_t width) noexcept {
  std::uint64_t changed = 0;
  with_element(width, [&]<class Element>() {
    visit_changed<Element>(before, after, [&](std::uint64_t, Element) { ++changed; });
  });
  return changed;
}

sparse_change encode_sparse(std::span<const std::byte> before, std::span<const std::byte> after,
                            std::uint32_t width, std::uint64_t changed) {
  sparse_change out;
  out.gaps.reserve(changed + changed / 8);
  out.planes.resize(changed * width);
  with_element(width, [&]<class Element>() {
    std::uint64_t index = 0;
    std::uint64_t expected = 0;
    visit_changed<Element>(before, after, [&](std::uint64_t element, Element difference) {
      append_gap(out.gaps, element - expected);
      expected = element + 1;
      store_planes(out.planes.data(), changed, index++, difference);
    });
  });
  return out;
}

std::vector<std::byte> encode_dense(std::span<const std::byte> before,
                                    std::span<const std::byte> after, std::uint32_t width) {
  std::vector<std::byte> planes(before.size());
  const std::uint64_t count = before.size() / width;
  with_element(width, [&]<class Element>() {
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::size_t offset = i * sizeof(Element);
      store_planes(planes.data(), count, i,
                   static_cast<Element>(load<Element>(before.data() + offset) ^
                                        load<Element>(after.data() + offset)));
    }
  });
  return planes;
}

result<void> check_change(const change_view& change) {
  if (change.planes.size() % change.width != 0) {
    return malformed("the changed elements have " + grouped(change.planes.size()) +
                     " bytes, expected a multiple of " + std::to_string(change.width));
  }
  if (!change.is_sparse) {
    if (change.changed() == change.elements) return {};
    return malformed("the difference has " + grouped(change.changed()) + " elements, expected " +
                     grouped(change.elements));
  }
  // Nearly all differences have short gaps only. The loop below also checks longer gaps, and finds
  // the reason of a failure.
  const short_gaps gaps = add_short_gaps(change.gaps);
  if (gaps.are_short && gaps.count == change.changed() &&
      gaps.sum + gaps.count <= change.elements) {
    return {};
  }
  std::uint64_t changed = 0;
  std::uint64_t end = 0;  // One more than the index of the last changed element.
  std::uint64_t gap = 0;
  unsigned shift = 0;
  for (std::size_t i = 0; i < change.gaps.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(change.gaps[i]);
    const std::uint64_t digits = byte & (leb128_more - 1U);
    if (shift >= 63 && (shift > 63 || digits > 1)) {
      return malformed("byte " + grouped(i) + " of the gaps: the gap exceeds 64 bits");
    }
    gap |= digits << shift;
    shift += leb128_bits;
    if ((byte & leb128_more) != 0) continue;
    if (gap >= change.elements - end) {
      return malformed("byte " + grouped(i) + " of the gaps: the changed element is outside the " +
                       grouped(change.elements) + " elements of the tensor");
    }
    end += gap + 1;
    ++changed;
    gap = 0;
    shift = 0;
  }
  if (shift != 0) return malformed("the last gap is incomplete");
  if (changed == change.changed()) return {};
  return malformed("there are " + grouped(changed) + " gaps and " + grouped(change.changed()) +
                   " changed elements, expected equal numbers");
}

tiled_positions positions_in_tiles(const change_view& change, std::uint32_t tile_elements) {
  tiled_positions out;
  out.positions.reserve(change.changed());
  const std::uint64_t tiles = (change.elements + tile_elements - 1) / tile_elements;
  out.tile_begins.reserve(tiles + 1);
  const std::byte* gap = change.gaps.data();
  std::uint64_t element = 0;
  for (std::uint64_t i = 0; i < change.changed(); ++i) {
    element += read_leb128(gap);
    const std::uint64_t tile = element / tile_elements;
    while (out.tile_begins.size() <= tile) out.tile_begins.push_back(static_cast<std::uint32_t>(i));
    out.positions.push_back(static_cast<std::uint16_t>(element % tile_elements));
    ++element;
  }
  out.tile_begins.resize(tiles + 1, static_cast<std::uint32_t>(change.changed()));
  return out;
}

change_cursor::change_cursor(const change_view& change) noexcept
    : change_(change), changed_(change.changed()), gap_(change.gaps.data()) {
  if (change_.is_sparse && changed_ > 0) next_changed_ = read_leb128(gap_);
}

template <class Element>
void change_cursor::apply_sparse(std::span<std::byte> region) noexcept {
  const std::uint64_t end = position_ + region.size() / sizeof(Element);
  // Local copies stay in registers. The members would be read again after each store to `region`,
  // because the compiler assumes that the store could change the members.
  const std::byte* const planes = change_.planes.data();
  const std::uint64_t changed = changed_;
  const std::uint64_t position = position_;
  const std::byte* gap = gap_;
  std::uint64_t next_changed = next_changed_;
  std::uint64_t index = change_index_;
  while (index < changed && next_changed < end) {
    std::byte* const at_element = region.data() + (next_changed - position) * sizeof(Element);
    __builtin_prefetch(at_element + prefetch_distance, 1);
    const auto difference = load_planes<Element>(planes, changed, index);
    const auto element = static_cast<Element>(load<Element>(at_element) ^ difference);
    std::memcpy(at_element, &element, sizeof element);
    ++next_changed;
    if (++index < changed) next_changed += read_leb128(gap);
  }
  gap_ = gap;
  next_changed_ = next_changed;
  change_index_ = index;
  position_ = end;
}

template <class Element>
void change_cursor::apply_dense(std::span<std::byte> region) noexcept {
  const std::uint64_t count = region.size() / sizeof(Element);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::byte* const at_element = region.data() + i * sizeof(Element);
    const auto difference = load_planes<Element>(change_.planes.data(), changed_, position_ + i);
    const auto element = static_cast<Element>(load<Element>(at_element) ^ difference);
    std::memcpy(at_element, &element, sizeof element);
  }
  position_ += count;
}

void change_cursor::apply(std::span<std::byte> region) noexcept {
  with_element(change_.width, [&]<class Element>() {
    if (change_.is_sparse) {
      apply_sparse<Element>(region);
    } else {
      apply_dense<Element>(region);
    }
  });
}

}  // namespace ringload::inline v0
