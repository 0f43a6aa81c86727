// SPDX-License-Identifier: Apache-2.0
#include "io/writers/leftovers.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/unique_fd.hpp"

namespace ringload::inline v0 {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = ".ringload-";

std::optional<int> whole_number(std::string_view text) noexcept {
  int value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_valid =
      read.ec == std::errc() && read.ptr == text.data() + text.size() && value >= 0;
  return is_valid ? std::optional(value) : std::nullopt;
}

// Returns the process number in a temporary name; returns nothing for other names.
std::optional<int> process_of(std::string_view name) noexcept {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  const std::size_t dash = name.find('-');
  if (dash == name.npos || !whole_number(name.substr(dash + 1))) return std::nullopt;
  return whole_number(name.substr(0, dash));
}

bool has_ended(int process) noexcept { return ::kill(process, 0) != 0 && errno == ESRCH; }

// Returns true if the folder contains only files that a save creates.
bool holds_only_a_checkpoint(const fs::path& folder) {
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    const std::string name = entry->path().filename().native();
    const bool ours = process_of(name).has_value() || name.starts_with("model");
    if (!ours || entry->symlink_status(failed).type() != fs::file_type::regular) return false;
  }
  return !failed;
}

void remove_if_left(const fs::path& path) {
  const unique_fd opened(
      ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct ::stat status = {};
  if (!opened || ::fstat(opened.get(), &status) != 0 || status.st_uid != ::geteuid()) return;
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return;
  if (::flock(opened.get(), LOCK_EX | LOCK_NB) != 0) return;
  if (S_ISREG(status.st_mode)) {
    ::unlink(path.c_str());
    return;
  }
  if (!holds_only_a_checkpoint(path)) return;
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace

std::string temporary_name(int number) {
  return std::string(prefix) + std::to_string(::getpid()) + "-" + std::to_string(number);
}

void lock_temporary(int fd) noexcept { (void)::flock(fd, LOCK_EX | LOCK_NB); }
void unlock_temporary(int fd) noexcept { (void)::flock(fd, LOCK_UN); }

void remove_leftovers(const fs::path& folder) {
  std::error_code failed;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(folder, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    const auto process = process_of(entry->path().filename().native());
    if (process && has_ended(*process)) found.push_back(entry->path());
  }
  for (const fs::path& path : found) remove_if_left(path);
}

}  // namespace ringload::inline v0
