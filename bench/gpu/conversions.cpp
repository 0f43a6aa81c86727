// SPDX-License-Identifier: Apache-2.0

// What is scattered and converted on its way: a slot is copied into a staging buffer and taken from
// there by a kernel, as a load has it; beside it what the kernel reaches when it reads pinned
// memory over the bus itself, what it reaches without the bus, and what it takes from copies beside
// it.

#include <array>
#include <span>

#include "device/cuda/kernels.hpp"
#include "gpu.hpp"

namespace ringload::bench {

namespace {

constexpr std::size_t source_bytes = 256 * mib;
constexpr std::size_t slot_bytes = 4 * mib;  // The default of limits.
constexpr unsigned runs = 7;

struct pair {
  conversion how;
  const char* name;
};

constexpr pair pairs[] = {
    {{float_type::f32, float_type::bf16}, "F32 to BF16"},
    {{float_type::f32, float_type::f16}, "F32 to F16"},
    {{float_type::bf16, float_type::f16}, "BF16 to F16"},
    {{float_type::bf16, float_type::f32}, "BF16 to F32"},
    {{float_type::f8_e4m3fn, float_type::bf16}, "F8_E4M3 to BF16"},
};

// Pieces of a slot, one behind the other, each to the next multiple of 256 bytes.
struct layout {
  conversion as;
  std::size_t piece_bytes;
  std::size_t offset = 0;  // Of the first piece from a multiple of 16.
};

void scatter_slot(const std::byte* from, std::byte* to, const layout& how, const stream& on) {
  const std::size_t from_size = how.as.needed() ? how.as.from_bytes() : 1;
  const std::size_t to_size = how.as.needed() ? how.as.to_bytes() : 1;
  cuda::scatter_table table = {};
  for (std::size_t at = how.offset; at + how.piece_bytes <= slot_bytes; at += how.piece_bytes) {
    if (table.count == cuda::scatter_table::pieces_max) {
      check(cuda::launch_scatter(table, on.get()));
      table.count = 0;
    }
    const auto elements = static_cast<std::uint32_t>(how.piece_bytes / from_size);
    table.pieces[table.count++] = {from + at, to, elements, how.as};
    to += (elements * to_size + 255) / 256 * 256;
  }
  check(cuda::launch_scatter(table, on.get()));
}

class scene {
 public:
  scene() { check(cudaHostGetDevicePointer(&over_the_bus_, slots_.data(), 0)); }

  // As a load has it.
  void staged(const layout& how) {
    each_slot([&](std::size_t at, std::size_t lane) {
      const stream& on = lanes_[lane];
      std::byte* const staging = staging_.data() + lane * slot_bytes;
      check(cudaMemcpyAsync(staging, slots_.data() + at, slot_bytes, cudaMemcpyHostToDevice,
                            on.get()));
      scatter_slot(staging, target_.data() + lane * target_bytes, how, on);
    });
  }
  void over_the_bus(const layout& how) {
    each_slot([&](std::size_t at, std::size_t lane) {
      scatter_slot(static_cast<const std::byte*>(over_the_bus_) + at,
                   target_.data() + lane * target_bytes, how, lanes_[lane]);
    });
  }
  void on_the_card(const layout& how) {
    each_slot([&](std::size_t, std::size_t lane) {
      scatter_slot(staging_.data() + lane * slot_bytes, target_.data() + lane * target_bytes, how,
                   lanes_[lane]);
    });
  }
  void copies(const stream& on) {
    each_slot([&](std::size_t at, std::size_t lane) {
      check(cudaMemcpyAsync(target_.data() + lane * target_bytes, slots_.data() + at, slot_bytes,
                            cudaMemcpyHostToDevice, on.get()));
    });
  }
  void wait() const {
    for (const stream& each : lanes_) each.wait();
  }

 private:
  // The most that a slot becomes: single bytes, each of them at a multiple of 256, are not
  // measured.
  static constexpr std::size_t target_bytes = 16 * slot_bytes;

  template <class Work>
  void each_slot(const Work& work) {
    for (std::size_t at = 0; at < source_bytes; at += slot_bytes) {
      work(at, at / slot_bytes % lanes_.size());
    }
  }

  const host_memory slots_{source_bytes, host_memory::pages::huge};
  void* over_the_bus_ = nullptr;
  const device_memory staging_{2 * slot_bytes};
  const device_memory target_{2 * target_bytes};
  const std::array<stream, 2> lanes_;
};

}  // namespace

void measure_conversions() {
  check(cuda::load_kernels());
  scene in;
  const auto row = [&](const std::string& what, const char* expected, const auto& work) {
    const double seconds = seconds_of(runs, [&] {
      work();
      in.wait();
    });
    print_row(what, expected, rate(source_bytes, seconds));
  };
  constexpr std::size_t whole = cuda::scatter_piece::bytes_max;
  for (const pair& each : pairs) {
    const layout how = {each.how, whole};
    row(std::string(each.name) + ", staged", "50 .. 55 GB/s", [&] { in.staged(how); });
    row(std::string(each.name) + ", the kernel reads pinned memory", "33 .. 38 GB/s",
        [&] { in.over_the_bus(how); });
    row(std::string(each.name) + ", without the bus", ">= 300 GB/s", [&] { in.on_the_card(how); });
  }
  row("F32 to BF16, staged, off by 1", "as aligned",
      [&] { in.staged({pairs[0].how, whole - 16, 1}); });
  for (const std::size_t bytes : {16384U, 4096U, 1024U, 256U, 100U}) {
    row(fmt::format("tensors of {} bytes, staged", bytes),
        bytes >= 1024 ? "45 .. 55 GB/s" : "the launches: 5 .. 40 GB/s",
        [&] { in.staged({{}, bytes}); });
  }
  const stream beside;
  const double both = seconds_of(runs, [&] {
    in.copies(beside);
    in.staged({pairs[0].how, whole});
    beside.wait();
    in.wait();
  });
  print_row("copies, and F32 to BF16 beside them", "the link: 50 .. 56 GB/s",
            rate(2 * source_bytes, both));
}

}  // namespace ringload::bench
