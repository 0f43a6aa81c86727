// SPDX-License-Identifier: Apache-2.0
#pragma once

// Imports tensors of other libraries through DLPack, the common exchange format for tensors.

#include <cstdint>
#include <memory>
#include <ringload/device.hpp>
#include <ringload/dlpack.hpp>
#include <ringload/dtype.hpp>
#include <ringload/error.hpp>
#include <string>
#include <vector>

namespace ringload::inline v0 {

struct imported_tensor {
  std::byte* data = nullptr;
  ringload::dtype dtype = dtype::u8;
  std::vector<std::uint64_t> shape;
  std::vector<std::int64_t> strides;  // In elements. Empty means row-major without gaps.
  ringload::device on = host();
  std::shared_ptr<void> owner;  // Calls the deleter of the DLPack tensor.
  bool read_only = false;
};

// Converts a DLPack tensor without a copy. The memory must be on the host or on the device `cuda`.
// `place` is the place of all errors, for example "destination 'w'". `malformed` is the code for an
// invalid shape or an unknown DLPack version, for example errc::invalid_destination. The deleter is
// called when the last owner is destroyed, or when the function throws `error`.
imported_tensor import_dlpack(dlpack::managed_tensor_versioned* from, const device& cuda,
                              const std::string& place, errc malformed);
imported_tensor import_dlpack(dlpack::managed_tensor* from, const device& cuda,
                              const std::string& place, errc malformed);

}  // namespace ringload::inline v0
