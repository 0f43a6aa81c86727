// SPDX-License-Identifier: Apache-2.0

#include "io/writers/atomic_file.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/catch_as_fault.hpp"
#include "base/file_io.hpp"
#include "base/folder_names.hpp"
#include "base/printable.hpp"
#include "base/retry_allocation.hpp"
#include "io/writers/leftovers.hpp"

namespace ringload::inline v0 {

namespace {

namespace fs = std::filesystem;

constexpr ::mode_t file_mode = 0666;  // The umask of the process removes bits.

// Maximum number of temporary names to try. A name consists of the process number and a count.
// Other threads may use some of these names, and a crashed process with the same number may have
// left entries with some of these names.
constexpr int names_to_try = 1000;

fs::path folder_of(const fs::path& target) {
  return target.has_parent_path() ? target.parent_path() : fs::path(".");
}

fs::path path_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

bool is_checkpoint_file(const fs::path& folder, const std::string& name) {
  struct ::stat status = {};
  return name.starts_with("model") &&
         (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")) &&
         ::lstat((folder / name).c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

// Returns the name of an entry that is not part of a checkpoint. Returns an empty string if every
// entry may be part of a checkpoint.
result<std::string> foreign_name_in(const fs::path& folder) {
  const auto names = folder_names(folder);
  if (!names) return names.error();
  for (const std::string& name : *names) {
    if (!is_checkpoint_file(folder, name)) return name;
  }
  return std::string();
}

// Removes a folder and the files in it. Ignores failures.
void remove_folder(const fs::path& folder) {
  if (const auto names = folder_names(folder)) {
    for (const std::string& name : *names) ::unlink((folder / name).c_str());
  }
  ::rmdir(folder.c_str());
}

int sync_file(int fd) noexcept {
  return uninterrupted([fd] { return ::fsync(fd); }) == 0 ? 0 : errno;
}

// Some file systems cannot flush a folder and return an error. This error is ignored.
int sync_folder(const fs::path& folder) noexcept {
  const unique_fd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return errno;
  const int problem = sync_file(opened.get());
  return problem == EINVAL || problem == ENOTSUP || problem == EROFS ? 0 : problem;
}

result<void> write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ::ssize_t n = uninterrupted([&] { return ::write(fd, text.data(), text.size()); });
    if (n <= 0) return fault{system_code(n < 0 ? errno : EIO), {}};
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

}  // namespace

fault atomic_entry::refused(int error_number, std::string cause) const {
  return {system_code(error_number), printable_path(target_.native()), std::move(cause)};
}

atomic_entry::atomic_entry(atomic_entry&& source) noexcept
    : target_(std::move(source.target_)),
      path_(std::move(source.path_)),
      fd_(std::move(source.fd_)),
      lock_(std::move(source.lock_)),
      kind_(source.kind_),
      may_replace_(source.may_replace_),
      has_name_(std::exchange(source.has_name_, false)) {
  source.path_.clear();
}

atomic_entry& atomic_entry::operator=(atomic_entry&& source) noexcept {
  if (this == &source) return *this;
  remove();
  target_ = std::move(source.target_);
  path_ = std::move(source.path_);
  source.path_.clear();
  fd_ = std::move(source.fd_);
  lock_ = std::move(source.lock_);
  kind_ = source.kind_;
  may_replace_ = source.may_replace_;
  has_name_ = std::exchange(source.has_name_, false);
  return *this;
}

atomic_entry::~atomic_entry() { remove(); }

void atomic_entry::remove() noexcept {
  if (!std::exchange(has_name_, false)) return;
  if (kind_ == entry_kind::file) {
    ::unlink(path_.c_str());
    return;
  }
  retry_allocation([this] { remove_folder(path_); });
}

result<atomic_entry> atomic_entry::make(fs::path target, entry_kind kind, bool may_replace) {
  if (target.native().find('\0') != fs::path::string_type::npos) {
    return fault{errc::invalid_source_name, printable_path(target.native()),
                 "the name holds a NUL"};
  }
  atomic_entry entry(std::move(target), kind, may_replace);
  // "models/x/" has the same meaning as "models/x".
  if (kind == entry_kind::folder && !entry.target_.has_filename()) {
    entry.target_ = entry.target_.parent_path();
  }
  const fs::path name = entry.target_.filename();
  if (name.empty() || name == "." || name == "..") {
    return entry.refused(EINVAL, "the path does not end with a file name");
  }
  if (auto status = entry.check_target(); !status) return status.error();
  remove_leftovers(folder_of(entry.target_));
  if (kind == entry_kind::file && entry.make_unnamed()) return entry;
  if (auto named = entry.take_temporary_name(); !named) return named.error();
  return entry;
}

// Creates a file without a name, whose path is in /proc. Returns false if this is not possible, for
// example because the file system does not support such files, or because /proc is not mounted.
bool atomic_entry::make_unnamed() {
  const int flags = O_TMPFILE | O_RDWR | O_CLOEXEC;
  unique_fd fd(::open(folder_of(target_).c_str(), flags, file_mode));
  if (!fd) return false;
  fs::path path = path_of(fd.get());
  if (::access(path.c_str(), F_OK) != 0) return false;
  fd_ = std::move(fd);
  // The file is locked before it has a name, so that no other process removes the file.
  lock_temporary(fd_.get());
  path_ = std::move(path);
  return true;
}

// Gives the entry a free temporary name, and creates the entry if the entry does not exist. A file
// without a name needs a temporary name before the file can replace another file.
result<void> atomic_entry::take_temporary_name() {
  for (int i = 0; i < names_to_try; ++i) {
    fs::path name = folder_of(target_) / temporary_name(i);
    bool taken = false;
    if (kind_ == entry_kind::folder) {
      taken = ::mkdir(name.c_str(), 0777) == 0;
      if (taken) lock_ = unique_fd(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    } else if (fd_) {
      taken = ::linkat(AT_FDCWD, path_.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
    } else {
      fd_ = unique_fd(::open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, file_mode));
      taken = static_cast<bool>(fd_);
    }
    if (taken) {
      lock_temporary(lock_ ? lock_.get() : fd_.get());
      path_ = std::move(name);
      has_name_ = true;
      return {};
    }
    if (errno == ENOENT) {
      return refused(ENOENT, "the folder '" + printable_path(folder_of(target_).native()) +
                                 "' does not exist");
    }
    if (errno != EEXIST) return refused(errno);
  }
  return refused(EEXIST, "the folder has too many files named .ringload-*");
}

result<void> atomic_entry::check_target() const {
  struct ::stat status = {};
  if (::lstat(target_.c_str(), &status) != 0) {
    return errno == ENOENT ? result<void>() : refused(errno);
  }
  if (!may_replace_) return refused(EEXIST, "it exists already");
  if (kind_ == entry_kind::file) {
    if (S_ISDIR(status.st_mode)) return refused(EISDIR);
    // stat() follows symlinks. A file must not replace a symlink to a device such as /dev/stdout.
    if (::stat(target_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
      return refused(EEXIST, "not replaced, because it is not a regular file");
    }
    return {};
  }
  if (!S_ISDIR(status.st_mode)) return refused(ENOTDIR);
  const auto foreign_name = foreign_name_in(target_);
  if (!foreign_name) return refused(foreign_name.error().code.value());
  if (foreign_name->empty()) return {};
  return refused(EEXIST, "not replaced, because it contains '" + printable(*foreign_name) +
                             "', which is not part of a checkpoint");
}

// Gives a file without a name its final name. linkat() never replaces a file.
result<void> atomic_entry::link_to_target() {
  const int failed =
      ::linkat(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0
                                                                                           : errno;
  if (failed == 0) return {};
  return refused(failed, failed == EEXIST ? "another process created it meanwhile" : "");
}

result<void> atomic_entry::rename_to_target() {
  const char* const from = path_.c_str();
  const char* const to = target_.c_str();
  if (kind_ == entry_kind::file && may_replace_) {
    return ::rename(from, to) == 0 ? result<void>() : refused(errno);
  }
  // Another process may have created the target in the meantime.
  if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return {};
  const int problem = errno;
  if (problem == EINVAL || (problem == EEXIST && may_replace_)) {
    if (auto status = check_target(); !status) return status;
  }
  if (problem == EEXIST && may_replace_) {
    // After the exchange, the old folder has the temporary name and is removed.
    if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0) {
      remove();
      return {};
    }
    if (errno == EINVAL) {
      return refused(EEXIST,
                     "the file system cannot exchange two folders, so the old folder would be "
                     "missing until the new folder is in place");
    }
    return refused(errno);
  }
  // This file system does not support RENAME_NOREPLACE, but rename() does not replace a folder that
  // is not empty. A file that was created after check_target() is replaced.
  if (problem == EINVAL) return ::rename(from, to) == 0 ? result<void>() : refused(errno);
  return refused(problem, problem == EEXIST ? "another process created it meanwhile" : "");
}

result<void> atomic_entry::publish(bool sync) {
  if (sync) {
    const int problem = fd_ ? sync_file(fd_.get()) : sync_folder(path_);
    if (problem != 0) {
      return refused(problem,
                     "it cannot be flushed to the drive: " + system_code(problem).message());
    }
  }
  if (!has_name_ && !may_replace_) {
    if (auto status = link_to_target(); !status) return status;
  } else {
    if (!has_name_) {
      if (auto named = take_temporary_name(); !named) return named;
    }
    if (auto status = rename_to_target(); !status) return status;
  }
  has_name_ = false;
  path_.clear();
  // The file must be unlocked before its descriptor is closed, because the caller may still have a
  // duplicate of the descriptor, which would keep the lock.
  if (fd_) unlock_temporary(fd_.get());
  fd_ = unique_fd();
  lock_ = unique_fd();
  if (!sync) return {};
  const int problem = sync_folder(folder_of(target_));
  if (problem == 0) return {};
  return refused(problem, "its folder cannot be flushed: " + system_code(problem).message());
}

// ---- Public class ----

atomic_file::atomic_file(std::string_view target, entry_kind kind, bool may_replace) {
  auto entry =
      catch_as_fault([&] { return atomic_entry::make(fs::path(target), kind, may_replace); });
  if (!entry) throw to_error(entry.error());
  entry_ = std::make_unique<atomic_entry>(std::move(*entry));
}

atomic_file::atomic_file(atomic_file&& source) noexcept = default;
atomic_file& atomic_file::operator=(atomic_file&& source) noexcept = default;
atomic_file::~atomic_file() = default;

const std::string& atomic_file::path() const noexcept { return entry_->path().native(); }

void atomic_file::write(std::string_view text) {
  auto status = catch_as_fault([&] { return write_all(entry_->fd(), text); });
  if (!status) throw to_error(status.error().in(printable_path(entry_->target().native())));
}

void atomic_file::publish(bool sync) {
  auto status = catch_as_fault([&] { return entry_->publish(sync); });
  if (!status) throw to_error(status.error());
}

}  // namespace ringload::inline v0
