// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_CUDA_H
#define RINGLOAD_C_CUDA_H

// GPU memory for the loaders of ringload/c.h: the component `c_cuda`.

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Returns the CUDA device with this number of the runtime. ringload_loader_create() checks whether
/// the device exists.
RINGLOAD_C_EXPORT ringload_status ringload_cuda_device(int index, ringload_device** device);
/// Returns the number of CUDA devices; 0 if there is no driver.
RINGLOAD_C_EXPORT int ringload_cuda_device_count(void);

#ifdef __cplusplus
}
#endif

#endif
