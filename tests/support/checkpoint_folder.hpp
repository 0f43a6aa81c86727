// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checkpoints on disk with tensors of one byte, for tests that check which file a name selects.

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "support/safetensors_text.hpp"

namespace ringload::testing {

// A file of U8 tensors of one byte each.
inline std::string tiny_tensors_text(std::initializer_list<std::string_view> names) {
  std::string header = "{";
  std::size_t at = 0;
  for (const std::string_view name : names) {
    header += (at == 0 ? "" : ",") + tensor_text(name, "U8", "1", at, at + 1);
    ++at;
  }
  return safetensors_text(header + "}", std::string(at, 'x'));
}

// {"weight_map":{"<tensor>":"<shard>",...}}
inline std::string index_text(
    std::initializer_list<std::pair<std::string_view, std::string_view>> listed) {
  std::string out = R"({"weight_map":{)";
  bool first = true;
  for (const auto& [tensor, shard] : listed) {
    out += std::string(first ? "" : ",") + '"' + std::string(tensor) + R"(":")" +
           std::string(shard) + '"';
    first = false;
  }
  return out + "}}";
}

// A repository in a Hugging Face cache. Files of the snapshot are symlinks to blobs.
class cached_repository {
 public:
  static constexpr std::string_view commit = "0123456789abcdef0123456789abcdef01234567";

  cached_repository(const std::filesystem::path& cache, std::string_view folder)
      : root_(cache / folder) {
    std::filesystem::create_directories(root_ / "blobs");
    std::filesystem::create_directories(snapshot());
    set_ref("main", commit);
  }

  const std::filesystem::path& root() const noexcept { return root_; }
  std::filesystem::path snapshot() const { return root_ / "snapshots" / commit; }

  void set_ref(std::string_view revision, std::string_view content) const {
    write_file(root_ / "refs" / revision, content);
  }

  // `name` may have sub-folders. The symlink then has one more `../` for each.
  void add(const std::string& name, std::string_view content) const {
    add_link(name);
    write_file(blob_of(name), content);
  }

  // A symlink whose blob has not been downloaded.
  void add_link(const std::string& name) const {
    const std::filesystem::path link = snapshot() / name;
    std::filesystem::create_directories(link.parent_path());
    const auto target = std::filesystem::relative(blob_of(name), link.parent_path());
    std::filesystem::create_symlink(target, link);
  }

 private:
  std::filesystem::path blob_of(const std::string& name) const {
    return root_ / "blobs" / std::to_string(std::hash<std::string>{}(name));
  }

  std::filesystem::path root_;
};

}  // namespace ringload::testing
