// SPDX-License-Identifier: Apache-2.0

// Carries out plans of random inputs, and compares the results element by element.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/checked.hpp"
#include "base/numeric/convert.hpp"
#include "base/numeric/strided_copy.hpp"
#include "plan/random_setting.hpp"
#include "support/effort.hpp"

using namespace ringload;
using namespace ringload::testing;
using namespace ringload::testing::random_plans;

namespace {

constexpr std::byte untouched{0xA5};

// The address of a stored element in the bytes of the file or of the fill value. Null for zeros.
const std::byte* stored_element(const setting& s, const wanted_tensor& t, const numbers& index,
                                const noise_files& files) {
  const tensor_form& form = *t.form;
  if (!form.has_pieces) {
    std::uint64_t at = 0;
    for (std::size_t d = 0; d < index.size(); ++d) at = at * form.shape[d] + index[d];
    return files.at(t.file, t.offset + at * form.element_bits / 8);
  }
  for (const stored_box& piece : form.pieces) {
    bool inside = true;
    std::uint64_t at = piece.first_byte;
    for (std::size_t d = 0; d < index.size(); ++d) {
      inside =
          inside && index[d] >= piece.origin[d] && index[d] < piece.origin[d] + piece.extent[d];
      at += (index[d] - piece.origin[d]) * piece.stride_bytes[d];
    }
    if (!inside) continue;
    const wanted_stream& stream = s.streams[piece.stream];
    const bool in_memory = stream.storage == wanted_stream::kind::in_memory;
    return files.at(in_memory ? memory_file : stream.file, stream.offset + at);
  }
  return form.fill.empty() ? nullptr : form.fill.data();
}

void land(const std::byte* stored, std::byte* to, const wanted_tensor& t) {
  const std::uint32_t element = t.form->element_bits / 8;
  bytes one(element);
  if (stored) one.assign(stored, stored + element);
  const std::uint32_t unit = t.form->swap_bytes;
  for (std::size_t at = 0; unit != 0 && at < one.size(); at += unit) {
    std::reverse(one.begin() + static_cast<std::ptrdiff_t>(at),
                 one.begin() + static_cast<std::ptrdiff_t>(at + unit));
  }
  if (t.cast.needed()) return convert(one.data(), to, 1, t.cast);
  std::memcpy(to, one.data(), one.size());
}

// Copies element by element. `to` is the destination of the box's first element.
void land_all(const setting& s, const wanted_tensor& t, std::byte* to, const noise_files& files) {
  if (!t.form) {
    std::memcpy(to, files.at(t.file, t.offset), t.bytes);
    return;
  }
  const tensor_form& form = *t.form;
  const numbers counts = box_counts(form);
  if (product(counts) == 0) return;
  const std::uint64_t landed = t.cast.needed() ? t.cast.to_bytes() : form.element_bits / 8;
  numbers index(counts.size(), 0);
  for (std::uint64_t n = 0; n < product(counts); ++n) {
    std::uint64_t rest = n;
    std::int64_t at = 0;
    for (std::size_t d = counts.size(); d > 0; --d) {
      const std::uint64_t i = rest % counts[d - 1];
      rest /= counts[d - 1];
      index[d - 1] = i + (form.box.empty() ? 0 : form.box[d - 1].begin);
      if (!form.destination_strides.empty()) {
        at += static_cast<std::int64_t>(i) * form.destination_strides[d - 1];
      }
    }
    if (form.element_bits == 4) {
      // Copies both elements of a byte.
      if (n % 2 == 0) to[n / 2] = *stored_element(s, t, index, files);
      continue;
    }
    if (form.destination_strides.empty()) at = static_cast<std::int64_t>(n * landed);
    land(stored_element(s, t, index, files), to + at, t);
  }
}

class execution {
 public:
  execution(const setting& s, const plan& p, const noise_files& files)
      : s_(s), p_(p), files_(files), streams_(p.streams.size()), missing_(p.tensors.size()) {
    memory_.push_back(arena(p.arenas[0]));
    for (const caller_memory& m : s.destinations) memory_.emplace_back(m.bytes, untouched);
    for (std::size_t a = 1; a < p.arenas.size(); ++a) memory_.push_back(arena(p.arenas[a]));
    wanted_ = memory_;
    for (std::size_t t = 0; t < s.tensors.size(); ++t) {
      land_all(s, s.tensors[t], at(wanted_, p.tensors[t]), files);
    }
    for (const part& each : p.parts) missing_[each.tensor] += completions_needed(each);
  }

  void run(chance& by);

