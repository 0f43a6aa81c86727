// SPDX-License-Identifier: Apache-2.0
#include "writers/unpublished.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "core/attempt.hpp"
#include "core/retry_allocation.hpp"
#include "formats/printable.hpp"
#include "writers/leftovers.hpp"

namespace ringload::inline v0 {

namespace {

namespace fs = std::filesystem;

constexpr ::mode_t file_mode = 0666;  // Less what the process masks.

// Other threads may have a few, and a process's number may come again.
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

// The name of something else in the folder; empty if there is nothing.
std::string stranger_in(const fs::path& folder, std::error_code& problem) {
  fs::directory_iterator entries(folder, problem);
  while (!problem && entries != fs::directory_iterator()) {
    if (!is_checkpoint_file(*entries)) return entries->path().filename().native();
    entries.increment(problem);
  }
  return {};
}

// 0, or errno.
int sync_file(int fd) noexcept {
  int problem = 0;
  do {
    problem = ::fsync(fd) == 0 ? 0 : errno;
  } while (problem == EINTR);
  return problem;
}

// Some file systems cannot, and say so: then there is nothing that could be done.
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

fault unpublished_entry::refused(int error_number, std::string cause) const {
  return {system_code(error_number), printable_path(target_.native()), std::move(cause)};
}

unpublished_entry::unpublished_entry(unpublished_entry&& other) noexcept
    : target_(std::move(other.target_)),
      path_(std::move(other.path_)),
      fd_(std::move(other.fd_)),
      lock_(std::move(other.lock_)),
      kind_(other.kind_),
      may_replace_(other.may_replace_),
      has_name_(std::exchange(other.has_name_, false)) {
  other.path_.clear();
}

unpublished_entry& unpublished_entry::operator=(unpublished_entry&& other) noexcept {
  if (this == &other) return *this;
  remove();
  target_ = std::move(other.target_);
  path_ = std::move(other.path_);
  other.path_.clear();
  fd_ = std::move(other.fd_);
  lock_ = std::move(other.lock_);
  kind_ = other.kind_;
  may_replace_ = other.may_replace_;
  has_name_ = std::exchange(other.has_name_, false);
  return *this;
}

unpublished_entry::~unpublished_entry() { remove(); }

void unpublished_entry::remove() noexcept {
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

result<unpublished_entry> unpublished_entry::make(fs::path target, entry_kind kind,
                                                  bool may_replace) {
  unpublished_entry made(std::move(target), kind, may_replace);
  // "models/x/" is the folder "models/x".
  if (kind == entry_kind::folder && !made.target_.has_filename()) {
    made.target_ = made.target_.parent_path();
  }
  const fs::path name = made.target_.filename();
  if (name.empty() || name == "." || name == "..") {
    return made.refused(EINVAL, "the path names nothing new");
  }
  if (auto good = made.check_target(); !good) return good.error();
  remove_leftovers(folder_of(made.target_));
  if (kind == entry_kind::file && made.make_unnamed()) return made;
  if (auto named = made.take_temporary_name(); !named) return named.error();
  return made;
}

// False where the file system cannot, or where /proc, which gives it its name, is missing.
bool unpublished_entry::make_unnamed() {
  const int flags = O_TMPFILE | O_RDWR | O_CLOEXEC;
  unique_fd made(::open(folder_of(target_).c_str(), flags, file_mode));
  if (!made) return false;
  fs::path path = path_of(made.get());
  if (::access(path.c_str(), F_OK) != 0) return false;
  fd_ = std::move(made);
  // It has a lock before it has a name.
  lock_temporary(fd_.get());
  path_ = std::move(path);
  return true;
}

// Makes it under a free name; or gives a file that has none such a name, for only a name can take
// the place of another.
result<void> unpublished_entry::take_temporary_name() {
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

result<void> unpublished_entry::check_target() const {
  struct ::stat there = {};
  if (::lstat(target_.c_str(), &there) != 0) {
    return errno == ENOENT ? result<void>() : refused(errno);
  }
  if (!may_replace_) return refused(EEXIST, "it exists already");
  if (kind_ == entry_kind::file) {
    if (S_ISDIR(there.st_mode)) return refused(EISDIR);
    // Also by way of a link: /dev/stdout must stay what it is.
    if (::stat(target_.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
      return refused(EEXIST, "not replaced, because it is no regular file");
    }
    return {};
  }
  if (!S_ISDIR(there.st_mode)) return refused(ENOTDIR);
  std::error_code problem;
  const std::string stranger = stranger_in(target_, problem);
  if (problem) return refused(problem.value());
  if (stranger.empty()) return {};
  return refused(EEXIST, "not replaced, because it holds '" + printable(stranger) +
                             "', which is no part of a checkpoint");
}

// A file without a name gets its own: a link replaces nothing.
result<void> unpublished_entry::link_to_target() {
  const int failed =
      ::linkat(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0
                                                                                           : errno;
  if (failed == 0) return {};
  return refused(failed, failed == EEXIST ? "it appeared meanwhile" : "");
}

result<void> unpublished_entry::rename_to_target() {
  const char* const from = path_.c_str();
  const char* const to = target_.c_str();
  if (kind_ == entry_kind::file && may_replace_) {
    return ::rename(from, to) == 0 ? result<void>() : refused(errno);
  }
  // Somebody else may have made the target meanwhile.
  if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return {};
  const int problem = errno;
  if (problem == EINVAL || (problem == EEXIST && may_replace_)) {
    if (auto good = check_target(); !good) return good;
  }
  if (problem == EEXIST && may_replace_) {
    // The old folder takes the temporary name, and is removed under it.
    if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0) {
      remove();
      return {};
    }
    if (errno == EINVAL) {
      return refused(EEXIST,
                     "the file system cannot exchange two folders, so the old one would be "
                     "gone before the new one is there");
    }
    return refused(errno);
  }
  // A file system that cannot refuse to replace. An existing folder that is not empty it refuses.
  if (problem == EINVAL) return ::rename(from, to) == 0 ? result<void>() : refused(errno);
  return refused(problem, problem == EEXIST ? "it appeared meanwhile" : "");
}

result<void> unpublished_entry::publish(bool sync) {
  if (sync) {
    const int problem = fd_ ? sync_file(fd_.get()) : sync_folder(path_);
    if (problem != 0) {
      return refused(problem,
                     "it cannot be flushed to the drive: " + system_code(problem).message());
    }
  }
  if (!has_name_ && !may_replace_) {
    if (auto good = link_to_target(); !good) return good;
  } else {
    if (!has_name_) {
      if (auto named = take_temporary_name(); !named) return named;
    }
    if (auto good = rename_to_target(); !good) return good;
  }
  has_name_ = false;
  path_.clear();
  // Others may have the file open still, with the lock.
  if (fd_) unlock_temporary(fd_.get());
  fd_ = unique_fd();
  lock_ = unique_fd();
  if (!sync) return {};
  const int problem = sync_folder(folder_of(target_));
  if (problem == 0) return {};
  return refused(problem, "its folder cannot be flushed: " + system_code(problem).message());
}

// ---- The public face ----

unpublished::unpublished(fs::path target, entry_kind kind, bool may_replace) {
  auto made =
      attempt([&] { return unpublished_entry::make(std::move(target), kind, may_replace); });
  if (!made) throw to_error(made.error());
  entry_ = std::make_unique<unpublished_entry>(std::move(*made));
}

unpublished::unpublished(unpublished&& other) noexcept = default;
unpublished& unpublished::operator=(unpublished&& other) noexcept = default;
unpublished::~unpublished() = default;

const fs::path& unpublished::path() const noexcept { return entry_->path(); }

void unpublished::write(std::string_view text) {
  auto done = attempt([&] { return write_all(entry_->fd(), text); });
  if (!done) throw to_error(done.error().in(printable_path(entry_->target().native())));
}

void unpublished::publish(bool sync) {
  auto done = attempt([&] { return entry_->publish(sync); });
  if (!done) throw to_error(done.error());
}

}  // namespace ringload::inline v0
