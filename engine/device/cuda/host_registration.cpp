// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/host_registration.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "device/cuda/runtime.hpp"

namespace ringload::inline v0::cuda {

result<std::unique_ptr<host_registration>> host_registration::make(int device,
                                                                   std::span<std::byte> memory,
                                                                   bool is_read_only) {
  auto taken = std::make_unique<taken_memory>();
  taken->device = device;
  const unsigned flags = cudaHostRegisterPortable | cudaHostRegisterMapped |
                         (is_read_only ? cudaHostRegisterReadOnly : 0U);
  for (std::size_t done = 0; done < memory.size(); done += registered_bytes_max) {
    const auto chunk = memory.subspan(done, std::min(registered_bytes_max, memory.size() - done));
    if (auto failed = code_of(cudaHostRegister(chunk.data(), chunk.size(), flags))) {
      return fault{failed, ""};  // The destructor of `taken` unregisters the earlier chunks.
    }
    taken->registered = memory.first(done + chunk.size());
  }
  return std::unique_ptr<host_registration>(new host_registration(std::move(taken)));
}

// Returns false if the range crosses a border between chunks, because no copy may cross such a
// border.
bool host_registration::covers(std::span<const std::byte> range) const noexcept {
  const std::span<std::byte> memory = memory_->registered;
  if (range.empty() || range.data() < memory.data()) return false;
  const auto begin = static_cast<std::size_t>(range.data() - memory.data());
  if (begin >= memory.size() || range.size() > memory.size() - begin) return false;
  return begin / registered_bytes_max == (begin + range.size() - 1) / registered_bytes_max;
}

void host_registration::end(std::span<std::byte> memory) noexcept {
  memory_->unmapped = memory;
  // The destructor of `block` lets a thread of the library unregister and unmap the memory.
  {
    const device_block block(std::move(memory_));
  }
  delete this;
}

result<const memory_registration*> register_mapping(int device, mapping& memory,
                                                    bool is_read_only) {
  // Two models may share a mapping, so two threads may call this function for the same mapping.
  static std::mutex& registering = *new std::mutex;
  const std::lock_guard lock(registering);
  if (memory.registration() == nullptr) {
    auto created = host_registration::make(device, memory.span(), is_read_only);
    if (!created) return created.error();
    memory.add_registration(std::move(*created));
  }
  return memory.registration();
}

}  // namespace ringload::inline v0::cuda
