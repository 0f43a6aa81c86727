// SPDX-License-Identifier: Apache-2.0

// The kernels, with pieces and boxes of all sizes, positions and types. They must write the same
// bytes as the copies of the host, and no other byte. Runs on the CPU with the stand-in, and on a
// GPU if the machine has one.

#include "device/cuda/kernels.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/mapping.hpp"
#include "base/numeric/convert.hpp"
#include "base/numeric/dequantize.hpp"
#include "base/numeric/strided_copy.hpp"
#include "cuda/any_runtime.hpp"
#include "cuda/on_device.hpp"
#include "device/cuda/copy_to_host.hpp"
#include "device/cuda/raii.hpp"
#include "device/cuda/strided_pieces.hpp"
#include "support/effort.hpp"
#include "support/skip.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::size_t source_bytes = std::size_t{4} << 20;
constexpr std::size_t target_bytes = std::size_t{16} << 20;

constexpr float_type from_types[] = {float_type::f32, float_type::f16, float_type::bf16,
                                     float_type::f8_e4m3fn, float_type::f8_e5m2};
constexpr float_type to_types[] = {float_type::f32, float_type::f16, float_type::bf16};

// A source and a target on the device, and the expected bytes of the target.
class scene {
 public:
  scene() : random_(7), wanted_(target_bytes, std::byte{0x11}) {
    REQUIRE_FALSE(cuda::use_device(0));
    REQUIRE_FALSE(cuda::code_of(cuda::load_kernels()));
    REQUIRE_FALSE(on_.open());
    REQUIRE_FALSE(staging_.take(source_bytes));
    REQUIRE_FALSE(target_.take(target_bytes));
    auto made = mapping::make(target_bytes, page_kind::transparent);
    REQUIRE(made.has_value());
    memory_ = std::move(*made);
    REQUIRE_FALSE(
        cuda::code_of(cudaHostRegister(memory_.data(), memory_.bytes(), cudaHostRegisterMapped)));
  }
  scene(const scene&) = delete;
  scene& operator=(const scene&) = delete;
  ~scene() { CHECK_FALSE(cuda::code_of(cudaHostUnregister(memory_.data()))); }

  unsigned pick(unsigned below) { return static_cast<unsigned>(random_() % below); }

  // Fills the source with random bytes, and restores the target.
  void begin() {
    std::fill(wanted_.begin(), wanted_.end(), std::byte{0x11});
    std::memcpy(memory_.data(), wanted_.data(), target_bytes);
    copy(target_.data(), target_bytes);
    source_.resize(source_bytes);
    for (auto& byte : source_) byte = static_cast<std::byte>(random_() >> 8);
    std::memcpy(memory_.data(), source_.data(), source_bytes);
    copy(staging_.data(), source_bytes);
    next_ = 0;
    table_ = {};
  }

  // Adds a piece a few bytes after the previous piece. Returns false if there is no space.
  bool add(conversion as, std::uint32_t elements) {
    const std::size_t from_size = as.needed() ? as.from_bytes() : 1;
    const std::size_t to_size = as.needed() ? as.to_bytes() : 1;
    const std::size_t from = pick(static_cast<unsigned>(source_bytes - elements * from_size));
    const std::size_t to = (next_ + pick(40) + to_size - 1) / to_size * to_size;
    if (to + elements * to_size > target_bytes) return false;
    if (table_.count == cuda::scatter_table::pieces_max) return false;
    next_ = to + elements * to_size;
    table_.pieces[table_.count++] = {staging_.data() + from, target_.data() + to, elements, as};
    if (as.needed()) {
      convert(source_.data() + from, wanted_.data() + to, elements, as);
    } else {
      std::memcpy(wanted_.data() + to, source_.data() + from, elements);
    }
    return true;
  }

  void launch() {
    REQUIRE_FALSE(cuda::code_of(cuda::launch_scatter(table_, on_.get())));
    compare();
  }

  // Adds a copy with a map. The stored bytes [first, first + bytes) of the map are at `from` in the
  // source. The target of element (0, 0, ...) is `to`. copy_strided() computes the expected bytes
  // on the host.
  void copy_map(const strided_map& map, std::uint64_t first, std::uint32_t bytes,
                std::uint32_t from, std::uint64_t to) {
    copy_strided(map, std::span(source_).subspan(from, bytes), first, wanted_.data() + to);
    copy_op one = {};
    one.map = 0;
    one.source_offset = first;
    box(one, from, bytes, to, {&map, 1});
  }

