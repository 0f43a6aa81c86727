// SPDX-License-Identifier: Apache-2.0

#include "catalog/openat_beneath.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <filesystem>

namespace ringload::inline v0 {

namespace {

// Maximum number of openat2 calls for one path. If another process renames a file at the same time,
// openat2 fails with EAGAIN. The call is then repeated.
constexpr int attempts_max = 16;

fault outside(std::string cause) { return {errc::path_outside_source, "", std::move(cause)}; }

fault open_fault(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR: return {errc::source_not_found, "", "there is no such file"};
    case EXDEV: return outside("the path leads outside the model's folder");
    case ELOOP: return outside("the symlinks of the path form a loop, or lead through /proc");
    case ENXIO:
      return {errc::not_a_regular_file, "", "this is a socket, or a device that does not exist"};
    default: return {system_code(error_number), ""};
  }
}

bool leaves_lexically(const std::string& path) {
  const std::filesystem::path parsed(path);
  if (parsed.is_absolute()) return true;
  int depth = 0;
  for (const auto& part : parsed) {
    if (part == "..")
      --depth;
    else if (part != "." && !part.empty())
      ++depth;
    if (depth < 0) return true;
  }
  return false;
}

// Returns the path of a descriptor, as the kernel reports it.
result<std::string> location_of(int fd) {
  std::string target(PATH_MAX, '\0');
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t bytes = ::readlink(link.c_str(), target.data(), target.size());
  if (bytes < 0) return fault{system_code(errno), "/proc/self/fd"};
  target.resize(static_cast<std::size_t>(bytes));
  return target;
}

bool is_beneath(const std::string& location, const std::string& root) {
  if (location == root || root == "/") return true;
  return location.starts_with(root) && location[root.size()] == '/';
}

}  // namespace

result<unique_fd> openat_beneath(int root, const std::string& path, int flags) {
  open_how request = {};
  request.flags = static_cast<std::uint64_t>(flags);
  request.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    const long fd = ::syscall(SYS_openat2, root, path.c_str(), &request, sizeof request);
    if (fd >= 0) return unique_fd(static_cast<int>(fd));
    if (errno == ENOSYS || errno == EPERM) return openat_beneath_by_location(root, path, flags);
    if (errno != EAGAIN && errno != EINTR) break;
  }
  return open_fault(errno);
}

result<unique_fd> openat_beneath_by_location(int root, const std::string& path, int flags) {
  if (leaves_lexically(path)) return outside("the path leads outside the model's folder");
  // With O_PATH, the kernel finds a device or a FIFO but does not open it.
  const unique_fd checked_fd(::openat(root, path.c_str(), O_PATH | O_CLOEXEC));
  if (!checked_fd) return open_fault(errno);
  auto location = location_of(checked_fd.get());
  if (!location) return location.error();
  auto root_location = location_of(root);
  if (!root_location) return root_location.error();
  if (!is_beneath(*location, *root_location)) {
    return outside("the path leads outside the model's folder");
  }
  // Opening through the descriptor guarantees that the checked file is the opened file.
  const std::string descriptor_path = "/proc/self/fd/" + std::to_string(checked_fd.get());
  unique_fd fd(::open(descriptor_path.c_str(), flags));
  if (!fd) return open_fault(errno);
  return fd;
}

bool is_symlink_at(int root, const std::string& path) noexcept {
  struct stat status = {};
  return ::fstatat(root, path.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISLNK(status.st_mode);
}

}  // namespace ringload::inline v0
