// SPDX-License-Identifier: Apache-2.0
#include "io/writers/atomic_file.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/catch_as_fault.hpp"
#include "base/printable.hpp"
#include "base/retry_allocation.hpp"
#include "io/writers/leftovers.hpp"

namespace ringload::inline v0 {

namespace {

namespace fs = std::filesystem;

constexpr ::mode_t file_mode = 0666;  // Reduced by the umask of the process.

// Other threads may hold a few names, and process numbers are reused.
constexpr int names_to_try = 1000;

fs::path folder_of(const fs::path& target) {
  return target.has_parent_path() ? target.parent_path() : fs::path(".");
}

fs::path path_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

bool is_checkpoint_file(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().native();
  return entry.symlink_status().type() == fs::file_type::regular && name.starts_with("model") &&
         (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json"));
}

// Returns the name of an entry that is not part of a checkpoint, or an empty string.
std::string foreign_name_in(const fs::path& folder, std::error_code& problem) {
  fs::directory_iterator entries(folder, problem);
  while (!problem && entries != fs::directory_iterator()) {
    if (!is_checkpoint_file(*entries)) return entries->path().filename().native();
    entries.increment(problem);
  }
  return {};
}

// Returns 0 or errno.
int sync_file(int fd) noexcept {
  int problem = 0;
  do {
    problem = ::fsync(fd) == 0 ? 0 : errno;
  } while (problem == EINTR);
  return problem;
}

// Some file systems cannot flush a folder and say so. That is not an error.
int sync_folder(const fs::path& folder) noexcept {
  const unique_fd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return errno;
  const int problem = sync_file(opened.get());
  return problem == EINVAL || problem == ENOTSUP || problem == EROFS ? 0 : problem;
}

result<void> write_all(int fd, std::string_view text) {
  for (std::size_t done = 0; done < text.size();) {
    const ::ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fault{system_code(n < 0 ? errno : EIO), {}};
    done += static_cast<std::size_t>(n);
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
  retry_allocation([this] {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  });
}

result<atomic_entry> atomic_entry::make(fs::path target, entry_kind kind, bool may_replace) {
  atomic_entry entry(std::move(target), kind, may_replace);
  // "models/x/" names the folder "models/x".
  if (kind == entry_kind::folder && !entry.target_.has_filename()) {
    entry.target_ = entry.target_.parent_path();
  }
  const fs::path name = entry.target_.filename();
  if (name.empty() || name == "." || name == "..") {
    return entry.refused(EINVAL, "the path has no new file name");
  }
  if (auto status = entry.check_target(); !status) return status.error();
  remove_leftovers(folder_of(entry.target_));
  if (kind == entry_kind::file && entry.make_unnamed()) return entry;
  if (auto named = entry.take_temporary_name(); !named) return named.error();
  return entry;
}

// Returns false if the file system cannot do this, or if /proc is missing, which names the file.
bool atomic_entry::make_unnamed() {
  const int flags = O_TMPFILE | O_RDWR | O_CLOEXEC;
  unique_fd fd(::open(folder_of(target_).c_str(), flags, file_mode));
  if (!fd) return false;
  fs::path path = path_of(fd.get());
  if (::access(path.c_str(), F_OK) != 0) return false;
  fd_ = std::move(fd);
  // The file has a lock before it has a name.
  lock_temporary(fd_.get());
  path_ = std::move(path);
  return true;
}

// Creates the entry under a free temporary name. A file that exists without a name receives such a
// name, because only a named file can replace another one.
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
  return refused(EEXIST, "too many files named .ringload-* beside it");
}

result<void> atomic_entry::check_target() const {
  struct ::stat status = {};
  if (::lstat(target_.c_str(), &status) != 0) {
    return errno == ENOENT ? result<void>() : refused(errno);
  }
  if (!may_replace_) return refused(EEXIST, "it exists already");
  if (kind_ == entry_kind::file) {
    if (S_ISDIR(status.st_mode)) return refused(EISDIR);
    // Also checks the target of a link: /dev/stdout must not be replaced.
    if (::stat(target_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
      return refused(EEXIST, "not replaced, because it is not a regular file");
    }
    return {};
  }
  if (!S_ISDIR(status.st_mode)) return refused(ENOTDIR);
  std::error_code problem;
  const std::string foreign_name = foreign_name_in(target_, problem);
  if (problem) return refused(problem.value());
  if (foreign_name.empty()) return {};
  return refused(EEXIST, "not replaced, because it contains '" + printable(foreign_name) +
                             "', which is not part of a checkpoint");
}

// Gives a file without a name its final name. A link never replaces a file.
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
  // Another process may have created the target meanwhile.
  if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return {};
  const int problem = errno;
  if (problem == EINVAL || (problem == EEXIST && may_replace_)) {
    if (auto status = check_target(); !status) return status;
  }
  if (problem == EEXIST && may_replace_) {
    // The old folder takes the temporary name and is removed under it.
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
  // This file system cannot refuse to replace. It refuses to replace a folder that is not empty.
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
  // Other descriptors of the file may still be open, and share the lock.
  if (fd_) unlock_temporary(fd_.get());
  fd_ = unique_fd();
  lock_ = unique_fd();
  if (!sync) return {};
  const int problem = sync_folder(folder_of(target_));
  if (problem == 0) return {};
  return refused(problem, "its folder cannot be flushed: " + system_code(problem).message());
}

// ---- Public class ----

atomic_file::atomic_file(fs::path target, entry_kind kind, bool may_replace) {
  auto entry =
      catch_as_fault([&] { return atomic_entry::make(std::move(target), kind, may_replace); });
  if (!entry) throw to_error(entry.error());
  entry_ = std::make_unique<atomic_entry>(std::move(*entry));
}

atomic_file::atomic_file(atomic_file&& source) noexcept = default;
atomic_file& atomic_file::operator=(atomic_file&& source) noexcept = default;
atomic_file::~atomic_file() = default;

const fs::path& atomic_file::path() const noexcept { return entry_->path(); }

void atomic_file::write(std::string_view text) {
  auto done = catch_as_fault([&] { return write_all(entry_->fd(), text); });
  if (!done) throw to_error(done.error().in(printable_path(entry_->target().native())));
}

void atomic_file::publish(bool sync) {
  auto done = catch_as_fault([&] { return entry_->publish(sync); });
  if (!done) throw to_error(done.error());
}

}  // namespace ringload::inline v0
