// SPDX-License-Identifier: Apache-2.0
#include "archive/new_file.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "formats/printable.hpp"

namespace ringload::inline v0 {

namespace {

constexpr ::mode_t new_file_mode = 0666;  // Less what the process masks.
// A process that was killed may have left a few, and its number may come again.
constexpr int names_to_try = 100;

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string temporary_name(const std::string& target, int number) {
  return folder_of(target) + "/.ringload-" + std::to_string(::getpid()) + "-" +
         std::to_string(number);
}

fault at(const std::string& target, int code, std::string cause = {}) {
  return {system_code(code), printable_path(target), std::move(cause)};
}

// For who has no name for the file, as linkat() wants it.
std::string by_descriptor(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

// File systems that have no directories, or cannot flush them, say EINVAL.
result<void> sync_folder(const std::string& target) {
  const unique_fd folder(::open(folder_of(target).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return at(target, errno, "its folder cannot be opened");
  if (::fsync(folder.get()) == 0 || errno == EINVAL || errno == ENOTSUP) return {};
  return at(target, errno, "its folder cannot be flushed to the drive");
}

}  // namespace

new_file::new_file(unique_fd fd, std::string target, std::string temporary) noexcept
    : fd_(std::move(fd)), target_(std::move(target)), temporary_(std::move(temporary)) {}

new_file::new_file(new_file&& other) noexcept
    : fd_(std::move(other.fd_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      in_memory_(other.in_memory_) {}

new_file::~new_file() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

result<new_file> new_file::in_memory() {
  unique_fd fd(::memfd_create("ringload", MFD_CLOEXEC));
  if (!fd) return at("memory", errno);
  new_file made(std::move(fd), "memory", {});
  made.in_memory_ = true;
  return made;
}

result<new_file> new_file::make(std::string target) {
  if (target.empty() || target.back() == '/') return at(target, EISDIR, "names no file");
  const std::string folder = folder_of(target);
  unique_fd unnamed(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, new_file_mode));
  // Without /proc it could not be given a name.
  if (unnamed && ::access(by_descriptor(unnamed.get()).c_str(), F_OK) == 0) {
    return new_file(std::move(unnamed), std::move(target), {});
  }
  if (errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == EROFS) {
    return at(target, errno);
  }
  for (int i = 0; i < names_to_try; ++i) {
    std::string name = temporary_name(target, i);
    unique_fd fd(::open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, new_file_mode));
    if (fd) return new_file(std::move(fd), std::move(target), std::move(name));
    if (errno != EEXIST) return at(target, errno);
  }
  return at(target, EEXIST, "too many files named .ringload-* beside it");
}

result<void> new_file::failed(const char* what) const { return at(target_, errno, what); }

// Only a name can take the place of another name.
result<void> new_file::give_temporary_name() {
  const std::string from = by_descriptor(fd_.get());
  for (int i = 0; i < names_to_try; ++i) {
    std::string name = temporary_name(target_, i);
    if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary_ = std::move(name);
      return {};
    }
    if (errno != EEXIST) return failed("it cannot be given a name");
  }
  return at(target_, EEXIST, "too many files named .ringload-* beside it");
}

result<void> new_file::rename_to_target(bool replace) {
  const char* const from = temporary_.c_str();
  const char* const to = target_.c_str();
  if (replace) return ::rename(from, to) == 0 ? result<void>() : failed("");
  if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return {};
  if (errno != EINVAL) return failed("");
  // A file system that cannot refuse to replace: a link can.
  if (::link(from, to) != 0) return failed("");
  ::unlink(from);
  return {};
}

result<void> new_file::publish(bool replace, bool sync) {
  if (sync && ::fsync(fd_.get()) != 0) return failed("it cannot be flushed to the drive");
  if (temporary_.empty() && !replace) {
    const std::string from = by_descriptor(fd_.get());
    if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, target_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      return failed("");
    }
  } else {
    if (temporary_.empty()) {
      if (auto named = give_temporary_name(); !named) return named.error();
    }
    struct ::stat there = {};
    if (replace && ::lstat(target_.c_str(), &there) == 0 && S_ISDIR(there.st_mode)) {
      return at(target_, EISDIR);
    }
    if (auto renamed = rename_to_target(replace); !renamed) return renamed.error();
    temporary_.clear();
  }
  if (!sync) return {};
  return sync_folder(target_);
}

}  // namespace ringload::inline v0
