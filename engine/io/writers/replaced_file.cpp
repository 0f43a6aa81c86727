// SPDX-License-Identifier: Apache-2.0

#include "io/writers/replaced_file.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "base/printable.hpp"

namespace ringload::inline v0 {

namespace {

bool is_same(const struct ::stat& a, const struct ::stat& b) noexcept {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

}  // namespace

result<void> replaced_file::lock(const std::string& path, int fd) {
  path_ = path;
  const auto failed = [&](std::string cause = {}) {
    return fault{system_code(errno), printable_path(path), std::move(cause)};
  };
  locked_ = unique_fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!locked_ || ::fstat(fd, &before_) != 0) return failed();
  // If the file system has no locks, the file is protected only by check_unchanged().
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    errno = EBUSY;
    return failed("another writer is changing the file: try again when that writer has finished");
  }
  return check_unchanged();
}

result<void> replaced_file::check_unchanged() const {
  if (!locked_) return {};
  struct ::stat current = {};
  if (::stat(path_.c_str(), &current) == 0 && is_same(before_, current)) return {};
  return fault{errc::changed_file, printable_path(path_),
               "the file was changed or replaced since it was read, so it is not overwritten"};
}

}  // namespace ringload::inline v0