  void dequantize_blocks(conversion as, std::uint32_t blocks, std::uint32_t from,
                         std::uint64_t to) {
    const std::uint32_t bytes = blocks * as.from_bytes();
    dequantize(block_of(as.from), source_.data() + from, wanted_.data() + to, blocks, as.to);
    copy_op one = {};
    one.cast = as;
    box(one, from, bytes, to, {});
  }

  void compare() {
    REQUIRE_FALSE(cuda::code_of(cudaStreamSynchronize(on_.get())));
    std::vector<std::byte> found(target_bytes);
    REQUIRE_FALSE(readers_.copy(target_.data(), found));
    CHECK(first_difference(found) == std::nullopt);
  }

 private:
  void box(copy_op one, std::uint32_t from, std::uint32_t bytes, std::uint64_t to,
           std::span<const strided_map> maps) {
    one.slot_offset = from;
    one.bytes = bytes;
    one.destination = 0;
    one.destination_offset = to;
    std::byte* const target = target_.data();
    copy_operation op;
    op.slot = staging_.data();
    op.copies = {&one, 1};
    op.maps = maps;
    op.destinations = {&target, 1};
    std::vector<cuda::box_piece> pieces;
    cuda::add_boxes(op, op.copies, pieces);
    for (std::size_t at = 0; at < pieces.size(); at += cuda::box_table::pieces_max) {
      cuda::box_table table = {};
      while (table.count < cuda::box_table::pieces_max && at + table.count < pieces.size()) {
        table.pieces[table.count] = pieces[at + table.count];
        ++table.count;
      }
      REQUIRE_FALSE(cuda::code_of(cuda::launch_boxes(table, on_.get())));
    }
  }

  void copy(void* to, std::size_t bytes) {
    REQUIRE_FALSE(cuda::code_of(
        cudaMemcpyAsync(to, memory_.data(), bytes, cudaMemcpyHostToDevice, on_.get())));
    REQUIRE_FALSE(cuda::code_of(cudaStreamSynchronize(on_.get())));
  }

  std::optional<std::size_t> first_difference(const std::vector<std::byte>& found) const {
    if (std::memcmp(found.data(), wanted_.data(), target_bytes) == 0) return std::nullopt;
    const auto at = std::ranges::mismatch(found, wanted_).in1 - found.begin();
    return static_cast<std::size_t>(at);
  }

  std::minstd_rand random_;
  cuda::stream on_;
  cuda::device_buffer staging_;
  cuda::device_buffer target_;
  cuda::read_back_pool readers_;
  mapping memory_;
  std::vector<std::byte> source_;
  std::vector<std::byte> wanted_;
  cuda::scatter_table table_ = {};
  std::size_t next_ = 0;
};

}  // namespace

TEST_CASE("kernel: each type becomes each other at any place, and nothing beside it is written") {
  if (!has_device()) return;
  scene in;
  for (const float_type from : from_types) {
    for (const float_type to : to_types) {
      const conversion as = {from, to};  // A type to itself is a copy of bytes.
      const unsigned most = cuda::scatter_piece::bytes_max / (as.needed() ? as.from_bytes() : 1);
      in.begin();
      // Fewer bytes than a vector, about one vector, several vectors, and a piece of maximum size.
      for (std::uint32_t elements = 1; elements < 40; ++elements) REQUIRE(in.add(as, elements));
      for (unsigned i = 0; i < 20; ++i) REQUIRE(in.add(as, 1 + in.pick(1000)));
      for (unsigned i = 0; i < 4; ++i) REQUIRE(in.add(as, most - i));
      in.launch();
    }
  }
}

TEST_CASE("kernel: pieces of all types stand in one table, which may be full") {
  if (!has_device()) return;
  scene in;
  for (int round = 0; round < 5; ++round) {
    in.begin();
    for (unsigned i = 0; i < cuda::scatter_table::pieces_max; ++i) {
      const conversion as = {from_types[in.pick(5)], to_types[in.pick(3)]};
      REQUIRE(in.add(as, 1 + in.pick(in.pick(4) == 0 ? 8000 : 50)));
    }
    in.launch();
  }
}

namespace {

// A box with random strides in the source. In the target, the dimensions have a random order, gaps
// and negative strides, and no two elements overlap.
struct random_box {
  std::vector<strided_dimension> dimensions;
  element_form element;
  std::uint64_t to = 0;  // The target of element (0, 0, ...).

