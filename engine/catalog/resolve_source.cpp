// SPDX-License-Identifier: Apache-2.0
#include "catalog/resolve_source.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <span>
#include <string>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "base/printable.hpp"
#include "catalog/assemble.hpp"
#include "catalog/folder_choice.hpp"
#include "catalog/gguf_split.hpp"
#include "catalog/model_folder.hpp"
#include "catalog/read_entries.hpp"
#include "catalog/source_file.hpp"
#include "catalog/store_folder.hpp"
#include "formats/shard_index.hpp"

namespace ringload::inline v0 {

namespace {

namespace fs = std::filesystem;

// Open files and their contents, from which a catalog is assembled.
struct opened_files {
  std::vector<file_content> contents;
  std::vector<source_file> files;   // One for each of the contents.
  std::vector<source_file> beside;  // One for each file beside the first, the second...
};

// Returns true if the code says that the bytes of a file are wrong. Returns false if the bytes
// could not be read, or have changed meanwhile.
bool is_of_content(const boost::system::error_code& code) noexcept {
  constexpr errc other_codes[] = {errc::memory_exceeded,  errc::changed_file,
                                  errc::source_not_found, errc::access_denied,
                                  errc::remote_failed,    errc::malformed_answer};
  return code.category() == category() &&
         std::ranges::find(other_codes, code) == std::end(other_codes);
}

// An object whose copy is no checkpoint is read again without the copy.
result<parsed_file> parse_file(const source_file& file, const std::string& path,
                               const source_options& options) {
  auto parsed = read_entries(file, path, options);
  if (parsed || !file.object || !is_of_content(parsed.error().code)) return parsed;
  const auto dropped = catch_as_fault([&]() -> result<bool> { return file.object->drop_copy(); });
  if (dropped && *dropped) return read_entries(file, path, options);
  return parsed;
}

result<void> add_file(opened_files& to, source_file file, std::string path,
                      const source_options& options) {
  auto parsed = parse_file(file, path, options);
  if (!parsed) return parsed.error().in(printable_path(path));
  file_info info = {std::move(path), file.bytes, std::string(parsed->format)};
  to.contents.push_back({std::move(info), std::move(parsed->entries), {}});
  to.files.push_back(std::move(file));
  return {};
}

// Opens what the file added last keeps in other files. It is called `name` in the folder.
result<void> add_files_beside(opened_files& to, const source_folder& folder,
                              const std::string& name) {
  file_content& content = to.contents.back();
  for (const std::string& beside : content.entries.files_beside) {
    const std::string inside = (fs::path(name).parent_path() / beside).native();
    std::string path = folder.path_of(inside);
    auto file = folder.open_file(inside);
    if (!file) {
      return file.error().in(printable_path(content.info.path) + ": " + printable_path(path));
    }
    content.files_beside.push_back({std::move(path), file->bytes, content.info.format});
    to.beside.push_back(std::move(*file));
  }
  return {};
}

result<parsed_source> finished(opened_files opened, result<assembled> assembled_source) {
  if (!assembled_source) return assembled_source.error();
  std::ranges::move(opened.beside, std::back_inserter(opened.files));
  return parsed_source{std::move(assembled_source->catalog), std::move(assembled_source->stored),
                       std::move(assembled_source->digests), std::move(opened.files)};
}

// The folder that holds what the user named. Other files lie beside that name, not beside what a
// symlink leads to.
result<model_folder> folder_around(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return model_folder::open(parent.empty() ? "." : parent.native());
}

// A file that the user named, alone or in a list.
result<void> add_named_file(opened_files& to, source_file file, const std::string& path,
                            const source_options& options) {
  auto added = add_file(to, std::move(file), path, options);
  if (!added || to.contents.back().entries.files_beside.empty()) return added;
  auto folder = folder_around(path);
  if (!folder) return folder.error().in(printable_path(path));
  return add_files_beside(to, *folder, fs::path(path).filename().native());
}

// One of the files that make the checkpoint together.
result<void> add_part(opened_files& to, const source_folder& folder, source_file file,
                      const std::string& name, const source_options& options) {
  auto added = add_file(to, std::move(file), folder.path_of(name), options);
  if (added) added = add_files_beside(to, folder, name);
  return added;
}

result<parsed_source> from_files(const source_folder& folder, const std::vector<std::string>& names,
                                 const source_options& options) {
  opened_files opened;
  folder.expect(names);
  for (const std::string& name : names) {
    auto file = folder.open_file(name);
    if (!file) return file.error().in(printable_path(folder.path_of(name)));
    auto added = add_part(opened, folder, std::move(*file), name, options);
    if (!added) return added.error();
  }
  if (auto problem = check_gguf_split(opened.contents)) return *problem;
  auto assembled_source = assemble_all(std::move(opened.contents));
  return finished(std::move(opened), std::move(assembled_source));
}

result<parsed_source> from_file(source_file file, const std::string& path,
                                const source_options& options) {
  const auto series = gguf_series(fs::path(path).filename().native());
  if (series.size() > 1) {
    auto folder = folder_around(path);
    if (!folder) return folder.error().in(printable_path(path));
    return from_files(*folder, series, options);
  }
  opened_files opened;
  auto added = add_named_file(opened, std::move(file), path, options);
  if (!added) return added.error();
  auto assembled_source = assemble_all(std::move(opened.contents));
  return finished(std::move(opened), std::move(assembled_source));
}

// pytorch_model.bin.index.json lists .bin files; an index that does not say it, .safetensors.
std::string suffix_of_shards(const std::string& index_path) {
  constexpr std::string_view index_suffix = ".index.json";
  const fs::path shard = index_path.substr(0, index_path.size() - index_suffix.size());
  const std::string suffix = shard.extension().native();
  return is_checkpoint_file(suffix) ? suffix : ".safetensors";
}

// A shard that is not there is told by the index and a tensor that needs it.
fault missing_shard(const fault& cause, const shard_index& index, std::uint32_t shard,
                    const std::string& index_path) {
  const auto needs =
      std::ranges::find(index.tensors, shard, &std::pair<std::string, std::uint32_t>::second);
  fault out{errc::incomplete_series, printable_path(index_path),
            "the shard '" + printable(index.shards[shard]) + "' is missing: " + cause.cause};
  if (needs != index.tensors.end()) out.where += ": " + tensor_place(needs->first);
  return out;
}

result<parsed_source> from_index(const source_folder& folder, const source_file& index_file,
                                 const std::string& index_path, const source_options& options) {
  auto text = read_index_text(index_file);
  if (!text) return text.error().in(printable_path(index_path));
  auto index = parse_shard_index(*text, suffix_of_shards(index_path));
  if (!index) return index.error().in(printable_path(index_path));
  // Which shards there are, and which tensor is taken from which, is fixed.

  opened_files opened;
  folder.expect(index->shards);
  for (std::uint32_t shard = 0; shard < index->shards.size(); ++shard) {
    auto file = folder.open_file(index->shards[shard]);
    if (!file && file.error().code == errc::source_not_found) {
      return missing_shard(file.error(), *index, shard, index_path);
    }
    if (!file) return file.error().in(printable_path(folder.path_of(index->shards[shard])));
    auto added = add_part(opened, folder, std::move(*file), index->shards[shard], options);
    if (!added) return added.error();
  }
  auto assembled_source = assemble_listed(std::move(opened.contents), *index);
  return finished(std::move(opened), std::move(assembled_source));
}

result<std::vector<std::string>> independent_files(const source_folder& folder) {
  auto names = folder.names_beneath();
  return names ? choose_independent_files(std::move(*names)) : names;
}

// The error for a source that is a single file.
fault expected_folder(const std::string& path) {
  return {system_code(ENOTDIR), printable_path(path),
          "expected a folder of independent files, and this is none"};
}

result<parsed_source> from_independent_files(const source_folder& folder,
                                             const source_options& options) {
  auto names = independent_files(folder);
  if (!names) return names.error().in(printable_path(folder.shown()));
  return from_files(folder, *names, options);
}

result<parsed_source> from_folder(const source_folder& folder, const source_options& options) {
  if (options.independent_files) return from_independent_files(folder, options);
  auto names = folder.names();
  if (!names) return names.error().in(printable_path(folder.shown()));
  auto chosen = choose_checkpoint(*names);
  if (!chosen) return chosen.error().in(printable_path(folder.shown()));
  if (chosen->index.empty()) return from_files(folder, chosen->files, options);

  const std::string path = folder.path_of(chosen->index);
  auto index_file = folder.open_file(chosen->index);
  if (!index_file) return index_file.error().in(printable_path(path));
  return from_index(folder, *index_file, path, options);
}

// A file of a store, which is no path: what else belongs to it is found in its folder.
result<parsed_source> from_folder_file(const source_folder& folder, const std::string& name,
                                       const source_options& options) {
  const fs::path path(name);
  if (options.independent_files) return expected_folder(folder.path_of(name));
  if (name.ends_with(".index.json")) {
    auto file = folder.open_file(name);
    if (!file) return file.error().in(printable_path(folder.path_of(name)));
    return from_index(folder, *file, folder.path_of(name), options);
  }
  std::vector<std::string> series = gguf_series(path.filename().native());
  if (series.size() <= 1) return from_files(folder, {name}, options);
  for (std::string& file_name : series) file_name = (path.parent_path() / file_name).native();
  return from_files(folder, series, options);
}

bool is_folder(const unique_fd& fd) noexcept {
  struct stat status = {};
  return ::fstat(fd.get(), &status) == 0 && S_ISDIR(status.st_mode);
}

// What the user named is there, as `fd`; it may be any file, or a symlink to one.
result<parsed_source> from_path(unique_fd fd, const std::string& path,
                                const source_options& options) {
  if (is_folder(fd)) {
    auto folder = model_folder::open(path);
    if (!folder) return folder.error().in(printable_path(path));
    return from_folder(*folder, options);
  }
  auto file = as_regular_file(std::move(fd));
  if (!file) return file.error().in(printable_path(path));
  if (options.independent_files) return expected_folder(path);
  if (!path.ends_with(".index.json")) return from_file(std::move(*file), path, options);

  auto folder = folder_around(path);
  if (!folder) return folder.error().in(printable_path(path));
  return from_index(*folder, *file, path, options);
}

// A path that a store has named.
result<parsed_source> from_local_path(const std::string& path, const source_options& options) {
  unique_fd fd(::open(path.c_str(), open_unknown_flags));
  if (!fd) return fault{system_code(errno), printable_path(path)};
  return from_path(std::move(fd), path, options);
}

// Whether the path has all independent files of the store's folder: a cache may have some of them.
bool has_independent_files(const std::string& path, const source_folder& folder) {
  const auto local = model_folder::open(path);
  const auto names = independent_files(folder);
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
  return found.file.empty() ? from_folder(folder, options)
                            : from_folder_file(folder, found.file, options);
}

result<parsed_source> from_store(byte_store& store, std::string_view source,
                                 const source_options& options) {
  auto found = find_in(store, source, options.stop);
  if (!found) {
    return found.error().where.empty() ? found.error().in(printable_path(source)) : found.error();
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
            "it is a symlink to a file that is not there, as an incomplete download leaves it"};
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
  if (snapshot) return from_folder(*snapshot, options);
  fault problem = snapshot.error();
  problem.cause = "there is no such file or folder, and as a model's name: " +
                  (problem.where.empty() ? "" : problem.where + ": ") +
                  (problem.cause.empty() ? problem.code.message() : problem.cause);
  problem.where = printable_path(source);
  return problem;
}

result<parsed_source> from_hub_address(const std::string& source, const source_options& options,
                                       const environment& variables) {
  auto address = parse_hub_address(source);
  if (!address) return address.error().in(printable_path(source));
  auto snapshot = cached_snapshot(address->model, variables);
  if (!snapshot) return snapshot.error().in(printable_path(source));
  if (address->file.empty()) return from_folder(*snapshot, options);
  if (options.independent_files) return expected_folder(source);

  const std::string path = snapshot->path_of(address->file);
  auto file = snapshot->open_file(address->file);
  if (!file) return file.error().in(printable_path(path));
  if (path.ends_with(".index.json")) return from_index(*snapshot, *file, path, options);
  return from_file(std::move(*file), path, options);
}

// Opens a path that must name a file.
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

// A name that is not a path and that no extension recognises.
fault unknown_scheme(std::string_view source) {
  constexpr std::string_view of_remote[] = {"http://", "https://", "hf://", "s3://"};
  std::string cause = "there is no such file or folder, and no extension knows such addresses";
  const auto is_its = [source](std::string_view known) {
    return begins_with_scheme(source, known);
  };
  if (std::ranges::any_of(of_remote, is_its)) {
    cause =
        "to load over the network takes the component remote: the loader was made without the "
        "extension ringload::remote(), or this ringload was built without it";
  }
  // A query or a user name may be a credential.
  std::string_view shown = source.substr(0, source.find_first_of("?#"));
  const std::size_t host = source.find("://") + 3;
  if (shown.find('@', host) < shown.find('/', host)) shown = source.substr(0, host);
  return {errc::source_not_found, printable_path(shown), std::move(cause)};
}

bool has_scheme(std::string_view source) noexcept { return source.find("://") != source.npos; }

// Adds one file of a list.
result<void> add_listed(opened_files& to, const std::string& path, const source_options& options) {
  byte_store* const store = has_scheme(path) ? store_of(path, options) : nullptr;
  if (store == nullptr) {
    auto file = open_named_file(path);
    if (!file) return file.error();
    return add_named_file(to, std::move(*file), path, options);
  }
  auto found = find_in(*store, path, options.stop);
  if (!found) return found.error().in(printable_path(path));
  if (!found->local_path.empty()) {
    auto file = open_named_file(found->local_path);
    if (!file) return file.error();
    return add_named_file(to, std::move(*file), found->local_path, options);
  }
  if (found->file.empty()) {
    return fault{errc::not_a_regular_file, printable_path(path), "this is no single file"};
  }
  const store_folder folder(found->folder, options.stop);
  auto file = folder.open_file(found->file);
  if (!file) return file.error().in(printable_path(folder.path_of(found->file)));
  return add_part(to, folder, std::move(*file), found->file, options);
}

bool is_of_finding(const boost::system::error_code& code) noexcept {
  return code == errc::source_not_found || code == errc::access_denied ||
         code == errc::remote_failed;
}

// A name that is neither a path, nor in the cache, nor known to a store.
fault nowhere(std::string_view source, const fault& of_store) {
  return {of_store.code, printable_path(source),
          "there is no such file or folder, nor such a model in the local cache; and " +
              message_of(of_store)};
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
  if (fd) return from_path(std::move(fd), path, options);

  const int error_number = errno;
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG: break;  // No such path: it may be the name of a model.
    case ENXIO:
      return fault{errc::not_a_regular_file, printable_path(path),
                   "this is a socket, or a device that is not there"};
    default: return fault{system_code(error_number), printable_path(path)};
  }
  if (has_scheme(source) && !cacheable) return unknown_scheme(source);
  if (looks_like_path(source) && !cacheable) return no_such_path(path);
  // The cache may have a part of a model's independent files: only the store knows which there are.
  if (!options.independent_files || store == nullptr) {
    auto cached = cacheable ? from_hub_address(path, options, variables)
                            : from_model_name(path, options, variables);
    // If a model was fetched in part, the cache may have the index but not all shards.
    const bool absent = !cached && (cached.error().code == errc::source_not_found ||
                                    cached.error().code == errc::incomplete_series);
    if (!absent || store == nullptr) return cached;
  }
  auto fetched = from_store(*store, source, options);
  if (!fetched && is_of_finding(fetched.error().code)) return nowhere(source, fetched.error());
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
  }
  auto assembled_source = assemble_all(std::move(opened.contents));
  return finished(std::move(opened), std::move(assembled_source));
}

result<parsed_source> open_found(const found_source& found, const source_options& options) {
  if (!found.folder && found.local_path.empty()) {
    return fault{errc::source_not_found, "", "there is neither a folder nor a path"};
  }
  return from_found(found, options);
}

catalog read_catalog(std::string_view source, const read_options& options) {
  auto opened = resolve_source(source, options);
  if (!opened) throw to_error(opened.error());
  return std::move(opened->catalog);
}

std::uint64_t catalog::size_bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const tensor_info& tensor : tensors) sum += tensor.bytes;
  return sum;
}

}  // namespace ringload::inline v0
