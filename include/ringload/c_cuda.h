// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_CUDA_H
#define RINGLOAD_C_CUDA_H

// GPU memory for the loaders of ringload/c.h: the component `c_cuda`.

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A CUDA device by the runtime's number, for ringload_loader_create(), which says whether it is
/// there.
RINGLOAD_C_EXPORT ringload_status ringload_cuda_device(int index, ringload_device** device);
/// How many there are; 0 also where there is no driver.
RINGLOAD_C_EXPORT int ringload_cuda_device_count(void);

#ifdef __cplusplus
}
#endif

#endif
