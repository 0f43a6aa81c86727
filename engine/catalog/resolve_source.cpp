// SPDX-License-Identifier: Apache-2.0

#include "catalog/resolve_source.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/printable.hpp"
#include "catalog/folder_choice.hpp"
#include "catalog/gguf_split.hpp"
#include "catalog/model_folder.hpp"
#include "catalog/source_file.hpp"
#include "catalog/store_folder.hpp"

namespace ringload::inline v0 {

namespace {

namespace fs = std::filesystem;

result<parsed_source> from_local_path(const std::string& path, const source_options& options) {
  unique_fd fd(::open(path.c_str(), open_unknown_flags));
  if (!fd) return fault{system_code(errno), printable_path(path)};
  return parse_path(std::move(fd), path, options);
}

// Returns true if the local folder `path` has all independent files of `folder`, which is a folder
// of a byte store. A cache folder may have only some of the files.
bool has_independent_files(const std::string& path, const source_folder& folder) {
  const auto local = model_folder::open(path);
  const auto names = list_independent_files(folder);
  if (!local || !names) return false;
  return std::ranges::all_of(
      *names, [&](const std::string& name) { return local->open_file(name).has_value(); });
}

result<parsed_source> from_found(const found_source& found, const source_options& options) {
  const bool is_partial =
      options.independent_files && found.folder && found.file.empty() &&
      !found.local_path.empty() &&
      !has_independent_files(found.local_path, store_folder(found.folder, options.stop));
  if (!found.local_path.empty() && !is_partial) return from_local_path(found.local_path, options);
  const store_folder folder(found.folder, options.stop);
  return found.file.empty() ? parse_folder(folder, options)
                            : parse_folder_file(folder, found.file, options);
}

result<parsed_source> from_store(byte_store& store, std::string_view source,
                                 const source_options& options) {
  auto found = find_in(store, source, options.stop);
  if (!found) {
    return found.error().where().empty() ? found.error().in(printable_path(source)) : found.error();
  }
  return from_found(*found, options);
}

bool looks_like_path(std::string_view source) {
  constexpr std::string_view first_of_path = "/.~";
  const std::string_view repository = source.substr(0, source.find('@'));
  return first_of_path.find(source.front()) != std::string_view::npos ||
         is_checkpoint_file(source) || source.ends_with(".json") ||
         std::ranges::count(repository, '/') > 1;
}

fault no_such_path(const std::string& path) {
  std::error_code ignored;
  if (fs::is_symlink(fs::symlink_status(path, ignored))) {
    return {errc::source_not_found, printable_path(path),
            "the target of the symlink does not exist; the download may be incomplete"};
  }
  return {errc::source_not_found, printable_path(path), "there is no such file or folder"};
}

result<model_folder> cached_snapshot(const model_name& model, const environment& variables) {
  auto cache = cache_folder(variables);
  if (!cache) return cache.error();
  return open_cached_model(*cache, model);
}

result<parsed_source> from_model_name(const std::string& source, const source_options& options,
                                      const environment& variables) {
  auto model = parse_model_name(source);
  auto snapshot = model ? cached_snapshot(*model, variables) : result<model_folder>(model.error());
  if (snapshot) return parse_folder(*snapshot, options);
  const fault problem = snapshot.error();
  return fault{problem.code, printable_path(source),
               "there is no such file or folder, and the cache has no such model: " +
                   (problem.where().empty() ? "" : problem.where() + ": ") +
                   (problem.cause().empty() ? problem.code.message() : problem.cause())};
}

result<parsed_source> from_hub_address(const std::string& source, const source_options& options,
                                       const environment& variables) {
  auto address = parse_hub_address(source);
  if (!address) return address.error().in(printable_path(source));
  auto snapshot = cached_snapshot(address->model, variables);
  if (!snapshot) return snapshot.error().in(printable_path(source));
  if (address->file.empty()) return parse_folder(*snapshot, options);
  if (options.independent_files) return folder_expected(source);

  const std::string path = snapshot->path_of(address->file);
  auto file = snapshot->open_file(address->file);
  if (!file) return file.error().in(printable_path(path));
  if (path.ends_with(".index.json")) return parse_folder_file(*snapshot, address->file, options);
  return parse_series_file(std::move(*file), path, options);
}

// Opens a regular file. Returns a fault if the path names anything else.
result<source_file> open_named_file(const std::string& path) {
  if (path.empty() || path.find('\0') != path.npos) {
    return fault{errc::invalid_source_name, printable_path(path),
                 path.empty() ? "the name of the file is empty" : "the name holds a NUL"};
  }
  unique_fd fd(::open(path.c_str(), open_unknown_flags));
  if (!fd && errno == ENOENT) return no_such_path(path);
  if (!fd) return fault{system_code(errno), printable_path(path)};
  auto file = as_regular_file(std::move(fd));
  if (!file) return file.error().in(printable_path(path));
  return file;
}

// Returns the fault for an address that no extension recognises.
fault unknown_scheme(std::string_view source) {
  constexpr std::string_view network_schemes[] = {"http://", "https://", "hf://",
                                                  "s3://",   "gs://",    "az://"};
  std::string cause = "there is no such file or folder, and no extension supports such addresses";
  const auto matches = [source](std::string_view known) {
    return begins_with_scheme(source, known);
  };
  if (std::ranges::any_of(network_schemes, matches)) {
    cause =
        "loading over the network needs the component remote: the loader was made without the "
        "extension ringload::remote(), or this ringload was built without it";
  }
  // The fault does not show a query or a user name, because these texts may be credentials.
  std::string_view shown = source.substr(0, source.find_first_of("?#"));
  const std::size_t host = source.find("://") + 3;
  if (shown.find('@', host) < shown.find('/', host)) shown = source.substr(0, host);
  return {errc::source_not_found, printable_path(shown), std::move(cause)};
}

bool has_scheme(std::string_view source) noexcept { return source.find("://") != source.npos; }

result<void> add_listed(opened_files& opened, const std::string& path,
                        const source_options& options) {
  byte_store* const store = has_scheme(path) ? store_of(path, options) : nullptr;
  if (store == nullptr) {
    auto file = open_named_file(path);
    if (!file) return file.error();
    return add_named_file(opened, std::move(*file), path, options);
  }
  auto found = find_in(*store, path, options.stop);
  if (!found) return found.error().in(printable_path(path));
  if (!found->local_path.empty()) {
    auto file = open_named_file(found->local_path);
    if (!file) return file.error();
    return add_named_file(opened, std::move(*file), found->local_path, options);
  }
  if (found->file.empty()) {
    return fault{errc::not_a_regular_file, printable_path(path), "expected a single file"};
  }
  const store_folder folder(found->folder, options.stop);
  auto file = folder.open_file(found->file);
  if (!file) return file.error().in(printable_path(folder.path_of(found->file)));
  return add_part(opened, folder, std::move(*file), found->file, options);
}

bool is_search_error(const boost::system::error_code& code) noexcept {
  return code == errc::source_not_found || code == errc::access_denied ||
         code == errc::remote_failed;
}

// Returns true if the cache lacks files that a store may have: the model, the tensor files, or some
// shards of an index.
bool is_absent(const boost::system::error_code& code) noexcept {
  return code == errc::source_not_found || code == errc::incomplete_series ||
         code == errc::not_a_checkpoint;
}

// Returns the fault for a name that is not a path, and that no store can open. `cached_fault` says
// why the cached model cannot be loaded. `cached_fault` is empty if the cache was not searched.
fault not_found(std::string_view source, const std::optional<fault>& cached_fault,
                const fault& store_fault) {
  const bool is_cached = cached_fault && cached_fault->code != errc::source_not_found;
  return {
      store_fault.code, printable_path(source),
      (is_cached ? "the cached model cannot be loaded: " + message_of(*cached_fault) +
                       "; and no store can open this name: "
                 : "no file, folder or cached model has this name, and no store can open it: ") +
          message_of(store_fault)};
}

fault empty_name(std::string_view source) {
  return {errc::invalid_source_name, printable_path(source),
          source.empty() ? "the name of the checkpoint is empty" : "the name holds a NUL"};
}

}  // namespace

result<parsed_source> resolve_source(std::string_view source, const source_options& options,
                                     const environment& variables) {
  if (source.empty() || source.find('\0') != std::string_view::npos) return empty_name(source);
  const std::string path(source);
  byte_store* const store = store_of(source, options);
  const bool cacheable = is_hub_address(source);
  if (has_scheme(source) && store != nullptr) return from_store(*store, source, options);
  unique_fd fd(::open(path.c_str(), open_unknown_flags));
  if (fd) return parse_path(std::move(fd), path, options);

  const int error_number = errno;
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG: break;  // The path does not exist. The name may be the name of a model.
    case ENXIO:
      return fault{errc::not_a_regular_file, printable_path(path),
                   "this is a socket, or a device that does not exist"};
    default: return fault{system_code(error_number), printable_path(path)};
  }
  if (has_scheme(source) && !cacheable) return unknown_scheme(source);
  if (looks_like_path(source) && !cacheable) return no_such_path(path);
  // The cache may have only some of a model's independent files. The store lists all independent
  // files.
  std::optional<fault> cached_fault;
  if (!options.independent_files || store == nullptr) {
    auto cached = cacheable ? from_hub_address(path, options, variables)
                            : from_model_name(path, options, variables);
    // If only a part of a model was fetched, the cache may have the configuration but no tensor
    // file, or the index but not all shards.
    if (cached || store == nullptr || !is_absent(cached.error().code)) return cached;
    cached_fault = cached.error();
  }
  auto fetched = from_store(*store, source, options);
  if (!fetched && is_search_error(fetched.error().code)) {
    return not_found(source, cached_fault, fetched.error());
  }
  return fetched;
}

result<parsed_source> resolve_source(std::string_view source, const source_options& options) {
  return resolve_source(source, options, process_environment());
}

result<parsed_source> open_files(std::span<const std::string> paths,
                                 const source_options& options) {
  if (paths.empty()) return fault{errc::invalid_source_name, "", "the list of files is empty"};
  opened_files opened;
  for (const std::string& path : paths) {
    auto added = add_listed(opened, path, options);
    if (!added) return added.error();
    if (auto problem = check_gguf_split({&opened.contents.back(), 1})) return *problem;
  }
  auto assembled_source = assemble_all(std::move(opened.contents));
  return assemble_source(std::move(opened), std::move(assembled_source));
}

result<parsed_source> open_found(const found_source& found, const source_options& options) {
  if (!found.folder && found.local_path.empty()) {
    return fault{errc::source_not_found, "", "the extension found neither a folder nor a path"};
  }
  return from_found(found, options);
}

std::uint64_t catalog::size_bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const tensor_info& tensor : tensors) sum += tensor.bytes;
  return sum;
}

}  // namespace ringload::inline v0