 private:
  // Mapped up to the end of the last block.
  bytes arena(const planned_arena& of) const {
    if (!of.is_mapped()) return bytes(of.bytes, untouched);
    REQUIRE(of.file_offset % block_bytes == 0);
    const std::byte* const from = files_.at(of.file, of.file_offset);
    return {from, from + round_up(of.bytes, std::uint64_t{block_bytes})};
  }
  static std::byte* at(std::vector<bytes>& memory, const placement& of) {
    return memory[of.destination].data() + of.destination_offset;
  }
  void check_reads() const;
  void fill();
  void carry_out(std::uint32_t index);
  void put(const std::byte* from, const stream_output& out);
  void decode(std::uint32_t index);
  void complete(std::uint32_t tensor);

  const setting& s_;
  const plan& p_;
  const noise_files& files_;
  std::vector<bytes> memory_;  // By destination.
  std::vector<bytes> wanted_;
  std::vector<bytes> streams_;  // The received bytes of each stream.
  std::vector<std::uint32_t> missing_;
  std::uint32_t whole_ = 0;
};

void execution::check_reads() const {
  for (const read_op& r : p_.reads) {
    REQUIRE(r.file_offset % block_bytes == 0);
    REQUIRE(r.bytes == round_up<std::uint64_t>(r.bytes_needed, block_bytes));
    REQUIRE(r.bytes_needed > 0);
    REQUIRE(r.bytes <= s_.within.slot_bytes);
    REQUIRE(r.file_offset + r.bytes_needed <= s_.file_end[r.file]);
    if (!r.is_unstaged()) continue;
    REQUIRE(r.destination_offset + r.bytes <= memory_[r.destination].size());
    if (!s_.input().is_caller_memory(r.destination)) continue;
    const caller_memory& memory = s_.destinations[r.destination - 1];
    REQUIRE(memory.unstaged);
    REQUIRE((memory.address + r.destination_offset) % s_.within.direct_alignment == 0);
    REQUIRE(r.bytes == r.bytes_needed);
  }
  for (std::uint32_t i = 0; i < p_.parts.size(); ++i) {
    for (std::uint32_t r = p_.parts[i].reads_begin; r < p_.parts[i].reads_end; ++r) {
      REQUIRE((p_.reads[r].parts_begin <= i && i < p_.reads[r].parts_end));
    }
  }
}

void execution::fill() {
  for (const fill_op& f : p_.fills) {
    copy_strided(p_.maps[f.map], std::span(p_.fill_values).subspan(f.value, f.value_bytes), 0,
                 memory_[f.destination].data() + f.destination_offset);
  }
}

void execution::complete(std::uint32_t tensor) {
  REQUIRE(missing_[tensor] > 0);
  if (--missing_[tensor] > 0) return;
  // All elements must have arrived. The bytes between the elements are checked at the end.
  const placement& place = p_.tensors[tensor];
  const wanted_tensor& t = s_.tensors[tensor];
  ++whole_;
  if (t.form && !t.form->destination_strides.empty()) return;
  REQUIRE(std::memcmp(at(memory_, place), at(wanted_, place), place.bytes) == 0);
}

void execution::put(const std::byte* from, const stream_output& out) {
  std::byte* const to = memory_[out.destination].data() + out.destination_offset;
  if (out.map != no_index) {
    copy_strided(p_.maps[out.map], {from, out.bytes}, 0, to);
  } else if (out.cast.needed()) {
    convert(from, to, out.bytes / out.cast.from_bytes(), out.cast);
  } else {
    std::memcpy(to, from, out.bytes);
  }
}

void execution::decode(std::uint32_t index) {
  const stream_op& op = p_.streams[index];
  const wanted_stream& of = s_.streams[op.stream];
  const bool in_memory = of.storage == wanted_stream::kind::in_memory;
  REQUIRE(op.bytes_needed <= of.decoded_bytes);
  for (std::uint32_t o = op.outputs_begin; o < op.outputs_end; ++o) {
    const stream_output& out = p_.outputs[o];
    REQUIRE(out.stream == index);
    REQUIRE(out.stream_offset + out.bytes <= op.bytes_needed);
    const std::byte* const from =
        in_memory ? files_.at(memory_file, of.offset) : streams_[index].data();
    put(from + out.stream_offset, out);
  }
  for (const part& each : p_.parts) {
    if (each.stream == index) complete(each.tensor);
  }
}

void execution::carry_out(std::uint32_t index) {
  const read_op& r = p_.reads[index];
  bytes slot(s_.within.slot_bytes, std::byte{0xEE});
  // The kernel may write all requested bytes, also after the end of the file. The test writes
  // random bytes there.
  std::byte* const into =
      r.is_unstaged() ? memory_[r.destination].data() + r.destination_offset : slot.data();
  std::memcpy(into, files_.at(r.file, r.file_offset), r.bytes);
  for (std::uint32_t c = r.copies_begin; c < r.copies_end; ++c) {
    const copy_op& copy = p_.copies[c];
    REQUIRE(std::uint64_t{copy.slot_offset} + copy.bytes <= r.bytes_needed);
    std::byte* const to = memory_[copy.destination].data() + copy.destination_offset;
    const bytes from(into + copy.slot_offset, into + copy.slot_offset + copy.bytes);
    if (copy.map != no_index) {
      copy_strided(p_.maps[copy.map], from, copy.source_offset, to);
    } else if (copy.cast.needed()) {
      convert(from.data(), to, copy.bytes / copy.cast.from_bytes(), copy.cast);
    } else {
      std::memcpy(to, from.data(), from.size());
    }
  }
  for (std::uint32_t i = r.parts_begin; i < r.parts_end; ++i) {
    if (p_.parts[i].is_fed_by(index) && p_.parts[i].stream == no_index)
      complete(p_.parts[i].tensor);
  }
  for (std::uint32_t f = r.feeds_begin; f < r.feeds_end; ++f) {
    const feed_op& feed = p_.feeds[f];
    const stream_op& of = p_.streams[feed.stream];
    // A read of a chain contains no other bytes.
    if (of.is_chain())
      REQUIRE((r.feeds_end - r.feeds_begin == 1 && r.copies_begin == r.copies_end));
    REQUIRE(streams_[feed.stream].size() == feed.stream_offset);
    streams_[feed.stream].insert(streams_[feed.stream].end(), slot.begin() + feed.slot_offset,
                                 slot.begin() + feed.slot_offset + feed.bytes);
    if (streams_[feed.stream].size() == s_.streams[of.stream].bytes) decode(feed.stream);
  }
}

void execution::run(chance& by) {
  check_reads();
  fill();
  for (std::uint32_t i = 0; i < p_.streams.size(); ++i) {
    if (p_.streams[i].reads_begin == p_.streams[i].reads_end) decode(i);
  }
  std::vector<std::uint32_t> order = p_.order;
  if (order.empty()) {
    for (std::uint32_t r = 0; r < p_.reads.size(); ++r) order.push_back(r);
  }
  // Only the reads of a chain need their order.
  if (std::ranges::none_of(p_.streams, &stream_op::is_chain)) {
    std::shuffle(order.begin(), order.end(), by.engine());
  }
  REQUIRE(order.size() == p_.reads.size());
  for (const std::uint32_t r : order) carry_out(r);
  for (const std::uint32_t missing : missing_) REQUIRE(missing == 0);
  // In arenas, bytes between tensors may have any value.
  for (std::size_t d = 1; d <= s_.destinations.size(); ++d) {
    CAPTURE(d);
    REQUIRE(memory_[d] == wanted_[d]);
  }
  for (std::size_t t = 0; t < s_.tensors.size(); ++t) {
    CAPTURE(t);
    const placement& place = p_.tensors[t];
    const tensor_form* form = s_.tensors[t].form;
    if (s_.input().is_caller_memory(place.destination)) continue;
    if (form && form->block != tensor_form::no_block) continue;
    REQUIRE(std::memcmp(at(memory_, place), at(wanted_, place), place.bytes) == 0);
  }
  // All bytes of a block belong to its tensors.
  for (std::size_t b = 0; b < s_.blocks.size(); ++b) {
    const auto from = static_cast<std::ptrdiff_t>(p_.blocks[b]);
    const auto to = from + static_cast<std::ptrdiff_t>(s_.blocks[b].bytes);
    const std::uint32_t d = s_.input().destination_of(s_.blocks[b].arena);
    REQUIRE(
        std::equal(memory_[d].begin() + from, memory_[d].begin() + to, wanted_[d].begin() + from));
  }
}

}  // namespace

