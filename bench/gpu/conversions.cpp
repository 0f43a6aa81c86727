// SPDX-License-Identifier: Apache-2.0

// Measures scattered and converted copies. A slot is copied to a staging buffer, from which a
// kernel reads it, as in a load. For comparison, measures a kernel that reads pinned memory over
// the bus, a kernel without the bus, and the effect of the kernel on concurrent copies.

#include <array>
#include <span>
#include <utility>

#include "device/cuda/kernels.hpp"
#include "gpu.hpp"

namespace ringload::bench {

namespace {

constexpr std::size_t source_bytes = 256 * mib;
constexpr std::size_t slot_bytes = 4 * mib;  // The default of loader_options.
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

// Pieces of a slot, one after another, each at the next multiple of 256 bytes.
struct layout {
  conversion as;
  std::size_t piece_bytes;
  std::size_t offset = 0;  // Offset of the first piece from a multiple of 16.
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

// Elements of a slot that are copied with strides or dequantised.
struct boxes {
  conversion as;
  std::uint8_t element_bytes;
  bool swaps = false;
  bool transposes = false;
  bool is_sliced = false;  // Every second row of 4 KiB.
};

constexpr std::size_t box_bytes = mib;

// Block kinds are in the order of block_type.
constexpr float_type q4_0 = float_type::blocks;
constexpr auto q4_k = static_cast<float_type>(static_cast<unsigned>(float_type::blocks) + 7);
static_assert(bytes_of(q4_0) == 18 && bytes_of(q4_k) == 144);

void copy_boxes_of_slot(const std::byte* from, std::byte* to, const boxes& how, const stream& on) {
  const std::uint32_t from_size = how.as.needed() ? how.as.from_bytes() : how.element_bytes;
  const std::uint32_t to_size = how.as.needed() ? how.as.to_bytes() : how.element_bytes;
  constexpr std::uint32_t rows = 256;
  cuda::box_table table = {};
  for (std::size_t at = 0; at + box_bytes <= slot_bytes; at += box_bytes) {
    const std::uint32_t columns = static_cast<std::uint32_t>(box_bytes) / rows / from_size;
    const std::uint32_t taken_rows = how.is_sliced ? rows / 2 : rows;
    const std::uint32_t row_bytes = columns * from_size * (how.is_sliced ? 2 : 1);
    cuda::box_piece& piece = table.pieces[table.count++];
    piece.from = from + at;
    piece.to = to;
    piece.elements = taken_rows * columns;
    piece.rank = 2;
    piece.element_bytes = how.element_bytes;
    piece.swap = how.swaps ? 1 : 0;
    piece.cast = how.as;
    piece.dimensions[0] = {taken_rows, row_bytes,
                           std::int64_t{how.transposes ? to_size : columns * to_size}};
    piece.dimensions[1] = {columns, from_size,
                           std::int64_t{how.transposes ? taken_rows * to_size : to_size}};
    to += (std::size_t{piece.elements} * to_size + 255) / 256 * 256;
  }
  check(cuda::launch_boxes(table, on.get()));
}

class scene {
 public:
  scene() { check(cudaHostGetDevicePointer(&over_the_bus_, slots_.data(), 0)); }

  // Runs the copies as a load does.
  void staged(const layout& how) {
    each_slot([&](std::size_t at, std::size_t lane) {
      const stream& on = lanes_[lane];
      std::byte* const staging = staging_.data() + lane * slot_bytes;
      check(cudaMemcpyAsync(staging, slots_.data() + at, slot_bytes, cudaMemcpyHostToDevice,
                            on.get()));
      scatter_slot(staging, target_.data() + lane * target_bytes, how, on);
    });
  }
  void staged_boxes(const boxes& how, bool copies_slot) {
    each_slot([&](std::size_t at, std::size_t lane) {
      const stream& on = lanes_[lane];
      std::byte* const staging = staging_.data() + lane * slot_bytes;
      if (copies_slot) {
        check(cudaMemcpyAsync(staging, slots_.data() + at, slot_bytes, cudaMemcpyHostToDevice,
                              on.get()));
      }
      copy_boxes_of_slot(staging, target_.data() + lane * target_bytes, how, on);
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
  // The maximum size of the result of a slot. Single bytes that are each at a multiple of 256 are
  // not measured.
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
  constexpr std::pair<const char*, boxes> boxed[] = {
      {"F32 transposed", {{}, 4, false, true}},
      {"F32 from big-endian", {{}, 4, true}},
      {"F32, every second row of 4 KiB", {{}, 4, false, false, true}},
      {"Q4_0 to F16", {{q4_0, float_type::f16}, 0}},
      {"Q4_K to BF16", {{q4_k, float_type::bf16}, 0}},
  };
  for (const auto& [name, how] : boxed) {
    row(std::string(name) + ", staged", "40 .. 55 GB/s", [&] { in.staged_boxes(how, true); });
    row(std::string(name) + ", without the bus", ">= 100 GB/s",
        [&] { in.staged_boxes(how, false); });
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
