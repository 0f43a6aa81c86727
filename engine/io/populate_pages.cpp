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
  struct ::stat status = {};
  const bool has_status = ::fstat(fd, &status) == 0;
  const std::uint64_t end = has_status ? static_cast<std::uint64_t>(status.st_size) : 0;
  if (has_status && end < file_offset + into.size()) {
    return static_cast<std::int64_t>(std::max(end, file_offset) - file_offset);
  }
  return failed.value() == EFAULT ? -EIO : -failed.value();
}

}  // namespace ringload::inline v0
