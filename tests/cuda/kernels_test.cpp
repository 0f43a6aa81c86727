// SPDX-License-Identifier: Apache-2.0

// The kernel itself, on pieces of all sizes, places and types: it writes what the host's conversion
// writes, and no byte beside it. On the stand-in it runs on the processor, on a GPU where there is
// one.

#include "device/cuda/kernels.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/convert.hpp"
#include "core/mapping.hpp"
#include "cuda/on_device.hpp"
#include "device/cuda/handles.hpp"
#include "device/cuda/read_back.hpp"
#include "support/skip.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

bool has_device() {
  std::string why;
  if (cuda_device_count(&why) > 0) return true;
  skip("no CUDA device: " + why);
  return false;
}

constexpr std::size_t source_bytes = std::size_t{4} << 20;
constexpr std::size_t target_bytes = std::size_t{16} << 20;

constexpr float_type from_types[] = {float_type::f32, float_type::f16, float_type::bf16,
                                     float_type::f8_e4m3, float_type::f8_e5m2};
constexpr float_type to_types[] = {float_type::f32, float_type::f16, float_type::bf16};

// A source and a target on the device, and what the target must hold.
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

  // New noise in the source, and the target as it was before anything was written.
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

  // One more piece, a few bytes behind the one before. False where there is no room.
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
    REQUIRE_FALSE(cuda::code_of(cudaStreamSynchronize(on_.get())));
    std::vector<std::byte> found(target_bytes);
    REQUIRE_FALSE(readers_.copy(target_.data(), found));
    CHECK(first_difference(found) == std::nullopt);
  }

 private:
  void copy(void* to, std::size_t bytes) {
    REQUIRE_FALSE(cuda::code_of(
        cudaMemcpyAsync(to, memory_.data(), bytes, cudaMemcpyHostToDevice, on_.get())));
    REQUIRE_FALSE(cuda::code_of(cudaStreamSynchronize(on_.get())));
  }

  std::optional<std::size_t> first_difference(const std::vector<std::byte>& found) const {
    for (std::size_t at = 0; at < target_bytes; ++at) {
      if (found[at] != wanted_[at]) return at;
    }
    return std::nullopt;
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
      const conversion as = {from, to};  // Of a type to itself: a copy of bytes.
      const unsigned most = cuda::scatter_piece::bytes_max / (as.needed() ? as.from_bytes() : 1);
      in.begin();
      // Less than a vector, around one, some, and as much as a piece may have.
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
