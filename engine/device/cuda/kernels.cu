// SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <cstring>

#include "base/numeric/quant_format.hpp"
#include "device/cuda/delta_kernels.hpp"
#include "device/cuda/kernels.hpp"
#include "device/cuda/words.cuh"

namespace ringload {
inline namespace v0 {
namespace cuda {

namespace {

constexpr unsigned threads_per_block = 256;

// The kernels store 16 bytes at a time, and load 16 bytes at a time from aligned addresses.
struct alignas(16) vector {
  std::uint32_t words[4];
};

// Transformations of an element: as_it_is copies a byte, as_converted converts a number.
struct as_it_is {
  using in = std::uint8_t;
  using out = std::uint8_t;
  __device__ static out apply(in word) { return word; }
};

template <float_type From, float_type To>
struct as_converted {
  using in = typename float_bits<From>::word;
  using out = typename float_bits<To>::word;
  __device__ static out apply(in word) { return converted<From, To>(word); }
};

// Loads one element from an address of any alignment.
template <class Word>
__device__ Word load_one(const unsigned char* from) {
  Word word = 0;
  for (unsigned i = 0; i < sizeof word; ++i) {
    word = static_cast<Word>(word | std::uint32_t{from[i]} << 8U * i);
  }
  return word;
}

// Loads words from an aligned address. For fewer than 4 words, the address must be a multiple of 4.
// For 4 or more words, the address must be a multiple of 16.
template <unsigned Words>
__device__ void load_aligned(const unsigned char* from, std::uint32_t* words) {
  if constexpr (Words < 4) {
    const auto* const whole = reinterpret_cast<const std::uint32_t*>(from);
    for (unsigned i = 0; i < Words; ++i) words[i] = whole[i];
  } else {
    const auto* const whole = reinterpret_cast<const vector*>(from);
    for (unsigned i = 0; i < Words / 4; ++i) {
      const vector& source = whole[i];
      const vector bits = source;
      for (unsigned w = 0; w < 4; ++w) words[4 * i + w] = bits.words[w];
    }
  }
}

// Loads words from an address of any alignment. If the address is misaligned, each wanted word
// extends over two aligned words, so aligned words are loaded and shifted:
//
//   aligned words  |....|....|....|
//   wanted           ^^^^ ^^^^          3 bytes past a multiple of 4
template <unsigned Words>
__device__ void load_shifted(const unsigned char* from, std::uint32_t* words) {
  const unsigned past = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from) % 4);
  const auto* const whole = reinterpret_cast<const std::uint32_t*>(from - past);
  std::uint32_t low = whole[0];
  for (unsigned i = 0; i < Words; ++i) {
    // The memory may end after the last wanted byte, so the loop loads no word after that byte.
    const bool needed = past > 0 || i + 1 < Words;
    const std::uint32_t high = needed ? whole[i + 1] : 0;
    words[i] = static_cast<std::uint32_t>((std::uint64_t{high} << 32U | low) >> 8U * past);
    low = high;
  }
}

// Writes the elements of one piece. The target is divided at multiples of 16 bytes. The elements
// before the first multiple and after the last multiple are written one by one. The threads write
// the other elements as whole vectors, and neighbouring threads write neighbouring vectors.
template <class Transform>
__device__ void scatter_one(const scatter_piece& piece) {
  using in = typename Transform::in;
  using out = typename Transform::out;
  constexpr std::uint32_t group = sizeof(vector) / sizeof(out);  // Number of elements of a vector.
  constexpr std::uint32_t group_bytes = group * sizeof(in);  // Number of source bytes for a vector.
  constexpr unsigned words = group_bytes / 4;

  const auto* const from = static_cast<const unsigned char*>(piece.from);
  auto* const to = static_cast<out*>(piece.to);
  const auto past =
      static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(to) % sizeof(vector));
  std::uint32_t head =
      past == 0 ? 0 : static_cast<std::uint32_t>((sizeof(vector) - past) / sizeof(out));
  if (head > piece.elements) head = piece.elements;
  const std::uint32_t groups = (piece.elements - head) / group;

  for (std::uint32_t i = threadIdx.x; i < head; i += blockDim.x) {
    to[i] = Transform::apply(load_one<in>(from + i * sizeof(in)));
  }
  for (std::uint32_t i = head + groups * group + threadIdx.x; i < piece.elements; i += blockDim.x) {
    to[i] = Transform::apply(load_one<in>(from + i * sizeof(in)));
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
    for (std::uint32_t i = 0; i < group; ++i) results[i] = Transform::apply(elements[i]);
    vector whole;
    std::memcpy(&whole, results, sizeof whole);
    vector& target = vectors[g];
    target = whole;
  }
}

template <float_type To>
__device__ void scatter_to(const scatter_piece& piece) {
  switch (piece.cast.from) {
    case float_type::f32: scatter_one<as_converted<float_type::f32, To>>(piece); return;
    case float_type::f16: scatter_one<as_converted<float_type::f16, To>>(piece); return;
    case float_type::bf16: scatter_one<as_converted<float_type::bf16, To>>(piece); return;
    case float_type::f8_e4m3fn: scatter_one<as_converted<float_type::f8_e4m3fn, To>>(piece); return;
    case float_type::f8_e5m2: scatter_one<as_converted<float_type::f8_e5m2, To>>(piece); return;
    default: return;  // Other conversions never reach this kernel.
  }
}

__global__ void scatter(const scatter_table table) {
  const scatter_piece& piece = table.pieces[blockIdx.x];
  if (piece.cast.from == piece.cast.to) {
    scatter_one<as_it_is>(piece);
    return;
  }
  switch (piece.cast.to) {
    case float_type::f16: scatter_to<float_type::f16>(piece); return;
    case float_type::bf16: scatter_to<float_type::bf16>(piece); return;
    default: scatter_to<float_type::f32>(piece); return;
  }
}

template <class Word, bool Swap>
struct word_of_box {
  static constexpr unsigned parts = 1;
  __device__ static void move(const unsigned char* from, unsigned char* to, unsigned) {
    store_word(to, load_word<Word, Swap>(from));
  }
};

template <float_type From, float_type To, bool Swap>
struct number_of_box {
  static constexpr unsigned parts = 1;
  __device__ static void move(const unsigned char* from, unsigned char* to, unsigned) {
    store_word(to, converted<From, To>(load_word<typename float_bits<From>::word, Swap>(from)));
  }
};

// Each thread converts the elements of one run of a quantised block.
template <block_type Type, float_type To>
struct block_of_box {
  using format = block_format<Type>;
  using word = typename float_bits<To>::word;
  static constexpr unsigned parts = format::elements / format::run_elements;
  __device__ static void move(const unsigned char* from, unsigned char* to, unsigned part) {
    const blocks::shared common = format::shared(from);
    auto r = format::run(from, common, part);
    blocks::set_nans(r, common);
    to += part * format::run_elements * sizeof(word);
    for (unsigned i = 0; i < format::run_elements; ++i) {
      const auto number = static_cast<std::int8_t>(format::number(r, i));
      const word value = float_bits<To>::narrow(dequantized<Type>(r, number));
      store_word(to + i * sizeof(word), value);
    }
  }
};

template <class Transform>
__device__ void copy_box(const box_piece& piece) {
  const auto* const from = static_cast<const unsigned char*>(piece.from);
  auto* const to = static_cast<unsigned char*>(piece.to);
  const std::uint64_t parts = std::uint64_t{piece.elements} * Transform::parts;
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < parts;
       i += step) {
    const auto part = static_cast<unsigned>(i % Transform::parts);
    auto rest = static_cast<std::uint32_t>(i / Transform::parts);
    std::uint64_t from_offset = 0;
    std::int64_t to_offset = 0;
    for (unsigned d = piece.rank; d > 0; --d) {
      const box_piece::dimension& dim = piece.dimensions[d - 1];
      const std::uint32_t index = rest % dim.count;
      rest /= dim.count;
      from_offset += std::uint64_t{index} * dim.from;
      to_offset += static_cast<std::int64_t>(index) * dim.to;
    }
    Transform::move(from + from_offset, to + to_offset, part);
  }
}

