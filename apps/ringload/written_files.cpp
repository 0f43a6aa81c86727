// SPDX-License-Identifier: Apache-2.0
#include "written_files.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <ringload/delta.hpp>
#include <ringload/error.hpp>
#include <string>
#include <system_error>

#include "open_request.hpp"
#include "text.hpp"
#include "trace_file.hpp"

namespace ringload::tool {

namespace {

namespace fs = std::filesystem;

// Returns false if one of the paths does not exist or cannot be read.
bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code failed;
  return fs::equivalent(a, b, failed) && !failed;
}

// Returns true if the file is a trace that an earlier command wrote.
bool is_trace(const fs::path& file) {
  std::error_code failed;
  if (!fs::is_regular_file(file, failed)) return false;  // The open of a FIFO could block.
  std::string begin(trace_begin.size(), '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return stream && begin == trace_begin;
}

// Returns true if the file is a JSON file of the folder, such as an index of shards or a
// configuration. A catalog does not list these files.
bool is_json_of(const fs::path& file, const fs::path& folder) {
  return file.extension() == ".json" && !is_trace(file) &&
         same_file(file.has_parent_path() ? file.parent_path() : fs::path("."), folder);
}

std::vector<std::string> paths_of_versions(const std::string& folder) {
  std::vector<std::string> paths;
  for (const version_info& each : list_versions(folder)) {
    paths.push_back(each.full);
    paths.push_back(each.delta);
  }
  return paths;
}

// Returns the paths of all files of the checkpoint, such as shards and external data.
std::vector<std::string> paths_of(const source_request& from) {
  if (is_version_folder(from)) return paths_of_versions(from.sources.front());
  std::vector<std::string> paths;
  for (const file_info& each : catalog_of(from).files) paths.push_back(each.path);
  return paths;
}

bool is_read(const fs::path& file, const source_request& from) {
  const auto is_file = [&file](const std::string& path) { return same_file(file, path); };
  return std::ranges::any_of(from.sources, is_file) ||
         std::ranges::any_of(from.sources,
                             [&](const std::string& folder) { return is_json_of(file, folder); }) ||
         std::ranges::any_of(paths_of(from), is_file);
}

error would_replace(const written_file& file, std::string_view replaced) {
  return {{EEXIST, boost::system::system_category()},
          printable(file.path),
          std::string(file.option) + " would replace " + std::string(replaced)};
}

}  // namespace

void check_written_files(const source_request& from, const std::vector<written_file>& files,
                         const std::string& checksum_list) {
  std::vector<fs::path> paths;
  for (const written_file& file : files) {
    if (file.path.empty()) continue;
    std::error_code failed;
    if (fs::exists(file.path, failed)) {
      if (same_file(file.path, checksum_list)) throw would_replace(file, "the checksum list");
      if (is_read(file.path, from)) throw would_replace(file, "a file of the checkpoint");
    }
    fs::path path = fs::weakly_canonical(file.path, failed);
    if (failed) path = file.path;
    if (std::ranges::find(paths, path) != paths.end()) {
      throw would_replace(file, "another file that the command writes");
    }
    paths.push_back(std::move(path));
  }
}

}  // namespace ringload::tool
