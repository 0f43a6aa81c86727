// SPDX-License-Identifier: Apache-2.0
#pragma once

// Opens a file a second time with O_DIRECT. Direct reads are used if three conditions hold: the
// file can be opened with O_DIRECT, a trial read succeeds, and statx does not report an unsuitable
// alignment. The result of a trial read is kept for its file system.

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "base/fault.hpp"
#include "base/io_unit.hpp"
#include "base/unique_fd.hpp"
#include "io/header_reader.hpp"

namespace ringload::inline v0 {

// A file on a distant mount: see is_distant() in io/block_device_id.hpp. The default value means
// that the file is not distant.
struct distant_file {
  header_reads trial = {};  // Carries out the trial read.
  unique_fd fd = {};        // The file, open for direct reads. If empty, open() opens the file.
  bool was_read = false;    // True if a read of `fd` has succeeded. Then no trial is needed.
};

class direct_files {
 public:
  struct opened {
    unique_fd fd;  // Empty if direct reads are not possible.
    // The reason why direct reads are not possible, for example "the file system refuses O_DIRECT".
    // Empty if direct reads are possible.
    std::string refusal;
    // Required alignment of the address of a direct read.
    std::uint32_t address_alignment = direct_address_alignment;
  };

  // `write` opens the file for reading and writing.
  enum class access : std::uint8_t { read, write };

  // Opens the file of the descriptor `buffered` again. If /proc is missing, opens `path` instead,
  // and returns errc::changed_file if `path` names another file. Thread-safe.
  result<opened> open(int buffered, const std::string& path, std::uint64_t file_bytes,
                      access mode = access::read, distant_file distant = {});

 private:
  // Returns the element of `refusals_`, or an empty optional if no result of a trial is stored.
  std::optional<std::string> known_refusal(::dev_t device);

  std::mutex mutex_;
  // Indexed by file system: the reason why its trial read failed, or an empty string if the trial
  // read succeeded. Guarded by the mutex.
  std::map<::dev_t, std::string> refusals_;
};

}  // namespace ringload::inline v0
