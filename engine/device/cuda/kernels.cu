// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>

#include "device/cuda/kernels.hpp"

namespace ringload {
inline namespace v0 {
namespace cuda {

namespace {

constexpr unsigned threads_per_block = 256;

// What a thread writes at once, and reads at once where it is aligned.
struct alignas(16) vector {
  std::uint32_t words[4];
};

// How one element becomes another: unchanged, byte by byte, or converted.
struct as_it_is {
  using in = std::uint8_t;
  using out = std::uint8_t;
  __device__ static out of(in word) { return word; }
};

template <float_type From, float_type To>
struct as_converted {
  using in = typename float_bits<From>::word;
  using out = typename float_bits<To>::word;
  __device__ static out of(in word) { return converted<From, To>(word); }
};

// One element at any alignment.
template <class Word>
__device__ Word load_one(const unsigned char* from) {
  Word word = 0;
  for (unsigned i = 0; i < sizeof word; ++i) {
    word = static_cast<Word>(word | std::uint32_t{from[i]} << 8U * i);
  }
  return word;
}

// So many words from a multiple of their size, or of 16 bytes.
template <unsigned Words>
__device__ void load_aligned(const unsigned char* from, std::uint32_t* words) {
  if constexpr (Words < 4) {
    const auto* const whole = reinterpret_cast<const std::uint32_t*>(from);
    for (unsigned i = 0; i < Words; ++i) words[i] = whole[i];
  } else {
    const auto* const whole = reinterpret_cast<const vector*>(from);
    for (unsigned i = 0; i < Words / 4; ++i) {
      const vector& there = whole[i];
      const vector bits = there;
      for (unsigned w = 0; w < 4; ++w) words[4 * i + w] = bits.words[w];
    }
  }
}

// So many words from any address, out of aligned words that each lie in two of them:
//
//   aligned words  |....|....|....|
//   wanted           ^^^^ ^^^^          3 bytes past a multiple of 4
template <unsigned Words>
__device__ void load_shifted(const unsigned char* from, std::uint32_t* words) {
  const unsigned past = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from) % 4);
  const auto* const whole = reinterpret_cast<const std::uint32_t*>(from - past);
  std::uint32_t low = whole[0];
  for (unsigned i = 0; i < Words; ++i) {
    // Past the last wanted byte there may be no memory.
    const bool needed = past > 0 || i + 1 < Words;
    const std::uint32_t high = needed ? whole[i + 1] : 0;
    words[i] = static_cast<std::uint32_t>((std::uint64_t{high} << 32U | low) >> 8U * past);
    low = high;
  }
}

// Up to the first multiple of 16 bytes of the target, and behind the last one, element by element;
// between them each thread writes whole vectors, and threads beside each other write vectors that
// lie beside each other.
template <class How>
__device__ void scatter_one(const scatter_piece& piece) {
  using in = typename How::in;
  using out = typename How::out;
  constexpr std::uint32_t group = sizeof(vector) / sizeof(out);  // Elements of a vector.
  constexpr std::uint32_t group_bytes = group * sizeof(in);      // Their bytes in the source.
  constexpr unsigned words = group_bytes / 4;

  const auto* const from = static_cast<const unsigned char*>(piece.from);
  auto* const to = static_cast<out*>(piece.to);
  const auto past =
      static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(to) % sizeof(vector));
  std::uint32_t head =
      past == 0 ? 0 : static_cast<std::uint32_t>((sizeof(vector) - past) / sizeof(out));
  if (head > piece.elements) head = piece.elements;
  const std::uint32_t groups = (piece.elements - head) / group;

  for (std::uint32_t at = threadIdx.x; at < head; at += blockDim.x) {
    to[at] = How::of(load_one<in>(from + at * sizeof(in)));
  }
  for (std::uint32_t at = head + groups * group + threadIdx.x; at < piece.elements;
       at += blockDim.x) {
    to[at] = How::of(load_one<in>(from + at * sizeof(in)));
  }

  const unsigned char* const body = from + head * sizeof(in);
  auto* const vectors = reinterpret_cast<vector*>(to + head);
  const bool aligned = reinterpret_cast<std::uintptr_t>(body) % (words < 4 ? 4 : 16) == 0;
  for (std::uint32_t g = threadIdx.x; g < groups; g += blockDim.x) {
    std::uint32_t bits[words];
    if (aligned) {
      load_aligned<words>(body + g * group_bytes, bits);
    } else {
      load_shifted<words>(body + g * group_bytes, bits);
    }
    in elements[group];
    std::memcpy(elements, bits, sizeof elements);
    out results[group];
    for (std::uint32_t i = 0; i < group; ++i) results[i] = How::of(elements[i]);
    vector whole;
    std::memcpy(&whole, results, sizeof whole);
    vector& there = vectors[g];
    there = whole;
  }
}

template <float_type To>
__device__ void scatter_to(const scatter_piece& piece) {
  switch (piece.as.from) {
    case float_type::f32: scatter_one<as_converted<float_type::f32, To>>(piece); return;
    case float_type::f16: scatter_one<as_converted<float_type::f16, To>>(piece); return;
    case float_type::bf16: scatter_one<as_converted<float_type::bf16, To>>(piece); return;
    case float_type::f8_e4m3: scatter_one<as_converted<float_type::f8_e4m3, To>>(piece); return;
    case float_type::f8_e5m2: scatter_one<as_converted<float_type::f8_e5m2, To>>(piece); return;
    default: return;  // No other kind reaches a GPU: a load that asks for it is refused.
  }
}

__global__ void scatter(const scatter_table table) {
  const scatter_piece& piece = table.pieces[blockIdx.x];
  if (piece.as.from == piece.as.to) {
    scatter_one<as_it_is>(piece);
    return;
  }
  switch (piece.as.to) {
    case float_type::f16: scatter_to<float_type::f16>(piece); return;
    case float_type::bf16: scatter_to<float_type::bf16>(piece); return;
    default: scatter_to<float_type::f32>(piece); return;
  }
}

const void* address_of_kernel() { return reinterpret_cast<const void*>(&scatter); }

}  // namespace

cudaError_t launch_scatter(const scatter_table& table, cudaStream_t on) {
  void* arguments[] = {const_cast<scatter_table*>(&table)};
  return cudaLaunchKernel(address_of_kernel(), dim3(table.count), dim3(threads_per_block),
                          arguments, 0, on);
}

cudaError_t load_kernels() {
  cudaFuncAttributes attributes = {};
  return cudaFuncGetAttributes(&attributes, address_of_kernel());
}

}  // namespace cuda
}  // namespace v0
}  // namespace ringload
