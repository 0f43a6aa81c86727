// SPDX-License-Identifier: Apache-2.0

// Tensors that are converted on their way: what the kernels reach when they read pinned memory over
// the bus, as a load has them do; what they would reach without the bus; and what they take from
// copies beside them.

#include <array>
#include <span>

#include "device/cuda/kernels.hpp"
#include "gpu.hpp"

namespace ringload::bench {

namespace {

constexpr std::size_t source_bytes = 256 * mib;
constexpr std::size_t slot_bytes = 2 * mib;  // As limits begin with.
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
    {{float_type::f8_e4m3, float_type::bf16}, "F8_E4M3 to BF16"},
};

// One kernel for each slot, as a load has it, on streams in turn.
void convert_all(const std::byte* from, const device_memory& to, conversion how,
                 std::span<const stream> on) {
  unsigned next = 0;
  for (std::size_t at = 0; at < source_bytes; at += slot_bytes) {
    cuda::conversion_batch one = {};
    one.pieces[one.count++] = {from + at, to.data() + at / how.from_bytes() * how.to_bytes(),
                               slot_bytes / how.from_bytes()};
    check(cuda::launch_conversions(one, how, on[next++ % on.size()].get()));
  }
}

}  // namespace

void measure_conversions() {
  host_memory slots(source_bytes, host_memory::pages::huge);
  void* there = nullptr;
  check(cudaHostGetDevicePointer(&there, slots.data(), 0));
  const auto* const over_the_bus = static_cast<const std::byte*>(there);
  const device_memory source(source_bytes);
  const device_memory target(4 * source_bytes);
  const std::array<stream, 2> lanes;
  check(cudaMemcpy(source.data(), slots.data(), source_bytes, cudaMemcpyHostToDevice));

  const auto wait = [&] {
    for (const stream& each : lanes) each.wait();
  };
  for (const pair& each : pairs) {
    const double bus = seconds_of(runs, [&] {
      convert_all(over_the_bus, target, each.how, lanes);
      wait();
    });
    print_row(fmt::format("{} from pinned memory, a kernel for 2 MiB", each.name),
              "45 .. 55 GB/s read", rate(source_bytes, bus));
  }
  for (const pair& each : pairs) {
    const double inside = seconds_of(runs, [&] {
      convert_all(source.data(), target, each.how, lanes);
      wait();
    });
    print_row(fmt::format("{} from the card's own memory", each.name), ">= 300 GB/s read",
              rate(source_bytes, inside));
  }

  // Half of the bytes copied, half converted, at the same time: one link carries both.
  const stream copies;
  const double both = seconds_of(runs, [&] {
    for (std::size_t at = 0; at < source_bytes; at += slot_bytes) {
      check(cudaMemcpyAsync(source.data() + at, slots.data() + at, slot_bytes,
                            cudaMemcpyHostToDevice, copies.get()));
    }
    convert_all(over_the_bus, target, pairs[0].how, lanes);
    copies.wait();
    wait();
  });
  print_row("copies, and F32 to BF16 beside them", "the link: 50 .. 56 GB/s",
            rate(2 * source_bytes, both));
}

}  // namespace ringload::bench
