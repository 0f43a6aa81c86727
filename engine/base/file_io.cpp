// SPDX-License-Identifier: Apache-2.0

#include "base/file_io.hpp"

#include <unistd.h>

namespace ringload::inline v0 {

result<std::size_t> read_fully(int fd, std::uint64_t offset, std::span<std::byte> into) {
  std::size_t position = 0;
  while (position < into.size()) {
    const ::ssize_t n = uninterrupted([&] {
      return ::pread(fd, into.data() + position, into.size() - position,
                     static_cast<::off_t>(offset + position));
    });
    if (n < 0) return fault{system_code(errno), {}};
    if (n == 0) break;
    position += static_cast<std::size_t>(n);
  }
  return position;
}

result<void> write_fully(int fd, std::uint64_t offset, std::span<const std::byte> bytes) {
  for (std::size_t position = 0; position < bytes.size();) {
    const ::ssize_t n = uninterrupted([&] {
      return ::pwrite(fd, bytes.data() + position, bytes.size() - position,
                      static_cast<::off_t>(offset + position));
    });
    if (n <= 0) return fault{system_code(n < 0 ? errno : EIO), {}};
    position += static_cast<std::size_t>(n);
  }
  return {};
}

}  // namespace ringload::inline v0
