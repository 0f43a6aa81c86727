// SPDX-License-Identifier: Apache-2.0
#include "power.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "client.hpp"
#include "memory.hpp"
#include "world.hpp"

namespace ringload::simulation {

namespace {

// A write or a new size that may be lost.
struct file_change {
  std::uint64_t number = 0;
  bool is_size = false;
  std::uint64_t offset = 0;  // Or the size.
  std::string bytes;
  bool sync_failed = false;
};

struct stored_file {
  std::string durable;
  std::vector<file_change> pending;
  std::optional<std::string> published;  // The content when the file got its final name.
  bool is_safe = false;                  // All of `published` is durable, and nothing else.
};

using file_id = std::size_t;  // An index of `files`. Numbers of inodes are used again.

// Names that change together. An absent file: the name is removed.
struct folder_change {
  std::uint64_t number = 0;
  std::vector<std::pair<std::string, std::optional<file_id>>> names;
  bool sync_failed = false;
};

struct simulated_folder {
  std::string path;
  ::dev_t drive = 0;
  std::vector<stored_file> files;
  std::map<::ino_t, file_id> known;
  std::map<std::string, file_id> durable;
  std::vector<folder_change> pending;
  std::map<std::string, std::vector<file_id>> published;  // In order, for each final name.
  std::map<std::string, std::size_t> must_have;           // Number of published files.
  std::uint64_t changes = 0;
};

std::unique_ptr<simulated_folder> folder;

file_id file_of(const struct ::stat& status) {
  const auto [found, is_new] = folder->known.try_emplace(status.st_ino, folder->files.size());
  if (is_new) folder->files.emplace_back();
  return found->second;
}

std::optional<file_id> file_at(const char* path) {
  struct ::stat status = {};
  if (::lstat(path, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return file_of(status);
}

stored_file* file_of(int fd) {
  struct ::stat status = {};
  if (!folder || ::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return nullptr;
  // Files in memory have the inode numbers of another file system.
  if (status.st_dev != folder->drive) return nullptr;
  return &folder->files[file_of(status)];
}

// The name in the folder of saves. Empty for other paths.
std::string name_in_folder(std::string_view path) {
  if (!folder || !path.starts_with(folder->path + "/")) return {};
  return std::string(path.substr(folder->path.size() + 1));
}

bool is_final(const std::string& name) { return name.starts_with("saved"); }

void change_content(std::string& content, const file_change& change) {
  if (change.is_size) {
    content.resize(change.offset, '\0');
    return;
  }
  content.resize(std::max<std::size_t>(content.size(), change.offset + change.bytes.size()), '\0');
  std::memcpy(content.data() + change.offset, change.bytes.data(), change.bytes.size());
}

// Applies some sectors of a write.
void apply_torn(std::string& content, const file_change& change, std::uint64_t sector,
                std::uint64_t percent) {
  if (change.is_size) {
    if (random(100) < percent) change_content(content, change);
    return;
  }
  const std::uint64_t end = change.offset + change.bytes.size();
  for (std::uint64_t begin = change.offset; begin < end;) {
    const std::uint64_t next = std::min(end, (begin / sector + 1) * sector);
    if (random(100) < percent) {
      const std::string part = change.bytes.substr(begin - change.offset, next - begin);
      change_content(content, {0, false, begin, part, false});
    }
    begin = next;
  }
}

std::string surviving_content(const stored_file& file, std::uint64_t sector,
                              std::uint64_t percent) {
  std::string content = file.durable;
  for (const file_change& change : file.pending) apply_torn(content, change, sector, percent);
  return content;
}

void publish(const std::string& name, file_id file, const char* path) {
  if (!is_final(name)) return;
  folder->files[file].published = content_of(path);
  folder->published[name].push_back(file);
}

void change_names(std::vector<std::pair<std::string, std::optional<file_id>>> names) {
  folder->pending.push_back({++folder->changes, std::move(names), false});
}

void move_names(std::map<std::string, file_id>& names, const folder_change& change) {
  for (const auto& [name, file] : change.names) {
    if (file) {
      names[name] = *file;
    } else {
      names.erase(name);
    }
  }
}

void check_name(const std::string& name, const std::map<std::string, file_id>& names) {
  const auto wanted = folder->must_have.find(name);
  if (wanted == folder->must_have.end() || wanted->second == 0) return;
  const auto found = names.find(name);
  if (found == names.end()) violation("after a power cut, the saved file " + name + " is missing");
  const std::vector<file_id>& published = folder->published[name];
  for (std::size_t i = wanted->second - 1; i < published.size(); ++i) {
    if (published[i] == found->second) return;
  }
  violation("after a power cut, the file " + name + " is older than its last completed save");
}

}  // namespace

void begin_power(const std::string& path) {
  if (!settings().power_cuts) return;
  folder = std::make_unique<simulated_folder>();
  folder->path = path;
  struct ::stat status = {};
  if (::stat(path.c_str(), &status) != 0) violation("the folder of saves is missing");
  folder->drive = status.st_dev;
}

void end_power() { folder.reset(); }

void must_survive(const std::string& path) {
  const std::string name = name_in_folder(path);
  if (!name.empty()) folder->must_have[name] = folder->published[name].size();
}

void cut_power() {
  if (!folder) return;
  const certain_memory simulation;
  const std::uint64_t sector = random(2) == 0 ? 512 : 4096;
  const std::uint64_t percent = random(3) * 50;
  std::map<std::string, file_id> names = folder->durable;
  // A file system keeps the order of its changes.
  const std::uint64_t kept = random(folder->pending.size() + 1);
  for (std::uint64_t i = 0; i < kept; ++i) move_names(names, folder->pending[i]);
  for (const auto& [name, file] : names) {
    if (!is_final(name)) continue;
    stored_file& stored = folder->files[file];
    if (stored.is_safe && stored.pending.empty()) continue;
    const std::string content = surviving_content(stored, sector, percent);
    stored.is_safe = content == stored.published && stored.pending.empty();
    if (content == stored.published) continue;
    violation("after a power cut, the file " + name + " is neither the old nor the new file");
  }
  for (const auto& each : folder->must_have) check_name(each.first, names);
}

void file_created(int fd) {
  struct ::stat status = {};
  if (!folder || ::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return;
  const certain_memory simulation;
  folder->known.erase(status.st_ino);
  file_of(status);
}

void bytes_written(int fd, const void* memory, std::uint64_t bytes, std::uint64_t offset) {
  const certain_memory simulation;
  stored_file* const file = file_of(fd);
  if (!file) return;
  file->is_safe = false;
  const auto* const begin = static_cast<const char*>(memory);
  file->pending.push_back(
      {++folder->changes, false, offset, std::string(begin, begin + bytes), false});
}

void file_resized(int fd, std::uint64_t bytes) {
  const certain_memory simulation;
  stored_file* const file = file_of(fd);
  if (!file) return;
  file->is_safe = false;
  file->pending.push_back({++folder->changes, true, bytes, {}, false});
}

void name_added(const char* path) {
  const certain_memory simulation;
  const std::string name = name_in_folder(path);
  const std::optional<file_id> file = name.empty() ? std::nullopt : file_at(path);
  if (!file) return;
  publish(name, *file, path);
  change_names({{name, file}});
  cut_power();
}

void name_moved(const char* from, const char* to) {
  const certain_memory simulation;
  const std::string name = name_in_folder(to);
  const std::optional<file_id> file = name.empty() ? std::nullopt : file_at(to);
  if (!file) return;
  publish(name, *file, to);
  change_names({{name_in_folder(from), std::nullopt}, {name, file}});
  cut_power();
}

void name_removed(const char* path) {
  const certain_memory simulation;
  const std::string name = name_in_folder(path);
  if (!name.empty()) change_names({{name, std::nullopt}});
}

std::uint64_t sync_begun() { return folder ? folder->changes : 0; }

void sync_ended(int fd, std::uint64_t begun, bool has_failed) {
  if (!folder) return;
  const certain_memory simulation;
  const auto is_covered = [begun](const auto& change) {
    return change.number <= begun && !change.sync_failed;
  };
  struct ::stat status = {};
  if (::fstat(fd, &status) != 0) return;
  if (S_ISDIR(status.st_mode)) {
    for (const folder_change& change : folder->pending) {
      if (!has_failed && change.number <= begun) move_names(folder->durable, change);
    }
    if (!has_failed) {
      std::erase_if(folder->pending, [&](const auto& c) { return c.number <= begun; });
    }
    return;
  }
  stored_file* const file = file_of(fd);
  if (!file) return;
  for (file_change& change : file->pending) {
    if (!is_covered(change)) continue;
    if (has_failed) {
      change.sync_failed = true;
    } else {
      change_content(file->durable, change);
    }
  }
  if (!has_failed) std::erase_if(file->pending, is_covered);
}

}  // namespace ringload::simulation
