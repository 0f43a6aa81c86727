// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/ipc.hpp"

#include <cuda_runtime_api.h>

#include <array>
#include <cstring>
#include <utility>

#include "device/cuda/runtime.hpp"

namespace ringload::inline v0::cuda {

namespace {

constexpr int bus_id_bytes = 32;  // "0000:3b:00.0", with room.

fault refused(int device, boost::system::error_code why, const char* what) {
  return {why, "cuda:" + std::to_string(device) + ": " + what};
}

// Where the device is the current one.
boost::system::error_code bus_id_of(int device, std::string& into) {
  std::array<char, bus_id_bytes> text = {};
  auto failed = code_of(cudaDeviceGetPCIBusId(text.data(), bus_id_bytes, device));
  text.back() = 0;
  if (!failed) into = text.data();
  return failed;
}

}  // namespace

result<exported_memory> export_memory(int device, void* base, std::uint64_t bytes) {
  exported_memory out;
  out.bytes = bytes;
  cudaIpcMemHandle_t handle = {};
  boost::system::error_code failed;
  const auto work = [&] {
    failed = bus_id_of(device, out.on);
    if (!failed) failed = code_of(cudaIpcGetMemHandle(&handle, base));
  };
  if (auto no_device = on_device(device, work)) failed = no_device;
  if (failed) return refused(device, failed, "giving memory to other processes");
  out.handle.assign(handle.reserved, sizeof handle.reserved);
  return out;
}

result<std::unique_ptr<taken_memory>> import_memory(int device, const exported_memory& what,
                                                    std::shared_ptr<const void> keeps) {
  cudaIpcMemHandle_t handle = {};
  if (what.handle.size() != sizeof handle.reserved) {
    return fault{errc::malformed_message, "", "this is no handle of memory of a GPU"};
  }
  std::memcpy(handle.reserved, what.handle.data(), sizeof handle.reserved);
  auto made = std::make_unique<taken_memory>();
  made->bytes = what.bytes;
  made->device = device;
  std::string here;
  boost::system::error_code failed;
  const auto work = [&] {
    failed = bus_id_of(device, here);
    if (failed || here != what.on) return;
    failed = code_of(cudaIpcOpenMemHandle(&made->address, handle, cudaIpcMemLazyEnablePeerAccess));
    if (failed) made->address = nullptr;
  };
  if (auto no_device = on_device(device, work)) failed = no_device;
  if (failed) return refused(device, failed, "opening memory of another process");
  if (here != what.on) {
    return fault{errc::device_unavailable, "cuda:" + std::to_string(device),
                 "it is the GPU at " + here + ", and the memory is of the one at " + what.on};
  }
  made->is_of_another_process = true;
  made->keeps = std::move(keeps);
  return made;
}

}  // namespace ringload::inline v0::cuda
