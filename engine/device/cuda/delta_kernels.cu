// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/delta_kernels.hpp"

#include <cstdint>

#include "device/cuda/words.cuh"

namespace ringload {
inline namespace v0 {
namespace cuda {

namespace {

constexpr unsigned threads_of_delta_block = 256;

template <class Word>
__device__ Word load_planes(const unsigned char* planes, std::uint64_t values,
                            std::uint64_t index) {
  Word word = 0;
  for (unsigned i = 0; i < sizeof word; ++i) {
    word = static_cast<Word>(word | static_cast<Word>(planes[i * values + index]) << 8U * i);
  }
  return word;
}

// Each thread block changes the elements of one tile.
template <class Word>
__device__ void change_tile(const change_piece& piece) {
  constexpr std::uint64_t tile_elements = change_piece::tile_elements;
  const auto* const from = static_cast<const unsigned char*>(piece.from);
  const std::uint64_t first_element = blockIdx.x * tile_elements;
  auto* const to = static_cast<unsigned char*>(piece.to) + first_element * sizeof(Word);
  if (piece.sparse != 0) {
    const auto* const begins = reinterpret_cast<const std::uint32_t*>(from);
    const auto* const positions =
        reinterpret_cast<const std::uint16_t*>(from + offset_of_positions(gridDim.x));
    const unsigned char* const planes = from + offset_of_planes(gridDim.x, piece.values);
    const std::uint32_t end = begins[blockIdx.x + 1];
    for (std::uint32_t i = begins[blockIdx.x] + threadIdx.x; i < end; i += blockDim.x) {
      unsigned char* const element = to + positions[i] * sizeof(Word);
      const auto value = load_planes<Word>(planes, piece.values, i);
      store_word(element, static_cast<Word>(load_word<Word, false>(element) ^ value));
    }
    return;
  }
  const std::uint64_t left = piece.elements - first_element;
  const std::uint64_t count = left < tile_elements ? left : tile_elements;
  for (std::uint64_t i = threadIdx.x; i < count; i += blockDim.x) {
    unsigned char* const element = to + i * sizeof(Word);
    const auto value = load_planes<Word>(from, piece.values, first_element + i);
    store_word(element, static_cast<Word>(load_word<Word, false>(element) ^ value));
  }
}

__global__ void change_elements(const change_piece piece) {
  switch (piece.width) {
    case 2: change_tile<std::uint16_t>(piece); return;
    case 4: change_tile<std::uint32_t>(piece); return;
    case 8: change_tile<std::uint64_t>(piece); return;
    default: change_tile<std::uint8_t>(piece); return;
  }
}

// Shifts a CRC-32C by `bits` bits. Uses no table, because all threads would read the table at
// random.
__device__ std::uint32_t shift_crc32c(std::uint32_t crc, unsigned bits) {
  for (unsigned i = 0; i < bits; ++i) crc = crc >> 1U ^ (0x82F63B78U & (0U - (crc & 1U)));
  return crc;
}

// Each thread computes the CRC-32C of one chunk.
__global__ void sum_chunks(const sum_piece piece) {
  const std::uint64_t chunk = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (chunk >= chunks_of(piece.bytes)) return;
  const std::uint64_t begin = chunk * sum_piece::chunk_bytes;
  const std::uint64_t left = piece.bytes - begin;
  const auto bytes =
      static_cast<unsigned>(left < sum_piece::chunk_bytes ? left : sum_piece::chunk_bytes);
  const auto* const from = static_cast<const unsigned char*>(piece.from) + begin;
  std::uint32_t crc = 0xFFFFFFFF;
  unsigned i = 0;
  for (; i + 4 <= bytes; i += 4) {
    crc = shift_crc32c(crc ^ load_word<std::uint32_t, false>(from + i), 32);
  }
  for (; i < bytes; ++i) crc = shift_crc32c(crc ^ from[i], 8);
  static_cast<std::uint32_t*>(piece.to)[chunk] = ~crc;
}

const void* address_of_change() { return reinterpret_cast<const void*>(&change_elements); }
const void* address_of_sum() { return reinterpret_cast<const void*>(&sum_chunks); }

}  // namespace

cudaError_t launch_change(const change_piece& piece, cudaStream_t cuda_stream) {
  void* arguments[] = {const_cast<change_piece*>(&piece)};
  return cudaLaunchKernel(address_of_change(),
                          dim3(static_cast<unsigned>(tiles_of(piece.elements))),
                          dim3(threads_of_delta_block), arguments, 0, cuda_stream);
}

cudaError_t launch_sum(const sum_piece& piece, cudaStream_t cuda_stream) {
  const auto blocks = static_cast<unsigned>((chunks_of(piece.bytes) + threads_of_delta_block - 1) /
                                            threads_of_delta_block);
  void* arguments[] = {const_cast<sum_piece*>(&piece)};
  return cudaLaunchKernel(address_of_sum(), dim3(blocks), dim3(threads_of_delta_block), arguments,
                          0, cuda_stream);
}

cudaError_t load_delta_kernels() {
  cudaFuncAttributes attributes = {};
  const cudaError_t failed = cudaFuncGetAttributes(&attributes, address_of_change());
  if (failed != cudaSuccess) return failed;
  return cudaFuncGetAttributes(&attributes, address_of_sum());
}

}  // namespace cuda
}  // namespace v0
}  // namespace ringload
