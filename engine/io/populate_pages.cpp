// SPDX-License-Identifier: Apache-2.0

#include "io/populate_pages.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/file_mapping.hpp"

namespace ringload::inline v0 {

std::int64_t populate_pages(int fd, std::uint64_t file_offset, std::span<std::byte> into,
                            boost::system::error_code&) noexcept {
  const auto failed = present(into);
  if (!failed) return static_cast<std::int64_t>(into.size());
  struct ::stat now = {};
  const bool known = ::fstat(fd, &now) == 0;
  const std::uint64_t end = known ? static_cast<std::uint64_t>(now.st_size) : 0;
  if (known && end < file_offset + into.size()) {
    return static_cast<std::int64_t>(std::max(end, file_offset) - file_offset);
  }
  return failed.value() == EFAULT ? -EIO : -failed.value();
}

}  // namespace ringload::inline v0
