// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/shareable_memory.hpp"

#include <cuda_runtime_api.h>
#include <fcntl.h>

#include <ringload/cuda.hpp>

namespace ringload::inline v0::cuda {

using boost::system::error_code;

namespace {

// The version of the driver functions to look up.
constexpr unsigned driver_version = 12000;

template <class Function>
error_code find_function(const char* name, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult outcome = cudaDriverEntryPointSuccess;
#if CUDART_VERSION >= 12050
  const auto failed = code_of(
      cudaGetDriverEntryPointByVersion(name, &found, driver_version, cudaEnableDefault, &outcome));
#else
  const auto failed = code_of(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &outcome));
#endif
  if (failed) return failed;
  if (outcome != cudaDriverEntryPointSuccess || found == nullptr) {
    return {cudaErrorNotSupported, cuda_category()};
  }
  function = reinterpret_cast<Function>(found);
  return {};
}

error_code driver_code(driver::status outcome) noexcept {
  return outcome == 0 ? error_code() : error_code(outcome, cuda_category());
}

driver::allocation_properties properties_on(int device) noexcept {
  driver::allocation_properties properties = {};
  properties.type = driver::pinned_allocation;
  properties.handle_types = driver::posix_descriptor;
  properties.where = {driver::on_device, device};
  return properties;
}

}  // namespace

error_code driver::functions::find() {
  error_code failed;
  const auto find_next = [&failed](const char* name, auto& function) {
    if (!failed) failed = find_function(name, function);
  };
  find_next("cuMemGetAllocationGranularity", cuMemGetAllocationGranularity);
  find_next("cuMemCreate", cuMemCreate);
  find_next("cuMemRelease", cuMemRelease);
  find_next("cuMemAddressReserve", cuMemAddressReserve);
  find_next("cuMemAddressFree", cuMemAddressFree);
  find_next("cuMemMap", cuMemMap);
  find_next("cuMemUnmap", cuMemUnmap);
  find_next("cuMemSetAccess", cuMemSetAccess);
  find_next("cuMemExportToShareableHandle", cuMemExportToShareableHandle);
  find_next("cuMemImportFromShareableHandle", cuMemImportFromShareableHandle);
  find_next("cuDeviceGetUuid", cuDeviceGetUuid);
  return failed;
}

shareable_memory::~shareable_memory() {
  if (is_mapped_) (void)driver_.cuMemUnmap(address_, bytes_);
  if (address_ != 0) (void)driver_.cuMemAddressFree(address_, bytes_);
  if (has_handle_) (void)driver_.cuMemRelease(handle_);
}

error_code shareable_memory::make(int device, std::uint64_t bytes) {
  if (auto failed = driver_.find()) return failed;
  const driver::allocation_properties properties = properties_on(device);
  std::size_t granularity = 0;
  auto failed = driver_code(driver_.cuMemGetAllocationGranularity(&granularity, &properties, 0));
  if (failed) return failed;
  bytes_ = (bytes + granularity - 1) / granularity * granularity;
  failed = driver_code(driver_.cuMemCreate(&handle_, bytes_, &properties, 0));
  if (failed) return failed;
  has_handle_ = true;
  return map(device, driver::access::read_write);
}

error_code shareable_memory::open(int device, int descriptor, std::uint64_t bytes) {
  if (auto failed = driver_.find()) return failed;
  bytes_ = bytes;
  void* const shareable = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor));
  auto failed = driver_code(
      driver_.cuMemImportFromShareableHandle(&handle_, shareable, driver::posix_descriptor));
  if (failed) return failed;
  has_handle_ = true;
  return map(device, driver::access::read);
}

error_code shareable_memory::map(int device, driver::access allowed) {
  driver::device_address address = 0;
  auto failed = driver_code(driver_.cuMemAddressReserve(&address, bytes_, 0, 0, 0));
  if (failed) return failed;
  address_ = address;
  failed = driver_code(driver_.cuMemMap(address_, bytes_, 0, handle_, 0));
  if (failed) return failed;
  is_mapped_ = true;
  driver::access_description description = {{driver::on_device, device}, allowed};
  failed = driver_code(driver_.cuMemSetAccess(address_, bytes_, &description, 1));
  if (failed && allowed == driver::access::read) {
    // Not every driver supports read-only mappings of device memory.
    description.allowed = driver::access::read_write;
    failed = driver_code(driver_.cuMemSetAccess(address_, bytes_, &description, 1));
  }
  return failed;
}

error_code shareable_memory::share(unique_fd& descriptor) const {
  int fd = -1;
  auto failed =
      driver_code(driver_.cuMemExportToShareableHandle(&fd, handle_, driver::posix_descriptor, 0));
  if (failed) return failed;
  descriptor = unique_fd(fd);
  (void)::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return {};
}

error_code uuid_of(int device, std::string& text) {
  driver::functions functions;
  if (auto failed = functions.find()) return failed;
  driver::uuid id = {};
  if (auto failed = driver_code(functions.cuDeviceGetUuid(&id, device))) return failed;
  text.clear();
  for (const unsigned char byte : id.bytes) {
    constexpr char digits[] = "0123456789abcdef";
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  return {};
}

}  // namespace ringload::inline v0::cuda
