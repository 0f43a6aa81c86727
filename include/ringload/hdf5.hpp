// SPDX-License-Identifier: Apache-2.0
#pragma once

// HDF5 files, in the component `hdf5` (ringload::hdf5), which links libhdf5. libhdf5 parses only
// the structure of a file. The loader reads the tensors' bytes as in any other format.
//
//   ringload::loader loader{ringload::host(), {}, {ringload::hdf5()}};
//
// A name consists of the names of the groups and of the dataset, joined by dots. Supported are
// contiguous, compact and chunked datasets of integers, floats, bools and complex numbers (bools
// and complex numbers in the form of h5py), with the filters deflate, shuffle and fletcher32.
// Attributes of the file and of its groups are metadata. Strings, references, structures and
// similar types are left out with a note. A file with links to other files, external storage or
// virtual datasets is refused: no second file is opened.

#include <chrono>
#include <cstdint>
#include <optional>
#include <ringload/export.hpp>
#include <ringload/extension.hpp>
#include <string>

namespace ringload::inline v0 {

/// Returns an extension that reads HDF5 files with libhdf5 in this process, one call at a time. Use
/// it only for trusted files, because libhdf5 has a long record of memory errors on malformed
/// files. If other threads of the program use libhdf5, the library must be built thread-safe.
RINGLOAD_EXPORT extension hdf5();

/// A process that runs libhdf5, and its limits. A crash, a hang or excessive memory use then fails
/// only the one file. The process's answer is checked as strictly as a file. A new process is
/// started for each file with posix_spawn, which is safe in programs with threads. The process
/// inherits the open file and a pipe, but no environment and no other descriptor. Starting takes
/// some milliseconds.
struct hdf5_process {
  /// The path of the program: "ringload-hdf5-parse", which is installed with the component; or a
  /// program whose main() calls hdf5_parser_main() first. "/proc/self/exe" is the running program,
  /// which must then link libhdf5.
  std::string program;
  /// The time limit for one file. The process is then killed and the file is refused.
  std::chrono::milliseconds time_max = std::chrono::seconds(30);
  /// The limit of the process's address space (RLIMIT_AS).
  std::uint64_t memory_bytes_max = std::uint64_t{1} << 30;
};

/// Returns an extension that reads HDF5 files with libhdf5 in separate processes. A program with
/// only this extension does not need libhdf5: a linker with `--as-needed` leaves it out.
RINGLOAD_EXPORT extension hdf5(hdf5_process process);

/// Must be called in the first line of main() of a program that is its own hdf5_process::program.
/// Returns empty if the program was started normally. Otherwise the parsing is done, and main()
/// must return this value.
RINGLOAD_EXPORT std::optional<int> hdf5_parser_main(int argc, char** argv);

}  // namespace ringload::inline v0
