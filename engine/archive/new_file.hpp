// SPDX-License-Identifier: Apache-2.0
#pragma once

// A file that appears under its name only when it is whole.
//
// Until then it has no name at all (O_TMPFILE), so that a process that is killed leaves nothing;
// or, on file systems that cannot do that, the name ".ringload-<process>-<n>" in the same folder.

#include <cstdint>
#include <string>

#include "core/fault.hpp"
#include "core/unique_fd.hpp"

namespace ringload::inline v0 {

class new_file {
 public:
  // Makes an empty file in the folder of `target`, with the permissions of a new one. Faults name
  // the target.
  static result<new_file> make(std::string target);
  // One that is only in memory, and is never published.
  static result<new_file> in_memory();

  new_file(new_file&& other) noexcept;
  new_file& operator=(new_file&& other) = delete;
  ~new_file();

  // Open for reading and writing.
  int fd() const noexcept { return fd_.get(); }
  const std::string& target() const noexcept { return target_; }
  bool is_in_memory() const noexcept { return in_memory_; }

  // Gives it its name, in place of a file that has it, or, if nothing may be replaced, EEXIST.
  // With `sync` file and folder are flushed to the drive, before and after.
  result<void> publish(bool replace, bool sync);

 private:
  new_file(unique_fd fd, std::string target, std::string temporary) noexcept;

  result<void> failed(const char* what) const;
  result<void> give_temporary_name();
  result<void> rename_to_target(bool replace);

  unique_fd fd_;
  std::string target_;
  std::string temporary_;  // Its path; empty: it has no name.
  bool in_memory_ = false;
};

}  // namespace ringload::inline v0
