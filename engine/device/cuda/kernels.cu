// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>

#include "device/cuda/kernels.hpp"

namespace ringload {
inline namespace v0 {
namespace cuda {

namespace {

constexpr unsigned threads_per_block = 256;

// Enough to fill the link, and few enough to leave room for the kernels of the program.
constexpr unsigned blocks_per_piece_max = 128;

// What a thread reads at once.
constexpr unsigned vector_bytes = 16;

// For what is not in a vector, or lies across the alignment of its own elements.
template <float_type From, float_type To>
__device__ void convert_one(const unsigned char* from, typename float_bits<To>::word* to,
                            std::size_t at) {
  typename float_bits<From>::word word = 0;
  for (unsigned i = 0; i < sizeof word; ++i) {
    word = static_cast<decltype(word)>(word | std::uint32_t{from[at * sizeof word + i]} << 8U * i);
  }
  to[at] = converted<From, To>(word);
}

// One piece for each row of blocks. From the first whole vector of the piece to the last, threads
// that stand beside each other read vectors that lie beside each other, so that the bus carries
// whole lines; the writes meet in the device's cache.
template <float_type From, float_type To>
__global__ void convert_pieces(const conversion_batch batch) {
  using in = typename float_bits<From>::word;
  using out = typename float_bits<To>::word;
  constexpr unsigned in_vector = vector_bytes / sizeof(in);

  const conversion_piece& piece = batch.pieces[blockIdx.y];
  const auto* const from = static_cast<const unsigned char*>(piece.from);
  auto* const to = static_cast<out*>(piece.to);
  const std::size_t thread = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;

  const std::size_t past = reinterpret_cast<std::uintptr_t>(from) % vector_bytes;
  std::size_t head = past == 0 ? 0 : (vector_bytes - past) / sizeof(in);
  if (past % sizeof(in) != 0 || head > piece.elements) head = piece.elements;
  const std::size_t vectors = (piece.elements - head) / in_vector;
  const auto* const whole = reinterpret_cast<const uint4*>(from + head * sizeof(in));

  for (std::size_t v = thread; v < vectors; v += step) {
    const uint4 bits = whole[v];
    in words[in_vector];
    std::memcpy(words, &bits, sizeof words);
    for (unsigned i = 0; i < in_vector; ++i) {
      to[head + v * in_vector + i] = converted<From, To>(words[i]);
    }
  }
  for (std::size_t at = thread; at < head; at += step) convert_one<From, To>(from, to, at);
  for (std::size_t at = head + vectors * in_vector + thread; at < piece.elements; at += step) {
    convert_one<From, To>(from, to, at);
  }
}

}  // namespace

cudaError_t launch_conversions(const conversion_batch& batch, conversion how, cudaStream_t on) {
  std::size_t most = 0;
  for (unsigned i = 0; i < batch.count; ++i) {
    if (batch.pieces[i].elements > most) most = batch.pieces[i].elements;
  }
  const std::size_t vectors = most * how.from_bytes() / vector_bytes + 1;
  const std::size_t wanted = (vectors + threads_per_block - 1) / threads_per_block;
  const auto blocks =
      static_cast<unsigned>(wanted < blocks_per_piece_max ? wanted : blocks_per_piece_max);
  return with_types(how, [&](auto from, auto to) {
    const void* const kernel =
        reinterpret_cast<const void*>(&convert_pieces<decltype(from)::type, decltype(to)::type>);
    void* arguments[] = {const_cast<conversion_batch*>(&batch)};
    return cudaLaunchKernel(kernel, dim3(blocks, batch.count), dim3(threads_per_block), arguments,
                            0, on);
  });
}

}  // namespace cuda
}  // namespace v0
}  // namespace ringload
