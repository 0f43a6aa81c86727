// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_HDF5_H
#define RINGLOAD_C_HDF5_H

// Reads HDF5 files, with the C interface of ringload/c.h. This header belongs to the component
// `c_hdf5`.

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Returns an extension for ringload_loader_create_with(). libhdf5 runs in a separate process for
/// each file. `program` is the path of `ringload-hdf5-parse`, which is installed with the component
/// `hdf5`. If `program` is null, libhdf5 runs in this process. Then open trusted files only.
/// Returns RINGLOAD_UNSUPPORTED if ringload was built without libhdf5. See `ringload/hdf5.hpp`.
RINGLOAD_C_EXPORT ringload_status ringload_hdf5_extension(const char* program,
                                                          ringload_extension** result);

#ifdef __cplusplus
}
#endif

#endif
