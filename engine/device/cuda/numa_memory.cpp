// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/numa_memory.hpp"

#include <cuda_runtime_api.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "base/processors.hpp"
#include "device/cuda/runtime.hpp"

namespace ringload::inline v0::cuda {

namespace {

// The kernel's node mask has one bit for each node.
constexpr std::size_t nodes_max = 1024;
constexpr std::size_t word_bits = 8 * sizeof(unsigned long);

int node_of(int device) noexcept {
  int node = -1;
#if CUDART_VERSION >= 12020
  if (code_of(cudaDeviceGetAttribute(&node, cudaDevAttrHostNumaId, device))) return -1;
#else
  (void)device;
#endif
  return node;
}

}  // namespace

void place_near(std::span<std::byte> memory, int device) noexcept {
  const int node = node_of(device);
  if (node < 0 || static_cast<std::size_t>(node) >= nodes_max) return;
  std::array<unsigned long, nodes_max / word_bits> nodes = {};
  const auto bit = static_cast<std::size_t>(node);
  nodes[bit / word_bits] = 1UL << bit % word_bits;
  (void)::syscall(SYS_mbind, memory.data(), memory.size(), MPOL_PREFERRED, nodes.data(), nodes_max,
                  0);
}

std::optional<cpu_set_t> processors_near(int device, const std::string& nodes) {
  const int node = node_of(device);
  if (node < 0) return std::nullopt;
  std::ifstream file(nodes + "/node" + std::to_string(node) + "/cpulist");
  std::string list;
  if (!std::getline(file, list)) return std::nullopt;
  return parse_processors(list);
}

}  // namespace ringload::inline v0::cuda
