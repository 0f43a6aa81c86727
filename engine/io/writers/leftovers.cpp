// SPDX-License-Identifier: Apache-2.0

#include "io/writers/leftovers.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/folder_names.hpp"
#include "base/parse_number.hpp"
#include "base/unique_fd.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::string_view prefix = ".ringload-";

// Returns the number of the process in a temporary name. Returns an empty optional for any other
// name.
std::optional<int> process_of(std::string_view name) noexcept {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  const std::size_t dash = name.find('-');
  if (dash == name.npos || !parse_number<unsigned>(name.substr(dash + 1))) return std::nullopt;
  return parse_number<int>(name.substr(0, dash));
}

bool has_ended(int process) noexcept { return ::kill(process, 0) != 0 && errno == ESRCH; }

// Returns true for a file that a save creates.
bool is_of_a_save(int folder_fd, const std::string& name) {
  if (!process_of(name) && !name.starts_with("model")) return false;
  struct ::stat status = {};
  return ::fstatat(folder_fd, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISREG(status.st_mode);
}

// Removes a folder and its files, unless the folder contains a file that no save creates.
void remove_folder(int parent_fd, const std::string& folder_name, int folder_fd) {
  const auto names = folder_names(folder_fd);
  if (!names) return;
  for (const std::string& name : *names) {
    if (!is_of_a_save(folder_fd, name)) return;
  }
  for (const std::string& name : *names) ::unlinkat(folder_fd, name.c_str(), 0);
  ::unlinkat(parent_fd, folder_name.c_str(), AT_REMOVEDIR);
}

void remove_if_left(int parent_fd, const std::string& name) {
  const unique_fd opened(
      ::openat(parent_fd, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct ::stat status = {};
  if (!opened || ::fstat(opened.get(), &status) != 0 || status.st_uid != ::geteuid()) return;
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return;
  if (::flock(opened.get(), LOCK_EX | LOCK_NB) != 0) return;
  // Before the process of the entry released the lock, the process may have published the entry
  // under another name.
  struct ::stat named = {};
  if (::fstatat(parent_fd, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0 ||
      named.st_dev != status.st_dev || named.st_ino != status.st_ino) {
    return;
  }
  if (S_ISREG(status.st_mode)) {
    ::unlinkat(parent_fd, name.c_str(), 0);
  } else {
    remove_folder(parent_fd, name, opened.get());
  }
}

}  // namespace

std::string temporary_name(int number) {
  return std::string(prefix) + std::to_string(::getpid()) + "-" + std::to_string(number);
}

void lock_temporary(int fd) noexcept { (void)::flock(fd, LOCK_EX | LOCK_NB); }
void unlock_temporary(int fd) noexcept { (void)::flock(fd, LOCK_UN); }

void remove_leftovers(const std::filesystem::path& folder) {
  const unique_fd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return;
  const auto names = folder_names(opened.get());
  if (!names) return;
  for (const std::string& name : *names) {
    const auto process = process_of(name);
    if (process && has_ended(*process)) remove_if_left(opened.get(), name);
  }
}

}  // namespace ringload::inline v0
