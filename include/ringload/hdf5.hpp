// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads HDF5 files. The component `hdf5` (ringload::hdf5) links libhdf5. libhdf5 parses only the
// structure of a file. The bytes of the tensors are read by the loader, as in all other formats.
//
//   ringload::loader loader{ringload::host(), {}, {ringload::hdf5()}};
//
// The name of a tensor consists of the names of the groups and of the dataset, joined by dots.
// Datasets of integers, floats, bools and complex numbers are supported. Bools and complex numbers
// must be stored in the form that h5py uses. A dataset may be contiguous, compact or chunked. The
// filters deflate, shuffle and fletcher32 are supported. Attributes of the file and of its groups
// become metadata.
//
// Datasets of other types, such as strings, references and structures, are omitted, and
// `catalog::notes` has a note. Numbers in an unsupported form are omitted only with
// `strictness::reference`. With `strictness::strict`, the file is refused. With both values of
// `strictness`, a file that refers to other files (by links, external storage or virtual datasets)
// is refused, so that no second file is opened.

#include <chrono>
#include <cstdint>
#include <optional>
#include <ringload/export.hpp>
#include <ringload/extension.hpp>
#include <string>

namespace ringload::inline v0 {

/// Returns an extension that reads HDF5 files with libhdf5 in this process. libhdf5 is called by
/// one thread at a time. Use this function for trusted files only, because libhdf5 has had many
/// memory errors on malformed files. If other threads of the program use libhdf5, libhdf5 must be
/// built thread-safe.
RINGLOAD_EXPORT extension hdf5();

/// A separate process that runs libhdf5, and the limits of the process. If libhdf5 crashes, hangs,
/// or uses too much memory, only the load of this file fails. The output of the process is
/// validated as strictly as a file.
///
/// Each file gets a new process. The process is started with posix_spawn, which is safe in programs
/// with threads. The process inherits the open file and a pipe, but no environment variables. With
/// glibc 2.34 or later, the process inherits no other descriptors. Starting the process takes some
/// milliseconds.
struct hdf5_process {
  /// The path of the program that runs libhdf5. "ringload-hdf5-parse" is installed with the
  /// component. Another program can be used if its main() begins with a call of hdf5_parser_main().
  /// The path "/proc/self/exe" means the running program. In this case, the running program must
  /// link libhdf5.
  std::string program;
  /// The time limit for one file. After this time, the process is killed and the file is refused.
  std::chrono::milliseconds time_max = std::chrono::seconds(30);
  /// The limit for the address space of the process (RLIMIT_AS).
  std::uint64_t memory_bytes_max = std::uint64_t{1} << 30;
};

/// Returns an extension that reads HDF5 files with libhdf5 in separate processes. A program that
/// uses only this overload of hdf5() does not need libhdf5. Therefore a linker with `--as-needed`
/// does not link libhdf5.
RINGLOAD_EXPORT extension hdf5(hdf5_process process);

/// Call this function first in main() if the program uses itself as hdf5_process::program. If the
/// program was started to parse a file, parses the file and returns a value, which main() must
/// return. Otherwise returns an empty optional.
RINGLOAD_EXPORT std::optional<int> hdf5_parser_main(int argc, char** argv);

}  // namespace ringload::inline v0
