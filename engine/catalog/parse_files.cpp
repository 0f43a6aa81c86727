// SPDX-License-Identifier: Apache-2.0

#include "catalog/parse_files.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <filesystem>
#include <iterator>
#include <ringload/byte_source.hpp>
#include <span>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "base/printable.hpp"
#include "catalog/delta_index.hpp"
#include "catalog/file_input.hpp"
#include "catalog/folder_choice.hpp"
#include "catalog/gguf_split.hpp"
#include "catalog/model_folder.hpp"
#include "catalog/read_entries.hpp"
#include "formats/pytorch/dcp.hpp"
#include "formats/shard_index.hpp"

namespace ringload::inline v0 {

namespace {

namespace fs = std::filesystem;

// Returns true if the file was read but is invalid. Returns false if the file could not be read, or
// changed during the read.
bool is_content_error(const boost::system::error_code& code) noexcept {
  constexpr errc other_codes[] = {errc::memory_exceeded,  errc::changed_file,
                                  errc::source_not_found, errc::access_denied,
                                  errc::remote_failed,    errc::malformed_answer};
  return code.category() == category() &&
         std::ranges::find(other_codes, code) == std::end(other_codes);
}

// Parses a file. If the local copy of an object is invalid, deletes the copy and reads the object
// again.
result<parsed_file> parse_file(const source_file& file, const std::string& path,
                               const source_options& options) {
  auto parsed = read_entries(file, path, options);
  if (parsed || !file.object || !is_content_error(parsed.error().code)) return parsed;
  const auto dropped = catch_as_fault([&]() -> result<bool> { return file.object->drop_copy(); });
  if (dropped && *dropped) return read_entries(file, path, options);
  return parsed;
}

result<void> add_file(opened_files& opened, source_file file, std::string path,
                      const source_options& options) {
  read_header_with(options.headers, file);
  read_first_bytes(file);
  auto parsed = parse_file(file, path, options);
  file.first_bytes = {};
  if (!parsed) return parsed.error().in(printable_path(path));
  if (!opened.budget) opened.budget.emplace(options.reading.strictness);
  opened.budget->add_file(file.bytes);
  if (!opened.budget->take(parsed->entries)) {
    return fault{errc::header_too_large, printable_path(path), opened.budget->cause()};
  }
  file_info info = {std::move(path), file.bytes, std::string(parsed->format), parsed->header_bytes};
  opened.contents.push_back({std::move(info), std::move(parsed->entries), {}});
  opened.files.push_back(std::move(file));
  return {};
}

// Finds the positions of the tensors in the data files of a torch.distributed.checkpoint (DCP).
result<void> locate_items(file_content& content, std::span<const source_file> external_files,
                          const source_options& options) {
  std::deque<file_input> inputs;
  std::vector<input*> pointers;
  for (const source_file& file : external_files) pointers.push_back(&inputs.emplace_back(file));
  auto located = locate_dcp_tensors(content.entries, pointers, options.reading.strictness);
  if (!located) return located.error().in(printable_path(content.info.path));
  return {};
}

// Opens the external data files of the last file in `opened`. `name` is the name of this file in
// the folder.
result<void> add_external_files(opened_files& opened, const source_folder& folder,
                                const std::string& name, const source_options& options) {
  file_content& content = opened.contents.back();
  for (const std::string& external_path : content.entries.external_files) {
    const std::string inside = (fs::path(name).parent_path() / external_path).native();
    std::string path = folder.path_of(inside);
    auto file = folder.open_file(inside);
    if (!file) {
      return file.error().in(printable_path(content.info.path) + ": " + printable_path(path));
    }
    read_header_with(options.headers, *file);
    content.external_files.push_back({std::move(path), file->bytes, content.info.format});
    opened.external_files.push_back(std::move(*file));
  }
  if (content.info.format != dcp_format) return {};
  return locate_items(content, std::span(opened.external_files).last(content.external_files.size()),
                      options);
}

// Opens the folder that contains the user's path. If the path is a symlink, opens the folder that
// contains the symlink, because the related files are next to the symlink.
result<model_folder> folder_around(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return model_folder::open(parent.empty() ? "." : parent.native());
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
  if (!options.independent_files) {
    if (auto problem = check_gguf_split(opened.contents)) return *problem;
  }
  auto assembled_source = assemble_all(std::move(opened.contents));
  return assemble_source(std::move(opened), std::move(assembled_source));
}

// Returns the extension of the shards. For example, pytorch_model.bin.index.json lists .bin files.
// If the name has no such extension before ".index.json", the index lists .safetensors files.
std::string suffix_of_shards(const std::string& index_path) {
  constexpr std::string_view index_suffix = ".index.json";
  const fs::path shard = index_path.substr(0, index_path.size() - index_suffix.size());
  const std::string suffix = shard.extension().native();
  return is_checkpoint_file(suffix) ? suffix : ".safetensors";
}

// Returns a fault that names the index and one tensor of the missing shard.
fault missing_shard(const fault& cause, const shard_index& index, std::uint32_t shard,
                    const std::string& index_path) {
  const auto tensor =
      std::ranges::find(index.tensors, shard, &std::pair<std::string, std::uint32_t>::second);
  std::string place = printable_path(index_path);
  if (tensor != index.tensors.end()) place += ": " + tensor_place(tensor->first);
  return {errc::incomplete_series, std::move(place),
          "the shard '" + printable(index.shards[shard]) + "' is missing: " + cause.cause()};
}

result<parsed_source> from_independent_files(const source_folder& folder,
                                             const source_options& options) {
  auto names = list_independent_files(folder);
  if (!names) return names.error().in(printable_path(folder.shown()));
  return from_files(folder, *names, options);
}

bool is_folder(const unique_fd& fd) noexcept {
  struct stat status = {};
  return ::fstat(fd.get(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

result<parsed_source> assemble_source(opened_files opened,
                                      result<merged_catalog> assembled_source) {
  if (!assembled_source) return assembled_source.error();
  std::ranges::move(opened.external_files, std::back_inserter(opened.files));
  return parsed_source{std::move(assembled_source->catalog), std::move(assembled_source->stored),
                       std::move(assembled_source->digests), std::move(opened.files)};
}

result<void> add_named_file(opened_files& opened, source_file file, const std::string& path,
                            const source_options& options) {
  auto added = add_file(opened, std::move(file), path, options);
  if (!added || opened.contents.back().entries.external_files.empty()) return added;
  auto folder = folder_around(path);
  if (!folder) return folder.error().in(printable_path(path));
  return add_external_files(opened, *folder, fs::path(path).filename().native(), options);
}

result<void> add_part(opened_files& opened, const source_folder& folder, source_file file,
                      const std::string& name, const source_options& options) {
  auto added = add_file(opened, std::move(file), folder.path_of(name), options);
  if (added) added = add_external_files(opened, folder, name, options);
  return added;
}

result<parsed_source> parse_series_file(source_file file, const std::string& path,
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
  if (auto problem = check_gguf_split(opened.contents)) return *problem;
  auto assembled_source = assemble_all(std::move(opened.contents));
  return assemble_source(std::move(opened), std::move(assembled_source));
}

result<parsed_source> parse_index(const source_folder& folder, source_file index_file,
                                  const std::string& index_path, const source_options& options,
                                  const std::string& sub_folder) {
  auto text = read_index_text(index_file);
  if (!text) return text.error().in(printable_path(index_path));
  auto index = parse_shard_index(*text, suffix_of_shards(index_path));
  if (!index) return index.error().in(printable_path(index_path));
  for (std::string& shard : index->shards) shard = (fs::path(sub_folder) / shard).native();

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
  if (index->delta) {
    auto described = describe_indexed_delta(opened.contents, *index);
    if (!described) {
      const fault& failure = described.error();
      return failure.where() == "metadata" ? failure.in(printable_path(index_path)) : failure;
    }
    // The index is also a file of the catalog, because a delta without changes has no other file.
    opened.contents.push_back(
        {{index_path, index_file.bytes, "delta index", text->size()}, {}, {}});
    opened.files.push_back(std::move(index_file));
  }
  auto assembled_source = assemble_listed(std::move(opened.contents), *index);
  if (assembled_source && index->delta) {
    assembled_source->catalog.metadata = metadata_of(*index->delta);
  }
  return assemble_source(std::move(opened), std::move(assembled_source));
}

result<std::vector<std::string>> list_independent_files(const source_folder& folder) {
  auto names = folder.names_beneath();
  return names ? choose_independent_files(std::move(*names)) : names;
}

fault folder_expected(const std::string& path) {
  return {system_code(ENOTDIR), printable_path(path),
          "expected a folder of independent files, not a single file"};
}

result<parsed_source> parse_folder(const source_folder& folder, const source_options& options) {
  if (options.independent_files) return from_independent_files(folder, options);
  auto names = folder.names();
  if (!names) return names.error().in(printable_path(folder.shown()));
  auto chosen = choose_checkpoint(*names);
  if (!chosen) return chosen.error().in(printable_path(folder.shown()));
  if (chosen->index.empty()) return from_files(folder, chosen->files, options);

  const std::string path = folder.path_of(chosen->index);
  auto index_file = folder.open_file(chosen->index);
  if (!index_file) return index_file.error().in(printable_path(path));
  return parse_index(folder, std::move(*index_file), path, options);
}

result<parsed_source> parse_folder_file(const source_folder& folder, const std::string& name,
                                        const source_options& options) {
  const fs::path path(name);
  if (options.independent_files) return folder_expected(folder.path_of(name));
  if (name.ends_with(".index.json")) {
    auto file = folder.open_file(name);
    if (!file) return file.error().in(printable_path(folder.path_of(name)));
    return parse_index(folder, std::move(*file), folder.path_of(name), options,
                       path.parent_path().native());
  }
  std::vector<std::string> series = gguf_series(path.filename().native());
  if (series.size() <= 1) return from_files(folder, {name}, options);
  for (std::string& file_name : series) file_name = (path.parent_path() / file_name).native();
  return from_files(folder, series, options);
}

result<parsed_source> parse_path(unique_fd fd, const std::string& path,
                                 const source_options& options) {
  if (is_folder(fd)) {
    auto folder = model_folder::open(path);
    if (!folder) return folder.error().in(printable_path(path));
    return parse_folder(*folder, options);
  }
  auto file = as_regular_file(std::move(fd));
  if (!file) return file.error().in(printable_path(path));
  if (options.independent_files) return folder_expected(path);
  if (!path.ends_with(".index.json")) return parse_series_file(std::move(*file), path, options);

  auto folder = folder_around(path);
  if (!folder) return folder.error().in(printable_path(path));
  return parse_index(*folder, std::move(*file), path, options);
}

}  // namespace ringload::inline v0
