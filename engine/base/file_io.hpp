// SPDX-License-Identifier: Apache-2.0
#pragma once

// Blocking reads and writes that transfer all bytes. Calls that fail with EINTR are repeated.

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ringload/export.hpp>
#include <span>

#include "base/fault.hpp"

namespace ringload::inline v0 {

// Repeats a system call while the call fails with EINTR. If the result is negative, errno has the
// error.
template <class Call>
auto uninterrupted(const Call& call) noexcept -> decltype(call()) {
  for (;;) {
    const auto returned = call();
    if (returned >= 0 || errno != EINTR) return returned;
  }
}

// Returns the number of bytes read, which is smaller than `into.size()` only if the file ends.
RINGLOAD_EXPORT result<std::size_t> read_fully(int fd, std::uint64_t offset,
                                               std::span<std::byte> into);

// Also returns EIO if pwrite() returns 0.
RINGLOAD_EXPORT result<void> write_fully(int fd, std::uint64_t offset,
                                         std::span<const std::byte> bytes);

}  // namespace ringload::inline v0