namespace {

constexpr unsigned settings = 10 * ringload::testing::effort_percent;

}  // namespace

TEST_CASE(
    "make_plan: brings every element to its place and writes nothing else, whatever is wanted") {
  const noise_files files;
  unsigned maps = 0;
  unsigned chains = 0;
  unsigned unstaged = 0;
  unsigned fills = 0;
  unsigned turns = 0;
  unsigned views = 0;
  for (unsigned seed = 0; seed < settings; ++seed) {
    CAPTURE(seed);
    const setting s = random_setting(seed);
    const auto made = make_plan(s.input(), s.rules, s.within);
    REQUIRE(made.has_value());
    chance order(seed);
    execution(s, *made, files).run(order);
    maps += made->maps.empty() ? 0 : 1;
    for (const stream_op& op : made->streams) chains += op.is_chain() ? 1 : 0;
    for (const read_op& r : made->reads) unstaged += r.is_unstaged() && r.destination != 0 ? 1 : 0;
    fills += made->fills.empty() ? 0 : 1;
    turns += made->order.empty() ? 0 : 1;
    for (const planned_arena& a : made->arenas) views += a.is_mapped() ? 1 : 0;
  }
  // Every case must occur. Otherwise the random inputs are too simple.
  CHECK(maps * 10 > settings * 3);
  CHECK(chains * 10 > settings);
  CHECK(unstaged * 40 > settings);
  CHECK(fills * 40 > settings);
  CHECK(turns * 40 > settings);
  CHECK(views * 20 > settings);
}
