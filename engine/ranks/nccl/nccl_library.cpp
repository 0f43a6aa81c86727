// SPDX-License-Identifier: Apache-2.0
#include "ranks/nccl/nccl_library.hpp"

#include <dlfcn.h>

namespace ringload::inline v0::nccl {

namespace {

// Returns the message of the last dlopen() or dlsym() that failed.
fault load_fault(const std::string& name) {
  const char* const message = ::dlerror();
  return {errc::device_unavailable, "NCCL",
          message != nullptr ? message : name + " cannot be loaded"};
}

template <class Function>
bool find(void* handle, const char* name, Function& function) {
  void* const found = ::dlsym(handle, name);
  function = reinterpret_cast<Function>(found);
  return found != nullptr;
}

}  // namespace

result<std::shared_ptr<const library>> load_library(const std::string& name) {
  // The library is never unloaded, because the library may have running threads.
  void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return load_fault(name);
  library out;
  const bool has_all =
      find(handle, "ncclGetUniqueId", out.ncclGetUniqueId) &&
      find(handle, "ncclCommInitRankConfig", out.ncclCommInitRankConfig) &&
      find(handle, "ncclCommDestroy", out.ncclCommDestroy) &&
      find(handle, "ncclCommAbort", out.ncclCommAbort) &&
      find(handle, "ncclCommGetAsyncError", out.ncclCommGetAsyncError) &&
      find(handle, "ncclGetErrorString", out.ncclGetErrorString) &&
      find(handle, "ncclGroupStart", out.ncclGroupStart) &&
      find(handle, "ncclGroupEnd", out.ncclGroupEnd) && find(handle, "ncclSend", out.ncclSend) &&
      find(handle, "ncclRecv", out.ncclRecv) && find(handle, "ncclBroadcast", out.ncclBroadcast);
  if (!has_all) return load_fault(name);
  return std::make_shared<const library>(out);
}

}  // namespace ringload::inline v0::nccl
