// SPDX-License-Identifier: Apache-2.0

#include "remote/hub/hub_snapshot.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "catalog/folder_choice.hpp"
#include "catalog/read_entries.hpp"
#include "formats/shard_index.hpp"

namespace ringload::inline v0::remote_http {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view index_suffix = ".index.json";

// Returns the files that a load of `name` opens. For an index, returns the index and its shards.
std::vector<std::string> files_behind(const model_folder& snapshot, const std::string& name) {
  std::vector<std::string> out = {name};
  if (!name.ends_with(index_suffix)) return out;
  const auto file = snapshot.open_file(name);
  const auto text = file ? read_index_text(*file) : file.error();
  const std::string shard = name.substr(0, name.size() - index_suffix.size());
  const auto index = text ? parse_shard_index(*text, fs::path(shard).extension().native())
                          : result<shard_index>(text.error());
  // If the index cannot be read, the load will report the fault.
  if (index) out.insert(out.end(), index->shards.begin(), index->shards.end());
  return out;
}

}  // namespace

std::string cached_checkpoint(const std::string& cache, const model_name& model,
                              const hub_listing& listing, const std::string& file) {
  const auto snapshot = open_cached_model(cache, {model.repository, listing.commit});
  if (!snapshot) return {};
  std::vector<std::string> names = {file};
  if (file.empty()) {
    std::vector<std::string> listed;
    for (const hub_file& entry : listing.files) add_entry(entry.name, listed);
    const auto chosen = choose_checkpoint(listed);
    if (!chosen) return {};
    names = chosen->index.empty() ? chosen->files : std::vector{chosen->index};
  }
  for (const std::string& name : names) {
    for (const std::string& needed_name : files_behind(*snapshot, name)) {
      if (!snapshot->open_file(needed_name)) return {};
    }
  }
  return file.empty() ? snapshot->shown() : snapshot->path_of(file);
}

result<std::string> cached_revision(const std::string& cache, const hub_address& address) {
  const auto snapshot = open_cached_model(cache, address.model);
  if (!snapshot) return snapshot.error();
  return address.file.empty() ? snapshot->shown() : snapshot->path_of(address.file);
}

}  // namespace ringload::inline v0::remote_http
