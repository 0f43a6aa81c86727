// SPDX-License-Identifier: Apache-2.0
#pragma once

// A mapped range of a file. Touching a page that the file no longer has, or that cannot be read,
// raises SIGBUS. present() requests pages without that risk.

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/fault.hpp"

namespace ringload::inline v0 {

class file_mapping {
 public:
  file_mapping() = default;
  file_mapping(file_mapping&& source) noexcept
      : memory_(std::exchange(source.memory_, {})), data_(std::exchange(source.data_, nullptr)) {}
  file_mapping& operator=(file_mapping&& source) noexcept {
    std::swap(memory_, source.memory_);
    std::swap(data_, source.data_);
    return *this;
  }
  ~file_mapping();

  // A writable mapping is private: writes are visible neither to other processes nor in the file.
  static result<file_mapping> make(int fd, std::uint64_t offset, std::uint64_t bytes,
                                   bool writable);

  // Points to the byte at `offset`.
  std::byte* data() const noexcept { return data_; }

 private:
  std::span<std::byte> memory_;  // Whole pages.
  std::byte* data_ = nullptr;
};

// Reads the file pages that contain `memory` and maps them. Returns EFAULT if the file does not
// have the pages or they cannot be read. Does nothing before Linux 5.14. Thread-safe.
boost::system::error_code present(std::span<const std::byte> memory) noexcept;

}  // namespace ringload::inline v0