template <bool Swap>
__device__ void copy_words(const box_piece& piece) {
  switch (piece.element_bytes) {
    case 2: copy_box<word_of_box<std::uint16_t, Swap>>(piece); return;
    case 4: copy_box<word_of_box<std::uint32_t, Swap>>(piece); return;
    case 8: copy_box<word_of_box<std::uint64_t, Swap>>(piece); return;
    default: copy_box<word_of_box<std::uint8_t, false>>(piece); return;
  }
}

template <float_type From, float_type To>
__device__ void convert_numbers(const box_piece& piece) {
  if (piece.swap != 0) {
    copy_box<number_of_box<From, To, true>>(piece);
  } else {
    copy_box<number_of_box<From, To, false>>(piece);
  }
}

template <float_type To, unsigned Index = 0>
__device__ void dequantize_blocks(const box_piece& piece, unsigned type) {
  if constexpr (Index < block_type_count) {
    if (type == Index) {
      copy_box<block_of_box<static_cast<block_type>(Index), To>>(piece);
    } else {
      dequantize_blocks<To, Index + 1>(piece, type);
    }
  }
}

template <float_type To>
__device__ void convert_to(const box_piece& piece) {
  switch (piece.cast.from) {
    case float_type::f32: convert_numbers<float_type::f32, To>(piece); return;
    case float_type::f16: convert_numbers<float_type::f16, To>(piece); return;
    case float_type::bf16: convert_numbers<float_type::bf16, To>(piece); return;
    case float_type::f8_e4m3fn: convert_numbers<float_type::f8_e4m3fn, To>(piece); return;
    case float_type::f8_e5m2: convert_numbers<float_type::f8_e5m2, To>(piece); return;
    default: break;
  }
  constexpr auto first = static_cast<unsigned>(element_kind::blocks);
  const auto kind = static_cast<unsigned>(piece.cast.from);
  if (kind >= first) dequantize_blocks<To>(piece, kind - first);
}

