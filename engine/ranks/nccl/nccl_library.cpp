// SPDX-License-Identifier: Apache-2.0
#include "ranks/nccl/nccl_library.hpp"

#include <dlfcn.h>

namespace ringload::inline v0::nccl {

namespace {

// Returns the last error of dlopen or dlsym.
fault load_fault(const std::string& name) {
  const char* const message = ::dlerror();
  return {errc::device_unavailable, "NCCL",
          message != nullptr ? message : name + " cannot be loaded"};
}

template <class Function>
bool find(void* in, const char* name, Function& into) {
  void* const found = ::dlsym(in, name);
  into = reinterpret_cast<Function>(found);
  return found != nullptr;
}

}  // namespace

result<std::shared_ptr<const library>> load_library(const std::string& name) {
  // Never closed, because the library may have threads.
  void* const in = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (in == nullptr) return load_fault(name);
  library out;
  const bool whole = find(in, "ncclGetUniqueId", out.ncclGetUniqueId) &&
                     find(in, "ncclCommInitRank", out.ncclCommInitRank) &&
                     find(in, "ncclCommDestroy", out.ncclCommDestroy) &&
                     find(in, "ncclCommAbort", out.ncclCommAbort) &&
                     find(in, "ncclCommGetAsyncError", out.ncclCommGetAsyncError) &&
                     find(in, "ncclGetErrorString", out.ncclGetErrorString) &&
                     find(in, "ncclGroupStart", out.ncclGroupStart) &&
                     find(in, "ncclGroupEnd", out.ncclGroupEnd) &&
                     find(in, "ncclSend", out.ncclSend) && find(in, "ncclRecv", out.ncclRecv) &&
                     find(in, "ncclBroadcast", out.ncclBroadcast);
  if (!whole) return load_fault(name);
  return std::make_shared<const library>(out);
}

}  // namespace ringload::inline v0::nccl
