// SPDX-License-Identifier: Apache-2.0

// The functions of the driver for memory that several processes map. An allocation is a memfd,
// which exists as long as a process has a handle, a mapping or a descriptor.

#include "device/cuda/driver_functions.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "support/fake_cudart/fake_cudart.hpp"
#include "support/fake_cudart/runtime.hpp"

namespace ringload::testing::fake_cudart {

namespace {

using namespace ringload::cuda;

constexpr std::size_t granularity = std::size_t{64} << 10;

bool is_rounded(std::size_t bytes) { return bytes > 0 && bytes % granularity == 0; }

driver::status get_granularity(std::size_t* out, const driver::allocation_properties*, int) {
  const call now("cuMemGetAllocationGranularity");
  if (now.failed()) return now.says_driver();
  *out = granularity;
  return now.says_driver();
}

driver::status create(driver::allocation_handle* handle, std::size_t bytes,
                      const driver::allocation_properties* properties, unsigned long long) {
  const call now("cuMemCreate");
  if (now.failed()) return now.says_driver();
  device_memory& memory = the().device.memory;
  const int device = properties->where.id;
  if (properties->type != driver::pinned_allocation || !is_rounded(bytes) ||
      properties->handle_types != driver::posix_descriptor || device != current_device) {
    return now.says_driver(cudaErrorInvalidValue);
  }
  if (memory.allocated(device) + bytes > memory_bytes) {
    return now.says_driver(cudaErrorMemoryAllocation);
  }
  *handle = memory.create_shareable(bytes, device);
  return now.says_driver(*handle == 0 ? cudaErrorMemoryAllocation : cudaSuccess);
}

driver::status release(driver::allocation_handle handle) {
  const call now("cuMemRelease");
  if (!the().device.memory.release_shareable(handle)) now.complain("no such handle");
  return now.says_driver();
}

driver::status reserve(driver::device_address* address, std::size_t bytes, std::size_t,
                       driver::device_address, unsigned long long) {
  const call now("cuMemAddressReserve");
  if (now.failed()) return now.says_driver();
  if (!is_rounded(bytes)) return now.says_driver(cudaErrorInvalidValue);
  *address = reinterpret_cast<driver::device_address>(the().device.memory.reserve(bytes));
  return now.says_driver();
}

driver::status free_address(driver::device_address address, std::size_t bytes) {
  const call now("cuMemAddressFree");
  if (!the().device.memory.free_reserved(reinterpret_cast<std::byte*>(address), bytes)) {
    now.complain("not reserved, of another size, or still mapped");
  }
  return now.says_driver();
}

driver::status map(driver::device_address address, std::size_t bytes, std::size_t offset,
                   driver::allocation_handle handle, unsigned long long) {
  const call now("cuMemMap");
  if (now.failed()) return now.says_driver();
  const bool mapped = offset == 0 && the().device.memory.map_shareable(
                                         reinterpret_cast<std::byte*>(address), bytes, handle);
  return now.says_driver(mapped ? cudaSuccess : cudaErrorInvalidValue);
}

driver::status unmap(driver::device_address address, std::size_t bytes) {
  call now("cuMemUnmap");
  device_side& device = the().device;
  auto* const begin = reinterpret_cast<std::byte*>(address);
  if (device.is_used(begin, bytes)) now.complain("a stream still uses the memory");
  now.wait_for_device();
  if (!device.memory.unmap_shareable(begin, bytes)) now.complain("not mapped, or of another size");
  return now.says_driver();
}

driver::status set_access(driver::device_address address, std::size_t bytes,
                          const driver::access_description* description, std::size_t count) {
  const call now("cuMemSetAccess");
  if (now.failed()) return now.says_driver();
  const bool is_set =
      count == 1 && description->where.id == current_device &&
      the().device.memory.set_access(reinterpret_cast<std::byte*>(address), bytes,
                                     description->allowed == driver::access::read_write);
  return now.says_driver(is_set ? cudaSuccess : cudaErrorInvalidValue);
}

driver::status export_handle(void* shareable, driver::allocation_handle handle, int type,
                             unsigned long long) {
  const call now("cuMemExportToShareableHandle");
  if (now.failed()) return now.says_driver();
  const int fd =
      type == driver::posix_descriptor ? the().device.memory.descriptor_of_shareable(handle) : -1;
  if (fd < 0) return now.says_driver(cudaErrorInvalidValue);
  std::memcpy(shareable, &fd, sizeof fd);
  return now.says_driver();
}

driver::status import_handle(driver::allocation_handle* handle, void* shareable, int type) {
  const call now("cuMemImportFromShareableHandle");
  if (now.failed()) return now.says_driver();
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(shareable));
  *handle = type == driver::posix_descriptor
                ? the().device.memory.import_shareable(fd, current_device)
                : 0;
  return now.says_driver(*handle == 0 ? cudaErrorInvalidValue : cudaSuccess);
}

driver::status get_uuid(driver::uuid* id, int device) {
  const call now("cuDeviceGetUuid");
  if (now.failed()) return now.says_driver();
  if (device < 0 || device >= the().device_count) return now.says_driver(cudaErrorInvalidDevice);
  std::memset(id->bytes, 0x3b + device, sizeof id->bytes);
  return now.says_driver();
}

template <class Function>
void* address_of(Function function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

}  // namespace ringload::testing::fake_cudart

using namespace ringload::testing::fake_cudart;

extern "C" {

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int,
                                             unsigned long long,
                                             enum cudaDriverEntryPointQueryResult* outcome) {
  const call now("cudaGetDriverEntryPointByVersion");
  if (now.failed()) return now.says();
  static const std::map<std::string, void*> all = {
      {"cuMemGetAllocationGranularity", address_of(get_granularity)},
      {"cuMemCreate", address_of(create)},
      {"cuMemRelease", address_of(release)},
      {"cuMemAddressReserve", address_of(reserve)},
      {"cuMemAddressFree", address_of(free_address)},
      {"cuMemMap", address_of(map)},
      {"cuMemUnmap", address_of(unmap)},
      {"cuMemSetAccess", address_of(set_access)},
      {"cuMemExportToShareableHandle", address_of(export_handle)},
      {"cuMemImportFromShareableHandle", address_of(import_handle)},
      {"cuDeviceGetUuid", address_of(get_uuid)},
  };
  const auto found = all.find(symbol);
  *function = found == all.end() ? nullptr : found->second;
  *outcome = found == all.end() ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return now.says();
}
}
