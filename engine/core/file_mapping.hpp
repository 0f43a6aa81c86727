// SPDX-License-Identifier: Apache-2.0
#pragma once

// Bytes of a file as memory. Who touches a page of it that the file no longer has, or that cannot
// be read, gets SIGBUS: present() asks for pages without that risk.

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "core/fault.hpp"

namespace ringload::inline v0 {

class file_mapping {
 public:
  file_mapping() = default;
  file_mapping(file_mapping&& other) noexcept
      : memory_(std::exchange(other.memory_, {})), data_(std::exchange(other.data_, nullptr)) {}
  file_mapping& operator=(file_mapping&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~file_mapping();

  // Writable, it is a copy: what is written is neither seen by others nor by the file.
  static result<file_mapping> make(int fd, std::uint64_t offset, std::uint64_t bytes,
                                   bool writable);

  // The byte at `offset`.
  std::byte* data() const noexcept { return data_; }

 private:
  std::span<std::byte> memory_;  // Whole pages.
  std::byte* data_ = nullptr;
};

// Reads the pages that `memory`, mapped from a file, lies in, and maps them. EFAULT: the file does
// not have them, or could not be read. Does nothing before Linux 5.14. Any thread.
boost::system::error_code present(std::span<const std::byte> memory) noexcept;

}  // namespace ringload::inline v0
