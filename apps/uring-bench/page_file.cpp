// SPDX-License-Identifier: Apache-2.0
#include "page_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <utility>

#include "failure.hpp"
#include "run_program.hpp"

namespace ringload::bench {

namespace {

constexpr const char* action = "writing the page";

// Compares device and inode, because one file may have two names.
void refuse_what_is_read(const std::string& path, const struct ::stat& page, const target& source) {
  for (const target::file& one : source.files()) {
    struct ::stat read = {};
    if (::fstat(one.fd.get(), &read) != 0) fail(errno, one.path);
    if (read.st_dev == page.st_dev && read.st_ino == page.st_ino) {
      throw tool::usage_error("--html: '" + path +
                              "' is the file that is read, so it must not be overwritten");
    }
  }
}

}  // namespace

page_file::page_file(std::string path, const target& source) : path_(std::move(path)) {
  struct ::stat there = {};
  if (::stat(path_.c_str(), &there) == 0) {
    refuse_what_is_read(path_, there, source);
    if (!S_ISREG(there.st_mode)) {
      throw tool::usage_error("--html: '" + path_ + "' exists and is not a regular file");
    }
  }
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC;
  fd_ = unique_fd(::open(path_.c_str(), flags | O_EXCL, 0666));
  unfinished_ = static_cast<bool>(fd_);
  if (!fd_ && errno == EEXIST) fd_ = unique_fd(::open(path_.c_str(), flags, 0666));
  if (!fd_) fail(errno, path_, action);
}

page_file::~page_file() {
  if (unfinished_) ::unlink(path_.c_str());
}

void page_file::write(std::string_view page) {
  if (::ftruncate(fd_.get(), 0) != 0) fail(errno, path_, action);
  while (!page.empty()) {
    const ::ssize_t written = ::write(fd_.get(), page.data(), page.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(errno, path_, action);
    page.remove_prefix(static_cast<std::size_t>(written));
  }
  unfinished_ = false;
}

}  // namespace ringload::bench
