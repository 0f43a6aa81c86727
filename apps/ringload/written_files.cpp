// SPDX-License-Identifier: Apache-2.0
#include "written_files.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <ringload/error.hpp>
#include <system_error>

#include "text.hpp"
#include "trace_file.hpp"

namespace ringload::tool {

namespace {

namespace fs = std::filesystem;

// The endings of files that a folder with a checkpoint consists of. Other files of the folder, such
// as an older checksum list or trace, may be replaced.
constexpr std::array<std::string_view, 14> checkpoint_endings = {
    ".safetensors", ".json", ".gguf", ".pt", ".pth",  ".bin",   ".npy",
    ".npz",         ".onnx", ".zt",   ".h5", ".hdf5", ".keras", ".distcp"};

// A path that does not exist, or cannot be read, is not the same file as another path.
bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code failed;
  return fs::equivalent(a, b, failed) && !failed;
}

// Returns true if the file is a trace that an earlier command wrote.
bool is_trace(const fs::path& file) {
  std::string begin(trace_begin.size(), '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return stream && begin == trace_begin;
}

bool is_in_folder(const fs::path& file, const fs::path& folder) {
  const std::string ending = file.extension().string();
  return std::ranges::find(checkpoint_endings, ending) != checkpoint_endings.end() &&
         !is_trace(file) &&
         same_file(file.has_parent_path() ? file.parent_path() : fs::path("."), folder);
}

bool is_read(const fs::path& file, const std::vector<std::string>& sources) {
  std::error_code failed;
  if (!fs::exists(file, failed)) return false;
  return std::ranges::any_of(sources, [&](const std::string& source) {
    std::error_code ignored;
    if (same_file(file, source)) return true;
    if (fs::is_directory(source, ignored)) return is_in_folder(file, source);
    const fs::path index(source);  // The shards of an index are in its folder.
    return index.extension() == ".json" &&
           is_in_folder(file, index.has_parent_path() ? index.parent_path() : fs::path("."));
  });
}

error would_replace(const written_file& file, std::string_view replaced) {
  return {{EEXIST, boost::system::system_category()},
          printable(file.path),
          std::string(file.option) + " would replace " + std::string(replaced)};
}

}  // namespace

void check_written_files(const std::vector<std::string>& sources,
                         const std::vector<written_file>& files) {
  std::vector<fs::path> paths;
  for (const written_file& file : files) {
    if (file.path.empty()) continue;
    if (is_read(file.path, sources)) throw would_replace(file, "a file of the checkpoint");
    std::error_code failed;
    fs::path path = fs::weakly_canonical(file.path, failed);
    if (failed) path = file.path;
    if (std::ranges::find(paths, path) != paths.end()) {
      throw would_replace(file, "another file that the command writes");
    }
    paths.push_back(std::move(path));
  }
}

}  // namespace ringload::tool
