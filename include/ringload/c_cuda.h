// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_CUDA_H
#define RINGLOAD_C_CUDA_H

// Creates CUDA devices for the C interface of ringload/c.h, so that tensors can be loaded into GPU
// memory, and groups of ranks that exchange GPU memory with NCCL. This header belongs to the
// component `c_cuda`.

#include <ringload/c.h>
#include <ringload/c_ranks.h>

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

/// Creates a group whose ranks exchange memory of the CUDA device `device` with NCCL. `hosts` must
/// be a group for host memory. All ranks of `hosts` must call this function together. Each rank
/// must have a device of its own. Afterwards, only the new group may use `hosts`. The handle
/// `hosts` may be released.
///
/// Loads by ranks with the new group require a loader for the same device. `stream` is a
/// cudaStream_t of the device, on which NCCL runs. Null means the default stream. `library` is the
/// name or the path of NCCL. Null means "libnccl.so.2". If NCCL cannot be loaded, returns
/// RINGLOAD_UNAVAILABLE on this rank. `milliseconds` is the time limit of the calls of NCCL: see
/// ringload_thread_groups(). `ringload/nccl.hpp` describes the details.
RINGLOAD_C_EXPORT ringload_status ringload_nccl_group(ringload_group* hosts, int device,
                                                      void* stream, const char* library,
                                                      uint32_t milliseconds,
                                                      ringload_group** result);

#ifdef __cplusplus
}
#endif

#endif
