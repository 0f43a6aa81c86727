// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/ipc.hpp"

#include <cuda_runtime_api.h>

#include <array>
#include <cstring>
#include <utility>

#include "device/cuda/runtime.hpp"

namespace ringload::inline v0::cuda {

namespace {

constexpr int bus_id_bytes = 32;  // "0000:3b:00.0" with reserve.

fault refused(int device, boost::system::error_code code, const char* action) {
  return {code, "cuda:" + std::to_string(device) + ": " + action};
}

// The device must be the current one.
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
  if (failed) return refused(device, failed, "exporting memory to other processes");
  out.handle.assign(handle.reserved, sizeof handle.reserved);
  return out;
}

result<std::unique_ptr<taken_memory>> import_memory(int device, const exported_memory& exported,
                                                    std::shared_ptr<const void> keeps) {
  cudaIpcMemHandle_t handle = {};
  if (exported.handle.size() != sizeof handle.reserved) {
    return fault{errc::malformed_message, "",
                 "the memory handle has " + grouped(exported.handle.size()) + " bytes, expected " +
                     grouped(sizeof handle.reserved)};
  }
  std::memcpy(handle.reserved, exported.handle.data(), sizeof handle.reserved);
  auto memory = std::make_unique<taken_memory>();
  memory->bytes = exported.bytes;
  memory->device = device;
  std::string bus_id;
  boost::system::error_code failed;
  const auto work = [&] {
    failed = bus_id_of(device, bus_id);
    if (failed || bus_id != exported.on) return;
    failed =
        code_of(cudaIpcOpenMemHandle(&memory->address, handle, cudaIpcMemLazyEnablePeerAccess));
    if (failed) memory->address = nullptr;
  };
  if (auto no_device = on_device(device, work)) failed = no_device;
  if (failed) return refused(device, failed, "opening memory of another process");
  if (bus_id != exported.on) {
    return fault{
        errc::device_unavailable, "cuda:" + std::to_string(device),
        "this GPU is at " + bus_id + ", but the memory belongs to the GPU at " + exported.on};
  }
  memory->is_of_another_process = true;
  memory->keeps = std::move(keeps);
  return memory;
}

}  // namespace ringload::inline v0::cuda
