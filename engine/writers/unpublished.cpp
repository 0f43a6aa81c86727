// SPDX-License-Identifier: Apache-2.0
#include "writers/unpublished.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "core/retry_allocation.hpp"
#include "core/unique_fd.hpp"
#include "formats/printable.hpp"

namespace ringload::inline v0 {

namespace {

namespace fs = std::filesystem;

// Processes that were killed may have left a few, and a process's number may come again.
constexpr int names_to_try = 1000;

// 0, or errno.
int create(const fs::path& path, entry_kind kind) noexcept {
  if (kind == entry_kind::folder) return ::mkdir(path.c_str(), 0777) == 0 ? 0 : errno;
  const unique_fd made(::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666));
  return made ? 0 : errno;
}

fs::path folder_of(const fs::path& target) {
  return target.has_parent_path() ? target.parent_path() : fs::path(".");
}

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

// Some file systems cannot, and say so: then there is nothing that could be done.
int sync_folder(const fs::path& folder) noexcept {
  const unique_fd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return errno;
  if (::fsync(opened.get()) == 0 || errno == EINVAL || errno == EROFS) return 0;
  return errno;
}

}  // namespace

fault unpublished::refused(int error_number, std::string cause) const {
  return {system_code(error_number), printable_path(target_.native()), std::move(cause)};
}

unpublished::unpublished(unpublished&& other) noexcept
    : target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)),
      kind_(other.kind_),
      may_replace_(other.may_replace_) {
  other.temporary_.clear();
}

unpublished& unpublished::operator=(unpublished&& other) noexcept {
  if (this == &other) return *this;
  remove();
  target_ = std::move(other.target_);
  temporary_ = std::move(other.temporary_);
  other.temporary_.clear();
  kind_ = other.kind_;
  may_replace_ = other.may_replace_;
  return *this;
}

unpublished::~unpublished() { remove(); }

void unpublished::remove() noexcept {
  if (temporary_.empty()) return;
  if (kind_ == entry_kind::file) {
    ::unlink(temporary_.c_str());
  } else {
    retry_allocation([this] {
      std::error_code ignored;
      fs::remove_all(temporary_, ignored);
    });
  }
  temporary_.clear();
}

result<unpublished> unpublished::make(fs::path target, entry_kind kind, bool may_replace) {
  unpublished made(std::move(target), kind, may_replace);
  // "models/x/" is the folder "models/x".
  if (kind == entry_kind::folder && !made.target_.has_filename()) {
    made.target_ = made.target_.parent_path();
  }
  const fs::path name = made.target_.filename();
  if (name.empty() || name == "." || name == "..") {
    return made.refused(EINVAL, "the path names nothing new");
  }
  if (auto good = made.check_target(); !good) return good.error();
  for (int i = 0; i < names_to_try; ++i) {
    fs::path temporary = folder_of(made.target_) /
                         (".ringload-save-" + std::to_string(::getpid()) + "-" + std::to_string(i));
    const int problem = create(temporary, kind);
    if (problem == 0) {
      made.temporary_ = std::move(temporary);
      return made;
    }
    if (problem != EEXIST) return made.refused(problem);
  }
  return made.refused(EEXIST, "too many files named .ringload-save-* beside it");
}

result<void> unpublished::check_target() const {
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

result<void> unpublished::rename_to_target() {
  const char* const from = temporary_.c_str();
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

result<void> unpublished::publish(bool sync) {
  if (sync && kind_ == entry_kind::folder) {
    if (const int problem = sync_folder(temporary_)) return refused(problem);
  }
  if (auto good = rename_to_target(); !good) return good;
  temporary_.clear();
  if (!sync) return {};
  const int problem = sync_folder(folder_of(target_));
  return problem == 0 ? result<void>() : refused(problem);
}

}  // namespace ringload::inline v0
