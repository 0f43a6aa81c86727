// SPDX-License-Identifier: Apache-2.0

// Compares the declarations of cuFile with cufile.h. Compiled only if cufile.h exists.

#include <cufile.h>

#include <cstddef>
#include <type_traits>
#include <utility>

#include "device/cuda/cufile_library.hpp"

namespace {

namespace ours = ringload::cuda::cufile;

template <class Ours, class Theirs>
constexpr bool same_layout = sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs);

static_assert(same_layout<ours::error, CUfileError_t>);
static_assert(offsetof(ours::error, driver_code) == offsetof(CUfileError_t, cu_err));
static_assert(same_layout<ours::driver_properties, CUfileDrvProps_t>);
static_assert(offsetof(ours::driver_properties, nvfs.control_flags) ==
              offsetof(CUfileDrvProps_t, nvfs.dcontrolflags));
static_assert(same_layout<ours::file_descriptor, CUfileDescr_t>);
static_assert(offsetof(ours::file_descriptor, file) == offsetof(CUfileDescr_t, handle));
static_assert(offsetof(ours::file_descriptor, operations) == offsetof(CUfileDescr_t, fs_ops));
static_assert(ours::opaque_descriptor == CU_FILE_HANDLE_TYPE_OPAQUE_FD);
static_assert(std::is_same_v<ours::handle, CUfileHandle_t>);
static_assert(ours::compatibility_bit == CU_FILE_ALLOW_COMPAT_MODE);
static_assert(ours::posix_bit == 2 && ours::fallback_bit == 4);  // Newer headers name them.
static_assert(ours::allow_compatibility == CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE);
static_assert(
    std::is_same_v<decltype(&cuFileRead), decltype(std::declval<ours::functions>().cuFileRead)>);
static_assert(std::is_same_v<decltype(&cuFileHandleDeregister),
                             decltype(std::declval<ours::functions>().cuFileHandleDeregister)>);

}  // namespace
