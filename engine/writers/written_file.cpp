// SPDX-License-Identifier: Apache-2.0
#include "writers/written_file.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/checked.hpp"

namespace ringload::inline v0 {

namespace {

// 0, or errno. A file system that cannot allocate ahead gets the size alone.
int allocate(int fd, std::uint64_t bytes) noexcept {
  if (bytes == 0) return 0;
  const auto size = static_cast<::off_t>(bytes);
  int problem = 0;
  do {
    problem = ::fallocate(fd, 0, 0, size) == 0 ? 0 : errno;
  } while (problem == EINTR);
  if (problem != EOPNOTSUPP && problem != ENOSYS) return problem;
  return ::ftruncate(fd, size) == 0 ? 0 : errno;
}

}  // namespace

result<void> check_disk_room(const std::filesystem::path& folder, std::uint64_t bytes) {
  struct ::statvfs there = {};
  if (::statvfs(folder.c_str(), &there) != 0 || there.f_blocks == 0) return {};  // Not told.
  const auto free = checked_multiply(there.f_bavail, there.f_frsize);
  if (!free || bytes <= *free) return {};
  return fault{system_code(ENOSPC), "",
               grouped(bytes) + " bytes are to be written, and the file system has " +
                   grouped(*free) + " free"};
}

result<written_file> open_to_write(const std::filesystem::path& path, std::string place,
                                   std::uint64_t bytes, direct_files& direct) {
  written_file made;
  made.place = std::move(place);
  made.bytes = bytes;
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  made.buffered = unique_fd(::open(path.c_str(), flags, 0666));
  if (!made.buffered) return fault{system_code(errno), made.place};
  if (const int problem = allocate(made.buffered.get(), bytes)) {
    return fault{system_code(problem), made.place,
                 "allocating " + grouped(bytes) + " bytes: " + system_code(problem).message()};
  }
  auto opened = direct.open(made.buffered.get(), path.native(), bytes, direct_files::access::write);
  if (!opened) return opened.error().in(made.place);
  made.direct = std::move(opened->fd);
  made.direct_refusal = std::move(opened->refusal);
  return made;
}

result<void> sync_file(const written_file& file) {
  int problem = 0;
  do {
    problem = ::fsync(file.buffered.get()) == 0 ? 0 : errno;
  } while (problem == EINTR);
  if (problem == 0) return {};
  return fault{system_code(problem), file.place, "fsync: " + system_code(problem).message()};
}

}  // namespace ringload::inline v0
