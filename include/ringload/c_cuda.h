// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_CUDA_H
#define RINGLOAD_C_CUDA_H

// Creates CUDA devices for the C interface of ringload/c.h, so that tensors can be loaded into GPU
// memory. This header belongs to the component `c_cuda`.

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Returns the CUDA device with this index in the CUDA runtime. This function does not check
/// whether the device exists, but ringload_loader_create() does.
RINGLOAD_C_EXPORT ringload_status ringload_cuda_device(int index, ringload_device** device);
/// Returns the CUDA device with this index. A keeper can publish models that are loaded for this
/// device (ringload/c_keeper.h).
RINGLOAD_C_EXPORT ringload_status ringload_shared_cuda_device(int index, ringload_device** device);
/// Returns the number of CUDA devices. Returns 0 if the machine has no driver.
RINGLOAD_C_EXPORT int ringload_cuda_device_count(void);

#ifdef __cplusplus
}
#endif

#endif
