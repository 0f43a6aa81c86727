// SPDX-License-Identifier: Apache-2.0
#pragma once

// HDF5 files, by the component `hdf5` (ringload::hdf5), which links libhdf5. Only what is said
// about the file is asked of that library; the tensors' bytes are read as those of any other
// format.
//
//   ringload::loader loader{ringload::host(), {}, {ringload::hdf5()}};
//
// Names are those of the groups and of the dataset, joined by dots. Read are contiguous, compact
// and chunked datasets of integers, floats, bools and complex numbers (as h5py writes these two),
// with the filters deflate, shuffle and fletcher32; attributes of the file and of its groups are
// metadata. Strings, references, structures and the like are left out with a note. A file that has
// links to other files, external storage or virtual datasets is refused: no second file is opened.

#include <chrono>
#include <cstdint>
#include <optional>
#include <ringload/export.hpp>
#include <ringload/extension.hpp>
#include <string>

namespace ringload::inline v0 {

/// Lets a loader read HDF5 files, by libhdf5 in this process, one call at a time. For files that
/// are trusted: libhdf5 has a long record of memory errors on others. Where the program uses
/// libhdf5 itself in other threads, that library must have been built thread-safe.
RINGLOAD_EXPORT extension hdf5();

/// A process in which libhdf5 runs, and what it may take there. A crash, a hang or a file that
/// wants all memory is then an error of that file alone, and what the process answers is checked as
/// if it were the file. It is made anew for each file, by posix_spawn, which a program with threads
/// may use. It inherits the open file, a pipe and nothing else of the program: no environment, no
/// other descriptor. It takes some milliseconds.
struct hdf5_process {
  /// The program that is run: "ringload-hdf5-parse", which is installed with the component, by its
  /// path; or one whose main() calls hdf5_parser_main() first ("/proc/self/exe" is the one that
  /// runs), which then links libhdf5.
  std::string program;
  /// How long it may take for a file. It is ended then, and the file refused.
  std::chrono::milliseconds time_max = std::chrono::seconds(30);
  /// The memory that it may take, as addresses (RLIMIT_AS).
  std::uint64_t memory_bytes_max = std::uint64_t{1} << 30;
};

/// Lets a loader read HDF5 files, by libhdf5 in processes of their own. A program that has only
/// this needs no libhdf5 itself: a linker that is told `--as-needed` leaves it out.
RINGLOAD_EXPORT extension hdf5(hdf5_process how);

/// For the first line of main() of a program that is its own hdf5_process::program. Empty where the
/// program was not started for that; otherwise the work is done, and this is what main() returns.
RINGLOAD_EXPORT std::optional<int> hdf5_parser_main(int argc, char** argv);

}  // namespace ringload::inline v0
