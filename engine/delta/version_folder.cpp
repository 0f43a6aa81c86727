// SPDX-License-Identifier: Apache-2.0

#include "delta/version_folder.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <ringload/delta.hpp>
#include <utility>

#include "base/folder_names.hpp"
#include "base/printable.hpp"
#include "catalog/version_name.hpp"
#include "delta/delta_job.hpp"
#include "delta/loaded_delta.hpp"

namespace ringload::inline v0::detail {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view full_endings[] = {".safetensors", ".zt", ""};

bool is_folder(const fs::path& path) noexcept {
  struct ::stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

result<void> add_file(const fs::path& path, version_folder& folder) {
  const std::string name = path.filename().string();
  if (const auto version = version_named(name, delta_ending)) {
    folder[*version].delta = path.string();
    return {};
  }
  for (const std::string_view ending : full_endings) {
    const auto version = version_named(name, ending);
    if (!version) continue;
    if (ending.empty() && !is_folder(path)) continue;
    std::string& full = folder[*version].full;
    if (!full.empty()) {
      return fault{errc::ambiguous_source, printable_path(path.string()),
                   "the folder has the version as " + printable_path(full) + " too"};
    }
    full = path.string();
  }
  return {};
}

}  // namespace

result<version_folder> read_version_folder(const std::string& path) {
  const auto names = folder_names(fs::path(path));
  if (!names) return names.error().in(printable_path(path));
  version_folder folder;
  for (const std::string& name : *names) {
    if (auto added = add_file(fs::path(path) / name, folder); !added) return added.error();
  }
  return folder;
}

result<version_chain> find_chain(const version_folder& folder, const std::string& path,
                                 std::uint64_t version, std::optional<std::uint64_t> loaded) {
  const auto missing = [&](const std::string& name, const std::string& cause) {
    return fault{errc::source_not_found, printable_path((fs::path(path) / name).string()), cause};
  };
  version_chain chain;
  for (std::uint64_t link = version;; --link) {
    if (link == loaded) break;
    const std::string name = "v" + std::to_string(link);
    const auto found = folder.find(link);
    if (found != folder.end() && !found->second.full.empty()) {
      chain.full = found->second.full;
      break;
    }
    if (found == folder.end() || found->second.delta.empty()) {
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

void begin_load_version(const engine_ptr& loader_engine, version_request request,
                        std::unique_ptr<operation<model>> waiting) {
  run_delta_operation<model>(
      loader_engine, std::move(waiting),
      [request = std::move(request)](const delta_services& services) {
        services.require_host();
        const auto folder = read_version_folder(request.folder);
        if (!folder) throw to_error(folder.error());
        if (folder->empty()) {
          throw error(errc::source_not_found, printable_path(request.folder),
                      "the folder has no version, expected a file such as v0.safetensors");
        }
        const std::uint64_t version = request.options.version.value_or(folder->rbegin()->first);
        const std::optional<model>& base = request.options.base;
        std::optional<std::uint64_t> loaded_version;
        if (base) loaded_version = request.options.base_version;
        const auto chain = find_chain(*folder, request.folder, version, loaded_version);
        if (!chain) throw to_error(chain.error());
        load_options options;
        options.allocation = request.options.apply.allocation;
        model loaded = chain->full.empty() ? *base : services.load_all(chain->full, options);
        for (const std::string& delta : chain->deltas) {
          loaded = apply_delta(services, {std::move(loaded), delta, request.options.apply});
        }
        return loaded;
      });
}

}  // namespace ringload::inline v0::detail

namespace ringload::inline v0 {

std::vector<version_info> list_versions(detail::path_argument folder) {
  const auto files = detail::read_version_folder(std::move(folder).take());
  if (!files) throw to_error(files.error());
  std::vector<version_info> versions;
  for (const auto& [number, paths] : *files) versions.push_back({number, paths.full, paths.delta});
  return versions;
}

}  // namespace ringload::inline v0
