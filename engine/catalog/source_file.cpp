// SPDX-License-Identifier: Apache-2.0
#include "catalog/source_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "catalog/read_object.hpp"

namespace ringload::inline v0 {

namespace {

std::string_view kind_of(mode_t mode) noexcept {
  switch (mode & S_IFMT) {
    case S_IFDIR: return "a folder";
    case S_IFIFO: return "a FIFO";
    case S_IFSOCK: return "a socket";
    case S_IFCHR: return "a character device";
    case S_IFBLK: return "a block device";
    default: return "something else";
  }
}

}  // namespace

const int open_unknown_flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

result<source_file> as_regular_file(unique_fd fd) {
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return fault{system_code(errno), "fstat"};
  if (!S_ISREG(status.st_mode)) {
    return fault{errc::not_a_regular_file, "",
                 "this is " + std::string(kind_of(status.st_mode)) + " and not a regular file"};
  }
  // io_uring lets reads of a non-blocking descriptor fail with EAGAIN instead of waiting.
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return fault{system_code(errno), "fcntl"};
  }
  return source_file{std::move(fd), static_cast<std::uint64_t>(status.st_size)};
}

result<void> read_bytes_into(int file, std::uint64_t offset, std::span<std::byte> into) {
  std::size_t arrived = 0;
  while (arrived < into.size()) {
    const ssize_t got = ::pread(file, into.data() + arrived, into.size() - arrived,
                                static_cast<off_t>(offset + arrived));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fault{system_code(errno), "byte " + grouped(offset + arrived)};
    if (got == 0) return fault{errc::truncated_file, "byte " + grouped(offset + arrived)};
    arrived += static_cast<std::size_t>(got);
  }
  return {};
}

result<void> read_bytes_into(const source_file& file, std::uint64_t offset,
                             std::span<std::byte> into) {
  if (file.object) {
    source_read request(offset, into);
    request.awaited = true;
    request.stop = file.stop;
    auto status = read_object(*file.object, request);
    return status ? status : status.error().in("byte " + grouped(offset));
  }
  return read_bytes_into(file.fd.get(), offset, into);
}

result<std::vector<std::byte>> read_bytes(const source_file& file, std::uint64_t offset,
                                          std::size_t bytes) {
  if (offset > file.bytes || bytes > file.bytes - offset) {
    return fault{errc::truncated_file, "byte " + grouped(file.bytes)};
  }
  std::vector<std::byte> out(bytes);
  if (auto status = read_bytes_into(file, offset, out); !status) return status.error();
  return out;
}

}  // namespace ringload::inline v0
