// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_HDF5_H
#define RINGLOAD_C_HDF5_H

// HDF5 files for the loaders of ringload/c.h: the component `c_hdf5`.

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

/// For ringload_loader_create_with(). libhdf5 runs in a process of its own for each file, the
/// program `ringload-hdf5-parse` at this path, which is installed with the component `hdf5`; or in
/// this one where `program` is null, which is for files that are trusted. RINGLOAD_UNSUPPORTED
/// where ringload was built without libhdf5. `ringload/hdf5.hpp` says more.
RINGLOAD_C_EXPORT ringload_status ringload_hdf5_extension(const char* program,
                                                          ringload_extension** made);

#ifdef __cplusplus
}
#endif

#endif
