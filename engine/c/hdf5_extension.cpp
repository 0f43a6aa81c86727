// SPDX-License-Identifier: Apache-2.0

// Without HDF5 support, ringload_hdf5_extension() fails.

#include <ringload/c_hdf5.h>

#include <ringload/error.hpp>
#if RINGLOAD_C_HAS_HDF5
#include <ringload/hdf5.hpp>
#include <string>
#endif

#include "c/handles.hpp"
#include "c/status.hpp"

using namespace ringload::c;

ringload_status ringload_hdf5_extension(const char* program, ringload_extension** extension) {
  return guarded([&]() -> ringload_status {
    required(extension, "the output pointer for the extension is null") = nullptr;
#if RINGLOAD_C_HAS_HDF5
    if (program) {
      ringload::hdf5_process process;
      process.program = program;
      *extension = new ringload_extension{ringload::hdf5(std::move(process))};
    } else {
      *extension = new ringload_extension{ringload::hdf5()};
    }
    return RINGLOAD_OK;
#else
    static_cast<void>(program);
    throw ringload::error(ringload::errc::unsupported_feature, "HDF5",
                          "this ringload was built without libhdf5");
#endif
  });
}
