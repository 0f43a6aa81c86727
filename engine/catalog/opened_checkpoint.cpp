// SPDX-License-Identifier: Apache-2.0

#include "catalog/opened_checkpoint.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "base/printable.hpp"
#include "catalog/resolve_source.hpp"
#include "io/block_device_id.hpp"

namespace ringload::inline v0::detail {

namespace {

result<void> check_unchanged_status(const struct ::stat& now, const open_file& file) {
  const auto bytes = static_cast<std::uint64_t>(now.st_size);
  if (bytes != file.bytes) {
    return fault{bytes < file.bytes ? errc::truncated_file : errc::changed_file,
                 printable_path(file.path),
                 "the file had " + grouped(file.bytes) + " bytes when it was opened, but now has " +
                     grouped(bytes)};
  }
  if (now.st_mtim.tv_sec != file.modified.tv_sec || now.st_mtim.tv_nsec != file.modified.tv_nsec) {
    return fault{errc::changed_file, printable_path(file.path), {}};
  }
  return {};
}

result<std::string> identity_of(const byte_source& object, const std::string& path) {
  auto identity = catch_as_fault([&]() -> result<std::string> { return object.identity(); });
  if (!identity && identity.error().where().empty())
    return identity.error().in(printable_path(path));
  return identity;
}

result<void> check_unchanged(const open_file& file) {
  if (file.supply) return {};
  if (file.object) {
    const auto identity = identity_of(*file.object, file.path);
    if (!identity) return identity.error();
    if (*identity == file.identity) return {};
    return fault{errc::changed_file, printable_path(file.path), {}};
  }
  struct ::stat now = {};
  if (::fstat(file.buffered.get(), &now) != 0)
    return fault{system_code(errno), printable_path(file.path)};
  return check_unchanged_status(now, file);
}

result<open_file> open_for_reading(source_file opened, const file_info& info, read_route route,
                                   direct_files& direct) {
  open_file file;
  file.path = info.path;
  file.bytes = info.bytes;
  if (opened.object) {
    if (route == read_route::direct) file.direct_refusal = "it is not a file of a file system";
    auto identity = identity_of(*opened.object, info.path);
    if (!identity) return identity.error();
    file.identity = std::move(*identity);
    file.object = std::move(opened.object);
    file.drive = open_file::of_store;
    return file;
  }
  unique_fd& buffered = opened.fd;
  struct ::stat status = {};
  if (::fstat(buffered.get(), &status) != 0)
    return fault{system_code(errno), printable_path(info.path)};
  file.modified = opened.modified;
  file.drive = block_device_id(status.st_dev);
  file.is_distant = opened.is_distant;
  // The catalog was read after the file was opened. If the file has changed since the opening, the
  // catalog may describe other bytes.
  if (auto unchanged = check_unchanged_status(status, file); !unchanged) return unchanged.error();

  if (route != read_route::buffered) {
    auto second = direct.open(buffered.get(), info.path, info.bytes, direct_files::access::read,
                              {opened.direct ? opened.headers : header_reads(),
                               std::move(opened.direct), opened.was_read_direct});
    if (!second) return second.error().in(printable_path(info.path));
    file.direct_refusal = second->refusal;
    file.direct_address_alignment = second->address_alignment;
    file.direct = std::move(second->fd);
  }
  file.buffered = std::move(buffered);
  return file;
}

result<parsed_source> find_source(const source_name& source, const open_options& options,
                                  const checkpoint_services& services) {
  read_options reading = options.strictness;
  reading.nameless = options.nameless;
  source_options source_reading(reading, services.extensions, services.stop);
  source_reading.headers = services.headers;
  if (const auto* list = std::get_if<path_list>(&source))
    return open_files(list->paths, source_reading);
  if (const auto* found = std::get_if<found_source>(&source)) {
    source_reading.independent_files = options.independent_files;
    return open_found(*found, source_reading);
  }
  source_reading.independent_files = options.independent_files;
  return resolve_source(std::get<std::string>(source), source_reading);
}

catalog catalog_of_source(const source_name& source, const open_options& options,
                          std::span<const extension> extensions) {
  auto parsed = catch_as_fault([&] { return find_source(source, options, {extensions, {}}); });
  if (!parsed) throw to_error(parsed.error());
  return std::move(parsed->catalog);
}

}  // namespace

std::string shown(const source_name& source) {
  if (const auto* name = std::get_if<std::string>(&source)) return *name;
  if (const auto* found = std::get_if<found_source>(&source)) {
    return found->folder ? found->folder->path_of(found->file) : found->local_path;
  }
  const auto& paths = std::get<path_list>(source).paths;
  if (paths.empty()) return "";
  if (paths.size() == 1) return paths.front();
  return paths.front() + " and " + grouped(paths.size() - 1) + " more";
}

result<std::shared_ptr<const opened_checkpoint>> open_checkpoint(
    const source_name& source, const open_options& options, read_route route, direct_files& direct,
    const checkpoint_services& services) {
  auto parsed = find_source(source, options, services);
  if (!parsed) return parsed.error();
  auto checkpoint = std::make_shared<opened_checkpoint>();
  checkpoint->name = shown(source);
  for (std::size_t i = 0; i < parsed->files.size(); ++i) {
    auto file =
        open_for_reading(std::move(parsed->files[i]), parsed->catalog.files[i], route, direct);
    if (!file) return file.error();
    checkpoint->files.push_back(std::move(*file));
  }
  checkpoint->stored = std::move(parsed->stored);
  checkpoint->digests = std::move(parsed->digests);
  checkpoint->named = std::make_shared<const named_catalog>(std::move(parsed->catalog));
  return std::shared_ptr<const opened_checkpoint>(std::move(checkpoint));
}

// Checks all files even after a fault, because the check of a store's object can also complete the
// verification of its digest. Returns the first fault.
result<void> check_unchanged(const opened_checkpoint& checkpoint) {
  result<void> out;
  for (const open_file& file : checkpoint.files) {
    auto unchanged = check_unchanged(file);
    if (out && !unchanged) out = std::move(unchanged);
  }
  return out;
}

std::uint64_t count_unverified(const opened_checkpoint& checkpoint) noexcept {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(checkpoint.files, [](const open_file& file) {
        return file.object != nullptr && file.object->has_unverified_bytes();
      }));
}

}  // namespace ringload::inline v0::detail

namespace ringload::inline v0 {

catalog read_catalog(const source& checkpoint_source, const open_options& options,
                     const std::vector<extension>& extensions) {
  const detail::source_parts& parts = checkpoint_source.parts();
  if (parts.opened) return parts.opened.catalog();
  return detail::catalog_of_source(parts.name, options, extensions);
}

}  // namespace ringload::inline v0
