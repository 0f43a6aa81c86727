// SPDX-License-Identifier: Apache-2.0

#include "remote/hub/hub_snapshot.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "catalog/folder_choice.hpp"
#include "catalog/gguf_split.hpp"
#include "catalog/read_entries.hpp"
#include "formats/shard_index.hpp"

namespace ringload::inline v0::remote_http {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view index_suffix = ".index.json";

// Returns the files whose headers a load of `name` reads. For an index, returns the index and its
// shards. For the first file of a GGUF series, returns the whole series.
std::vector<std::string> files_behind(const model_folder& snapshot, const std::string& name) {
  const fs::path path(name);
  std::vector<std::string> out = gguf_series(path.filename().native());
  for (std::string& file : out) file = (path.parent_path() / file).native();
  if (out.empty()) out = {name};
  if (!name.ends_with(index_suffix)) return out;
  const auto file = snapshot.open_file(name);
  const auto text = file ? read_index_text(*file) : file.error();
  const std::string shard = name.substr(0, name.size() - index_suffix.size());
  const auto index = text ? parse_shard_index(*text, fs::path(shard).extension().native())
                          : result<shard_index>(text.error());
  // If the index cannot be read, the load will report the fault.
  if (!index) return out;
  for (const std::string& file_name : index->shards) {
    out.push_back((path.parent_path() / file_name).native());
  }
  return out;
}

// Returns true if the snapshot has the file `name` and all files with its external data.
bool has_file(const model_folder& snapshot, const std::string& name) {
  const auto file = snapshot.open_file(name);
  if (!file) return false;
  const auto external = read_external_files(*file, name);
  if (!external) return true;  // The header cannot be read. The load will report the fault.
  const fs::path folder = fs::path(name).parent_path();
  return std::ranges::all_of(*external, [&](const std::string& path) {
    return snapshot.open_file((folder / path).native()).has_value();
  });
}

// Returns true if the snapshot has all files that a load of `names` opens.
bool has_all_files(const model_folder& snapshot, const std::vector<std::string>& names) {
  return std::ranges::all_of(names, [&](const std::string& name) {
    return std::ranges::all_of(files_behind(snapshot, name), [&](const std::string& needed_name) {
      return has_file(snapshot, needed_name);
    });
  });
}

std::vector<std::string> chosen_files(const folder_choice& chosen) {
  return chosen.index.empty() ? chosen.files : std::vector{chosen.index};
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
    names = chosen_files(*chosen);
  }
  if (!has_all_files(*snapshot, names)) return {};
  return file.empty() ? snapshot->shown() : snapshot->path_of(file);
}

result<std::string> cached_revision(const std::string& cache, const hub_address& address) {
  const auto snapshot = open_cached_model(cache, address.model);
  if (!snapshot) return snapshot.error();
  return address.file.empty() ? snapshot->shown() : snapshot->path_of(address.file);
}

bool has_cached_files(const std::string& cache, const hub_address& address) {
  const auto snapshot = open_cached_model(cache, address.model);
  if (!snapshot) return false;
  if (!address.file.empty()) return has_all_files(*snapshot, {address.file});
  const auto names = snapshot->names();
  if (!names) return false;
  const auto chosen = choose_checkpoint(*names);
  if (chosen) return has_all_files(*snapshot, chosen_files(*chosen));
  // A load of independent files needs no choice, and may also read files in sub-folders.
  if (chosen.error().code == errc::ambiguous_source) return true;
  if (chosen.error().code != errc::not_a_checkpoint) return false;
  const auto names_beneath = snapshot->names_beneath();
  return names_beneath && std::ranges::any_of(*names_beneath, is_checkpoint_file);
}

}  // namespace ringload::inline v0::remote_http