__global__ void copy_boxes(const box_table table) {
  const box_piece& piece = table.pieces[blockIdx.y];
  if (piece.cast.from == piece.cast.to) {
    if (piece.swap != 0) {
      copy_words<true>(piece);
    } else {
      copy_words<false>(piece);
    }
    return;
  }
  switch (piece.cast.to) {
    case float_type::f16: convert_to<float_type::f16>(piece); return;
    case float_type::bf16: convert_to<float_type::bf16>(piece); return;
    default: convert_to<float_type::f32>(piece); return;
  }
}

const void* address_of_scatter() { return reinterpret_cast<const void*>(&scatter); }
const void* address_of_boxes() { return reinterpret_cast<const void*>(&copy_boxes); }

// In a large box, each thread copies about eight elements, or more if the box would need more than
// `blocks_of_box_max` thread blocks. This number of thread blocks keeps every device busy.
constexpr std::uint32_t elements_per_block = threads_per_block * 8;
constexpr std::uint32_t blocks_of_box_max = 128;

}  // namespace

cudaError_t launch_scatter(const scatter_table& table, cudaStream_t cuda_stream) {
  void* arguments[] = {const_cast<scatter_table*>(&table)};
  return cudaLaunchKernel(address_of_scatter(), dim3(table.count), dim3(threads_per_block),
                          arguments, 0, cuda_stream);
}

cudaError_t launch_boxes(const box_table& table, cudaStream_t cuda_stream) {
  std::uint32_t most = 0;
  for (std::uint32_t i = 0; i < table.count; ++i) {
    const box_piece& piece = table.pieces[i];
    // For quantised blocks, piece.elements is the number of blocks. The number of thread blocks
    // depends on the elements inside the quantised blocks.
    const std::uint32_t unit_elements = elements_of(piece.cast.from);
    const std::uint32_t elements = piece.elements < box_piece::elements_max / unit_elements
                                       ? piece.elements * unit_elements
                                       : piece.elements;
    if (elements > most) most = elements;
  }
  std::uint32_t blocks = (most + elements_per_block - 1) / elements_per_block;
  if (blocks > blocks_of_box_max) blocks = blocks_of_box_max;
  void* arguments[] = {const_cast<box_table*>(&table)};
  return cudaLaunchKernel(address_of_boxes(), dim3(blocks, table.count), dim3(threads_per_block),
                          arguments, 0, cuda_stream);
}

#define RINGLOAD_TEXT_OF(...) #__VA_ARGS__
#define RINGLOAD_TEXT(...) RINGLOAD_TEXT_OF(__VA_ARGS__)

const char* kernel_architectures() {
#ifdef __CUDA_ARCH_LIST__
  return RINGLOAD_TEXT(__CUDA_ARCH_LIST__);
#else
  return "unknown architectures";
#endif
}

cudaError_t load_kernels() {
  cudaFuncAttributes attributes = {};
  const cudaError_t failed = cudaFuncGetAttributes(&attributes, address_of_scatter());
  if (failed != cudaSuccess) return failed;
  const cudaError_t boxes_failed = cudaFuncGetAttributes(&attributes, address_of_boxes());
  if (boxes_failed != cudaSuccess) return boxes_failed;
  return load_delta_kernels();
}

}  // namespace cuda
}  // namespace v0
}  // namespace ringload
