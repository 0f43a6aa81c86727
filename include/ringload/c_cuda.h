// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_CUDA_H
#define RINGLOAD_C_CUDA_H

// Creates CUDA devices for the C interface of ringload/c.h, so that tensors can be loaded into GPU
// memory. This header belongs to the component `c_cuda`.

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Returns the CUDA device that has the index `index` in the CUDA runtime. ringload_loader_create()
/// checks whether the device exists, but this function does not.
RINGLOAD_C_EXPORT ringload_status ringload_cuda_device(int index, ringload_device** device);
/// Returns the CUDA device that has the index `index`. A keeper can publish models that are loaded
/// for the returned device (ringload/c_keeper.h).
RINGLOAD_C_EXPORT ringload_status ringload_shared_cuda_device(int index, ringload_device** device);
/// Returns the number of CUDA devices. Returns 0 if the machine has no driver.
RINGLOAD_C_EXPORT int ringload_cuda_device_count(void);

#ifdef __cplusplus
}
#endif

#endif
