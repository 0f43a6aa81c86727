// SPDX-License-Identifier: Apache-2.0
#pragma once

// A mapped range of a file. Used for tensors that are mapped instead of read. An access to a page
// raises SIGBUS if the page is past the end of the file or cannot be read. The function present()
// reads pages in advance, and returns an error instead of raising SIGBUS.

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

  // A writable mapping is private: writes to the mapping do not change the file, and other
  // processes do not see the writes.
  static result<file_mapping> make(int fd, std::uint64_t offset, std::uint64_t bytes,
                                   bool writable);

  // Returns the address of the byte at the `offset` that was passed to make().
  std::byte* data() const noexcept { return data_; }

 private:
  std::span<std::byte> memory_;  // Whole pages.
  std::byte* data_ = nullptr;
};

// Reads the pages of `memory` from the file, and maps the pages. `memory` must be in a
// file_mapping. Returns EFAULT if a page is past the end of the file or cannot be read. Before
// Linux 5.14, present() only starts readahead. Thread-safe.
boost::system::error_code present(std::span<const std::byte> memory) noexcept;

}  // namespace ringload::inline v0
