// SPDX-License-Identifier: Apache-2.0

// A library for adopt.py. Loads a checkpoint, exports its tensors by DLPack, and releases the model
// and the loader, so that the exported tensors must keep their memory alive.

#include <boost/asio/use_future.hpp>
#include <exception>
#include <optional>
#include <ringload/cuda.hpp>
#include <ringload/dlpack.hpp>
#include <ringload/ringload.hpp>
#include <string>
#include <vector>

#define ADOPTED_API extern "C" __attribute__((visibility("default")))

namespace {

using namespace ringload;

std::optional<model> loaded;
std::string last_problem;
std::string last_name;

}  // namespace

// Returns the number of tensors, or -1 after a failure, whose text adopted_problem() returns.
// `cuda` is the index of a device, or -1 for the host.
ADOPTED_API int adopted_load(const char* source, int cuda) {
  try {
    loader with(cuda < 0 ? host() : cuda_device(cuda));
    loaded = with.load_async(source, ringload::as_exception(boost::asio::use_future)).get();
    return static_cast<int>(loaded->size());
  } catch (const std::exception& failed) {
    last_problem = failed.what();
    return -1;
  }
}

ADOPTED_API const char* adopted_problem() { return last_problem.c_str(); }

// Valid until the next call.
ADOPTED_API const char* adopted_name(int tensor) {
  last_name = (*loaded)[static_cast<std::size_t>(tensor)].name();
  return last_name.c_str();
}

ADOPTED_API dlpack::managed_tensor* adopted_tensor(int tensor) {
  return to_legacy_dlpack((*loaded)[static_cast<std::size_t>(tensor)]);
}

ADOPTED_API void adopted_let_go(dlpack::managed_tensor* of) { of->deleter(of); }

ADOPTED_API void adopted_forget() { loaded.reset(); }
