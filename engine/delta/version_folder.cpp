// SPDX-License-Identifier: Apache-2.0

#include "delta/version_folder.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <ringload/delta.hpp>
#include <utility>

#include "base/folder_names.hpp"
#include "base/printable.hpp"
#include "catalog/model_folder.hpp"
#include "catalog/store_folder.hpp"
#include "catalog/version_name.hpp"
#include "delta/delta_contents.hpp"
#include "delta/delta_job.hpp"
#include "delta/loaded_delta.hpp"
#include "formats/shard_index.hpp"
#include "runtime/engine.hpp"

namespace ringload::inline v0::detail {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view model_file = "model.safetensors";
constexpr std::string_view full_endings[] = {".safetensors", ".zt", ""};

bool is_folder(const fs::path& path) noexcept {
  struct ::stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// Finds the folder in a store. If no store recognises the path, returns an empty result for a path
// of the file system, and fails for an address with "://".
result<found_source> find_in_stores(const std::string& path, std::span<const extension> extensions,
                                    const std::stop_token& stop) {
  source_options options(strictness::strict);
  options.extensions = extensions;
  byte_store* const store = store_of(path, options);
  if (store == nullptr && path.find("://") == std::string::npos) return found_source();
  if (store == nullptr) {
    return fault{errc::source_not_found, {}, "no extension of the loader supports such addresses"};
  }
  auto found = find_in(*store, path, stop);
  if (!found) return found;
  if (found->file.empty()) return found;
  return fault{errc::source_not_found, {}, "expected a folder of versions, but the path is a file"};
}

}  // namespace

std::string version_folder::path_of(const std::string& name) const {
  if (store_) return store_->path_of(name);
  return name.empty() ? path_ : (fs::path(path_) / name).string();
}

source version_folder::source_of(const std::string& name) const {
  return store_ ? source(found_source{store_, name, {}}) : source(path_of(name));
}

// Sets the name of the full file or of the delta file of a version. Fails if the version already
// has a name of this kind.
result<void> version_folder::set_name(std::string version_files::* kind, std::uint64_t version,
                                      const std::string& name) {
  std::string& stored = versions_[version].*kind;
  if (!stored.empty()) {
    return fault{errc::ambiguous_source, printable_path(path_of(name)),
                 "the folder has the version as " + printable_path(path_of(stored)) + " too"};
  }
  stored = name;
  return {};
}

// Adds a folder such as weight_v000007. A folder that has neither an index nor a single file with
// all tensors is incomplete, and is not added.
result<void> version_folder::add_weights(const std::string& name, std::uint64_t version) {
  constexpr std::size_t beginning_bytes = 4096;  // The metadata is usually at the beginning.
  const std::string path = path_of(name);
  const std::string index = std::string(model_file) + ".index.json";
  const auto folder = model_folder::open(path);
  if (!folder) return folder.error().in(printable_path(path));
  auto beginning = folder->read_text(index, beginning_bytes);
  if (!beginning && beginning.error().code != errc::source_not_found) {
    return beginning.error().in(printable_path(folder->path_of(index)));
  }
  if (!beginning) {
    const bool is_full = folder->open_file(std::string(model_file)).has_value();
    return is_full ? set_name(&version_files::full, version, name) : result<void>();
  }
  auto is_delta = describes_delta(*beginning);
  if (!is_delta && beginning->size() == beginning_bytes) {
    const auto text = folder->read_text(index, shard_index_bytes_max);
    if (!text) return text.error().in(printable_path(folder->path_of(index)));
    is_delta = describes_delta(*text);
  }
  // A folder with a malformed index is added as a delta. A load of this version then fails.
  const bool is_full = is_delta && !*is_delta;
  return set_name(is_full ? &version_files::full : &version_files::delta, version, name);
}

result<void> version_folder::add(const std::string& name) {
  if (const auto version = version_named(name, delta_ending)) {
    return set_name(&version_files::delta, *version, name);
  }
  if (const auto version = weight_version_named(name); version && !store_) {
    return is_folder(path_of(name)) ? add_weights(name, *version) : result<void>();
  }
  for (const std::string_view ending : full_endings) {
    const auto version = version_named(name, ending);
    if (!version) continue;
    // In a store, a full version is a single file.
    if (ending.empty() && (store_ || !is_folder(path_of(name)))) continue;
    if (auto added = set_name(&version_files::full, *version, name); !added) return added;
  }
  return {};
}

result<version_folder> version_folder::read(const std::string& path,
                                            std::span<const extension> extensions,
                                            const std::stop_token& stop) {
  version_folder folder;
  folder.path_ = path;
  if (!is_folder(path)) {
    auto found = find_in_stores(path, extensions, stop);
    if (!found) return found.error().in(printable_path(path));
    if (!found->local_path.empty()) {
      folder.path_ = found->local_path;
    } else {
      folder.store_ = std::move(found->folder);
    }
  }
  const auto names = folder.store_ ? store_folder(folder.store_, stop).names()
                                   : folder_names(fs::path(folder.path_));
  if (!names) {
    const fault& failure = names.error();
    return failure.where().empty() ? failure.in(printable_path(path)) : failure;
  }
  for (const std::string& name : *names) {
    if (auto added = folder.add(name); !added) return added.error();
  }
  return folder;
}

result<version_chain> find_chain(const version_folder& folder, std::uint64_t version,
                                 std::optional<std::uint64_t> loaded) {
  const auto missing = [&](const std::string& name, const std::string& cause) {
    return fault{errc::source_not_found, printable_path(folder.path_of(name)), cause};
  };
  version_chain chain;
  for (std::uint64_t link = version;; --link) {
    if (link == loaded) break;
    const std::string name = "v" + std::to_string(link);
    const auto found = folder.versions().find(link);
    if (found != folder.versions().end() && !found->second.full.empty()) {
      chain.full = found->second.full;
      break;
    }
    if (found == folder.versions().end() || found->second.delta.empty()) {
      return missing(
          name + std::string(delta_ending),
          "the folder has neither this delta nor the full version " + std::to_string(link));
    }
    if (link == 0) return missing(name + ".safetensors", "the full version 0 is missing");
    chain.deltas.push_back(found->second.delta);
  }
  std::ranges::reverse(chain.deltas);
  return chain;
}

namespace {

// Begins with the full version `full`, or with the loaded version `base` if `full` is empty. Then
// applies the deltas. `link` describes the first delta.
model load_links(const delta_services& services, const std::optional<model>& base,
                 const std::optional<source>& full, const std::vector<source>& deltas,
                 const apply_options& options, expected_link link = {}) {
  load_options loading;
  loading.allocation = options.allocation;
  if (!full && !base->storage()) {
    throw error(errc::no_such_tensor, "base", "the model handle is empty, expected a loaded model");
  }
  model loaded = full ? services.load_to_device(*full, loading) : *base;
  const auto is_full =
      check_full_version(loaded.catalog(), full ? place_of_source(*full) : std::string("base"));
  if (!is_full) throw to_error(is_full.error());
  for (const source& delta : deltas) {
    auto [next, identity] = apply_delta(services, {std::move(loaded), delta, options}, link);
    loaded = std::move(next);
    link.base_identity = std::move(identity);
    if (link.version) ++*link.version;
  }
  return loaded;
}

model load_version(const delta_services& services, const version_request& request) {
  const version_options& options = request.options;
  const auto folder = version_folder::read(request.folder, services.loader_engine()->extensions,
                                           services.stop_token());
  if (!folder) throw to_error(folder.error());
  if (folder->versions().empty()) {
    throw error(errc::source_not_found, printable_path(request.folder),
                "the folder has no version, expected a file such as v0.safetensors");
  }
  const std::uint64_t version = options.version.value_or(folder->versions().rbegin()->first);
  std::optional<std::uint64_t> loaded_version;
  if (options.base) loaded_version = options.base_version;
  const auto chain = find_chain(*folder, version, loaded_version);
  if (!chain) throw to_error(chain.error());
  std::optional<source> full;
  if (!chain->full.empty()) full = folder->source_of(chain->full);
  std::vector<source> deltas;
  for (const std::string& name : chain->deltas) deltas.push_back(folder->source_of(name));
  const expected_link first = {{}, version + 1 - deltas.size()};
  return load_links(services, options.base, full, deltas, options.apply, first);
}

model load_chain(const delta_services& services, const chain_request& request) {
  if (request.links.empty()) {
    throw error(errc::invalid_options, "links", "there is no link, expected a full version");
  }
  const std::vector<source> deltas(request.links.begin() + 1, request.links.end());
  return load_links(services, std::nullopt, request.links.front(), deltas, request.options);
}

}  // namespace

void begin_load_version(const engine_ptr& loader_engine, version_request request,
                        std::unique_ptr<operation<model>> waiting) {
  run_delta_operation<model>(loader_engine, std::move(waiting),
                             [request = std::move(request)](const delta_services& services) {
                               return load_version(services, request);
                             });
}

void begin_load_chain(const engine_ptr& loader_engine, chain_request request,
                      std::unique_ptr<operation<model>> waiting) {
  run_delta_operation<model>(loader_engine, std::move(waiting),
                             [request = std::move(request)](const delta_services& services) {
                               return load_chain(services, request);
                             });
}

}  // namespace ringload::inline v0::detail

namespace ringload::inline v0 {

std::vector<version_info> list_versions(detail::path_argument folder,
                                        const std::vector<extension>& extensions,
                                        const std::stop_token& stop) {
  const auto files = catch_as_fault(
      [&] { return detail::version_folder::read(std::move(folder).take(), extensions, stop); });
  if (!files) throw to_error(files.error());
  const auto path_of = [&](const std::string& name) {
    return name.empty() ? std::string() : files->path_of(name);
  };
  std::vector<version_info> versions;
  for (const auto& [number, names] : files->versions()) {
    versions.push_back({number, path_of(names.full), path_of(names.delta)});
  }
  return versions;
}

}  // namespace ringload::inline v0
