// SPDX-License-Identifier: Apache-2.0

#include "catalog/model_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include "base/printable.hpp"
#include "catalog/openat_beneath.hpp"

namespace ringload::inline v0 {

namespace {

namespace fs = std::filesystem;

struct split_path {
  std::string root;
  std::string inside;
};

// Splits a path into a root folder, which symlinks must not leave, and the path inside the root.
// For a folder of the hub's cache, such as /x/models--owner--name/snapshots/<commit>/unet, the root
// is /x/models--owner--name.
split_path split_at_root(const fs::path& real) {
  const std::vector<fs::path> parts(real.begin(), real.end());
  for (std::size_t i = parts.size(); i-- > 2;) {
    if (!is_commit(parts[i].native()) || parts[i - 1] != "snapshots") continue;
    if (!parts[i - 2].native().starts_with("models--")) continue;
    fs::path root;
    fs::path inside;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      (part <= i - 2 ? root : inside) /= parts[part];
    }
    return {root.native(), inside.native() + "/"};
  }
  return {real.native(), ""};
}

// Returns true if an entry of the folder `parent` is a folder. Returns false for a symlink.
bool is_folder_at(int parent, const dirent& entry) noexcept {
  if (entry.d_type != DT_UNKNOWN) return entry.d_type == DT_DIR;
  struct ::stat status = {};
  return ::fstatat(parent, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISDIR(status.st_mode);
}

}  // namespace

bool is_commit(std::string_view text) noexcept {
  constexpr std::size_t commit_digits = 40;
  return text.size() == commit_digits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

result<model_folder> model_folder::open(const std::string& path) {
  std::error_code code;
  const fs::path real = fs::canonical(path, code);
  if (code) return fault{system_code(code.value()), ""};
  split_path paths = split_at_root(real);
  return open_rooted(paths.root, std::move(paths.inside), path);
}

result<model_folder> model_folder::open_rooted(const std::string& root, std::string inside,
                                               std::string shown) {
  unique_fd fd(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fault{system_code(errno), ""};
  return model_folder(std::move(fd), std::move(inside), std::move(shown));
}

result<source_file> model_folder::open_file(const std::string& name) const {
  const std::string path = inside_ + name;
  auto fd = openat_beneath(root_.get(), path, open_unknown_flags);
  if (fd) return as_regular_file(std::move(*fd));
  fault problem = fd.error();
  if (problem.code == errc::source_not_found && is_symlink_at(root_.get(), path)) {
    problem = {problem.code, problem.where(),
               "the target of the symlink does not exist; the download may be incomplete"};
  }
  return problem;
}

result<std::string> model_folder::read_text(const std::string& name, std::size_t bytes_max) const {
  auto file = open_file(name);
  if (!file) return file.error();
  auto bytes = read_bytes(*file, 0, std::min<std::size_t>(file->bytes, bytes_max));
  if (!bytes) return bytes.error();
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

// `folder` is empty or ends with '/'.
result<void> model_folder::list(const std::string& folder, entries& into) const {
  const std::string path = inside_ + folder;
  auto fd =
      openat_beneath(root_.get(), path.empty() ? "." : path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (!fd) return fd.error();
  // Passes a duplicate to fdopendir(), because closedir() closes the descriptor.
  const int folder_fd = ::fcntl(fd->get(), F_DUPFD_CLOEXEC, 0);
  if (folder_fd < 0) return fault{system_code(errno), ""};
  const auto close = [](DIR* stream) { ::closedir(stream); };
  const std::unique_ptr<DIR, decltype(close)> listing(::fdopendir(folder_fd), close);
  if (!listing) {
    const int error_number = errno;
    ::close(folder_fd);
    return fault{system_code(error_number), ""};
  }
  errno = 0;
  while (const dirent* item = ::readdir(listing.get())) {
    const std::string_view name(item->d_name);
    if (name == "." || name == "..") continue;
    if (into.files.size() + into.folders.size() == folder_names_max) {
      return fault{errc::not_a_checkpoint, "",
                   "the folder has more than " + grouped(folder_names_max) + " files"};
    }
    const bool is_folder = is_folder_at(fd->get(), *item);
    (is_folder ? into.folders : into.files).push_back(folder + item->d_name);
    errno = 0;
  }
  if (errno != 0) return fault{system_code(errno), ""};
  return {};
}

result<std::vector<std::string>> model_folder::names() const {
  entries listed;
  if (auto folder_fd = list("", listed); !folder_fd) return folder_fd.error();
  std::ranges::move(listed.folders, std::back_inserter(listed.files));
  std::ranges::sort(listed.files);
  return std::move(listed.files);
}

result<std::vector<std::string>> model_folder::names_beneath() const {
  entries listed;
  auto folder_fd = list("", listed);
  for (std::size_t i = 0; folder_fd && i < listed.folders.size(); ++i) {
    const std::string folder = listed.folders[i] + "/";
    if (fs::path(listed.folders[i]).filename().native().starts_with('.')) continue;
    folder_fd = list(folder, listed);
    if (!folder_fd) return folder_fd.error().in(printable_path(path_of(folder)));
  }
  if (!folder_fd) return folder_fd.error();
  std::ranges::sort(listed.files);
  return std::move(listed.files);
}

std::string model_folder::path_of(const std::string& name) const {
  return (fs::path(shown_) / name).native();
}

}  // namespace ringload::inline v0
