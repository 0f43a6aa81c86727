// SPDX-License-Identifier: Apache-2.0
#pragma once

// Declares the functions of cuFile that ringload uses. cuFile is the library of GPUDirect Storage.
// The library is loaded at run time when a loader needs cuFile, so no target links cuFile.
// tests/cuda/CMakeLists.txt compares the declarations with cufile.h.

#include <sys/types.h>

#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstddef>
#include <string>

#include "base/fault.hpp"

namespace ringload::inline v0::cuda::cufile {

struct error {
  int code;         // 0 means success.
  int driver_code;  // Error code of the CUDA driver.
};

struct driver_properties {
  struct {
    unsigned major_version;
    unsigned minor_version;
    std::size_t poll_threshold_bytes;
    std::size_t direct_io_bytes_max;
    unsigned status_flags;
    unsigned control_flags;
  } nvfs;
  unsigned feature_flags;
  unsigned device_cache_bytes_max;
  unsigned buffer_cache_bytes;
  unsigned pinned_bytes_max;
  unsigned batch_size_max;
  unsigned batch_timeout_ms;
};

// Bit numbers in driver_properties::nvfs.control_flags. If one of these bits is set, cuFile may
// read a file through host memory.
inline constexpr unsigned compatibility_bit = 1;
inline constexpr unsigned posix_bit = 2;
inline constexpr unsigned fallback_bit = 4;

inline constexpr int allow_compatibility = 1;  // A `parameter` of cuFileSetParameterBool.

struct file_descriptor {
  int type;
  union {
    int descriptor;
    void* handle;
  } file;
  const void* operations;
};
inline constexpr int opaque_descriptor = 1;

using handle = void*;

struct functions {
  error (*cuFileDriverOpen)() = nullptr;
  error (*cuFileDriverGetProperties)(driver_properties* properties) = nullptr;
  // Null if cuFile is older than 1.14.
  error (*cuFileSetParameterBool)(int parameter, bool value) = nullptr;
  error (*cuFileHandleRegister)(handle* file, file_descriptor* descriptor) = nullptr;
  void (*cuFileHandleDeregister)(handle file) = nullptr;
  error (*cuFileBufRegister)(const void* memory, std::size_t bytes, int flags) = nullptr;
  error (*cuFileBufDeregister)(const void* memory) = nullptr;
  ::ssize_t (*cuFileRead)(handle file, void* memory, std::size_t bytes, ::off_t file_offset,
                          ::off_t memory_offset) = nullptr;
};

// The error category of cuFile. The error codes are 5001 and larger.
const boost::system::error_category& category() noexcept;

boost::system::error_code code_of(const error& outcome) noexcept;

// Opens the cuFile driver once for the process, and returns the functions. The functions are valid
// until the process ends. Switches off cuFile's compatibility mode for the process, because that
// mode reads through host memory. If cuFile can still read through host memory, returns
// errc::device_unavailable with the reason. The driver is never closed, because other code may use
// the driver.
//
// `device` must exist. If the machine has no CUDA driver, cuFileDriverOpen of cuFile 1.20 never
// returns. Therefore a separate thread opens the cuFile driver, and the calls of open_driver() wait
// until a deadline. The deadline is a fixed time after the first call in the process. After the
// deadline, open_driver() fails immediately if the driver is not open.
result<const functions*> open_driver(int device);

// Only for tests. Sets another library and another time limit for the next open_driver().
void use_library(const std::string& name, std::chrono::milliseconds limit);

// Only for tests. Sets the time limit for the next attempt to open the driver.
void limit_opening(std::chrono::milliseconds limit);

}  // namespace ringload::inline v0::cuda::cufile