  explicit random_box(scene& in) {
    constexpr std::uint32_t widths[] = {1, 2, 4, 8, 16, 3, 12};
    element.bytes = widths[in.pick(7)];
    if (in.pick(3) == 0) {
      element.cast = {from_types[in.pick(5)], to_types[in.pick(3)]};
      if (element.cast.needed()) element.bytes = element.cast.from_bytes();
    } else if (in.pick(4) == 0) {
      element.cast = {kind_of(static_cast<block_type>(in.pick(block_type_count))),
                      to_types[in.pick(3)]};
      element.bytes = element.cast.from_bytes();
    }
    const bool swaps = !is_block(element.cast.from) && element.bytes % 2 == 0 && in.pick(3) == 0;
    if (swaps && element.cast.needed())
      element.swap_bytes = static_cast<std::uint8_t>(element.bytes);
    if (swaps && !element.cast.needed()) {
      element.swap_bytes = element.bytes % 8 == 0 ? 8 : element.bytes % 4 == 0 ? 4 : 2;
    }
    const unsigned rank = in.pick(6);
    for (unsigned d = 0; d < rank; ++d) {
      dimensions.push_back({1 + in.pick(rank > 3 ? 4 : rank > 1 ? 14 : 500), 0, 0});
    }
    std::vector<std::size_t> order(rank);
    for (std::size_t i = 0; i < rank; ++i) order[i] = i;
    const auto shuffle = [&] {
      for (std::size_t i = rank; i > 1; --i) std::swap(order[i - 1], order[in.pick(unsigned(i))]);
    };
    if (in.pick(3) > 0) shuffle();
    std::uint64_t stride = element.cast.needed() ? element.cast.to_bytes() : element.bytes;
    for (const std::size_t d : order) {
      if (in.pick(6) == 0) stride += 1 + in.pick(9);
      dimensions[d].destination_stride = static_cast<std::int64_t>(stride);
      stride *= dimensions[d].count;
      if (in.pick(6) > 0) continue;
      to +=
          (dimensions[d].count - 1) * static_cast<std::uint64_t>(dimensions[d].destination_stride);
      dimensions[d].destination_stride *= -1;
    }
    if (in.pick(2) == 0) shuffle();
    const bool anyhow = in.pick(4) == 0;
    stride = element.bytes;
    for (const std::size_t d : order) {
      if (in.pick(6) == 0) stride += 1 + in.pick(9);
      dimensions[d].source_stride = in.pick(8) == 0 ? 0 : anyhow ? in.pick(40) : stride;
      stride *= dimensions[d].count;
    }
    to += in.pick(64);
  }
};

}  // namespace

TEST_CASE("kernel: boxes by random maps, whole and in ranges, land as the host's copy has them") {
  if (!has_device()) return;
  scene in;
  unsigned boxes = 0;
  for (unsigned round = 0; round < effort_percent / 2; ++round) {
    const random_box one(in);
    const coalesced_box made = coalesced(one.dimensions, one.element);
    const std::uint64_t stored = made.map.source_bytes();
    if (!made.outer.empty() || stored == 0 || stored > source_bytes / 2) continue;
    in.begin();
    const std::uint32_t at = in.pick(1000);
    // Consecutive ranges overlap by one byte less than an element, as in a plan.
    const std::uint64_t step =
        in.pick(3) == 0 ? stored / 20 + 1 + in.pick(unsigned(stored)) : stored;
    for (std::uint64_t first = 0; first < stored;) {
      const std::uint64_t last =
          std::min(stored, first + std::max<std::uint64_t>(step, made.map.element_bytes));
      in.copy_map(made.map, first, static_cast<std::uint32_t>(last - first),
                  static_cast<std::uint32_t>(at + first), one.to);
      first = last == stored ? stored : last - (made.map.element_bytes - 1);
    }
    in.compare();
    ++boxes;
  }
  CHECK(boxes > effort_percent / 4);
}

TEST_CASE("kernel: blocks of each type become the numbers that the host makes of them") {
  if (!has_device()) return;
  scene in;
  for (unsigned type = 0; type < block_type_count; ++type) {
    for (const float_type to : to_types) {
      in.begin();
      std::uint64_t at = 0;
      for (const std::uint32_t blocks : {1U, 2U, 7U, 3 * effort_percent}) {
        const conversion as = {kind_of(static_cast<block_type>(type)), to};
        in.dequantize_blocks(as, blocks, in.pick(100'000), at);
        at += std::uint64_t{blocks} * as.to_bytes() + in.pick(3) * bytes_of(to);
      }
      in.compare();
    }
  }
}
