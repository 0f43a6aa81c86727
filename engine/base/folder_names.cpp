// SPDX-License-Identifier: Apache-2.0
#include "base/folder_names.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string_view>

#include "base/unique_fd.hpp"

namespace ringload::inline v0 {

namespace {

struct close_folder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

}  // namespace

result<std::vector<std::string>> folder_names(int folder_fd) {
  const int fd = ::openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return fault{system_code(errno), {}};
  const std::unique_ptr<DIR, close_folder> folder(::fdopendir(fd));
  if (!folder) {
    const int problem = errno;
    ::close(fd);
    return fault{system_code(problem), {}};
  }
  std::vector<std::string> names;
  errno = 0;
  while (const ::dirent* const entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  if (errno != 0) return fault{system_code(errno), {}};
  return names;
}

result<std::vector<std::string>> folder_names(const std::filesystem::path& folder) {
  const unique_fd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return fault{system_code(errno), {}};
  return folder_names(opened.get());
}

}  // namespace ringload::inline v0
