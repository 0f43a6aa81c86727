// SPDX-License-Identifier: Apache-2.0
#include "unpublished.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <ringload/error.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "text.hpp"

namespace ringload::tool {

namespace {

namespace fs = std::filesystem;

// A process that was killed may have left a few, and its number may come again.
constexpr int names_to_try = 100;

[[noreturn]] void fail(int code, const fs::path& place, std::string cause = {}) {
  throw error({code, boost::system::system_category()}, printable(place.native()),
              std::move(cause));
}

// 0, or errno.
int create(const fs::path& path, entry_kind kind) noexcept {
  if (kind == entry_kind::folder) return ::mkdir(path.c_str(), 0777) == 0 ? 0 : errno;
  const int fd = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
  if (fd < 0) return errno;
  ::close(fd);
  return 0;
}

fs::path folder_of(const fs::path& target) {
  return target.has_parent_path() ? target.parent_path() : fs::path(".");
}

bool is_checkpoint_file(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().native();
  return entry.symlink_status().type() == fs::file_type::regular && name.starts_with("model") &&
         (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json"));
}

// So that `--force` on the wrong folder cannot delete a home directory.
void check_holds_only_a_checkpoint(const fs::path& folder) {
  std::error_code problem;
  fs::directory_iterator entries(folder, problem);
  while (!problem && entries != fs::directory_iterator()) {
    if (!is_checkpoint_file(*entries)) {
      fail(EEXIST, folder,
           "not replaced, because it holds '" + printable(entries->path().filename().native()) +
               "', which is no part of a checkpoint");
    }
    entries.increment(problem);
  }
  if (problem) fail(problem.value(), folder);
}

// Best effort: not every file system can.
void sync_folder(const fs::path& folder) noexcept {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

unpublished::unpublished(fs::path target, entry_kind kind, bool may_replace)
    : target_(std::move(target)), kind_(kind), may_replace_(may_replace) {
  // "models/x/" is the folder "models/x".
  if (kind == entry_kind::folder && !target_.has_filename()) target_ = target_.parent_path();
  const fs::path name = target_.filename();
  if (name.empty() || name == "." || name == "..") fail(EINVAL, target_, "names nothing new");
  check_target();

  for (int i = 0; i < names_to_try; ++i) {
    const std::string free_name =
        ".ringload-make-" + std::to_string(::getpid()) + "-" + std::to_string(i);
    temporary_ = folder_of(target_) / free_name;
    const int problem = create(temporary_, kind);
    if (problem == 0) return;
    if (problem != EEXIST) fail(problem, target_);
  }
  fail(EEXIST, target_, "too many files named .ringload-make-* beside it");
}

unpublished::~unpublished() {
  if (temporary_.empty()) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

void unpublished::check_target() const {
  struct ::stat there = {};
  if (::lstat(target_.c_str(), &there) != 0) {
    if (errno != ENOENT) fail(errno, target_);
    return;
  }
  if (!may_replace_) fail(EEXIST, target_, "it exists already (--force replaces it)");
  if (kind_ == entry_kind::file && S_ISDIR(there.st_mode)) fail(EISDIR, target_);
  // Also by way of a link: /dev/stdout must stay what it is.
  if (kind_ == entry_kind::file && ::stat(target_.c_str(), &there) == 0 &&
      !S_ISREG(there.st_mode)) {
    fail(EEXIST, target_, "not replaced, because it is no regular file");
  }
  if (kind_ == entry_kind::folder) {
    if (!S_ISDIR(there.st_mode)) fail(ENOTDIR, target_);
    check_holds_only_a_checkpoint(target_);
  }
}

void unpublished::rename_to_target() {
  const char* from = temporary_.c_str();
  const char* to = target_.c_str();
  if (kind_ == entry_kind::file && may_replace_) {
    if (::rename(from, to) != 0) fail(errno, target_);
    return;
  }
  // Another process may have made the target meanwhile.
  if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return;
  int problem = errno;
  if (problem == EEXIST && may_replace_) {
    check_target();
    // The old folder takes the temporary name, and what it holds was looked at just now.
    if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0) {
      std::error_code ignored;
      fs::remove_all(temporary_, ignored);
      return;
    }
    problem = errno;
    if (problem == EINVAL) {
      // A file system without exchange: for a moment there is neither.
      check_target();
      std::error_code failed;
      fs::remove_all(target_, failed);
      if (!failed && ::rename(from, to) == 0) return;
      problem = failed ? failed.value() : errno;
    }
  } else if (problem == EINVAL) {
    // A file system that cannot refuse to replace.
    check_target();
    if (::rename(from, to) == 0) return;
    problem = errno;
  }
  if (problem == EEXIST) fail(problem, target_, "it appeared meanwhile");
  fail(problem, target_);
}

void unpublished::write(std::string_view text) {
  errno = 0;
  std::ofstream to(temporary_, std::ios::binary);
  to.write(text.data(), static_cast<std::streamsize>(text.size()));
  to.close();
  if (!to) fail(errno == 0 ? EIO : errno, target_);
}

void unpublished::publish() {
  if (kind_ == entry_kind::folder) sync_folder(temporary_);
  rename_to_target();
  temporary_.clear();
  sync_folder(folder_of(target_));
}

}  // namespace ringload::tool
