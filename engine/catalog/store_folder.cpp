// SPDX-License-Identifier: Apache-2.0

#include "catalog/store_folder.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>

#include "base/catch_as_fault.hpp"
#include "base/printable.hpp"

namespace ringload::inline v0 {

namespace {

// File offsets of the system have the same limit.
constexpr std::uint64_t object_bytes_max = std::numeric_limits<std::int64_t>::max();

// Returns false if the name could leave the folder. Names may come from an index of an unknown
// author, so a name may contain "..".
bool stays_inside(std::string_view name) noexcept {
  for (std::size_t begin = 0;;) {
    const std::size_t end = name.find('/', begin);
    const std::string_view part = name.substr(begin, end == name.npos ? end : end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    if (end == name.npos) return name.find('\0') == name.npos;
    begin = end + 1;
  }
}

}  // namespace

result<source_file> store_folder::open_file(const std::string& name) const {
  if (!stays_inside(name)) {
    return fault{errc::path_outside_source, "",
                 "'" + printable(name) + "' is not the name of a file in this folder"};
  }
  auto opened = catch_as_fault([&]() -> result<source_file> {
    source_file out;
    out.object = folder_->open(name, stop_);
    if (!out.object) return fault{errc::source_not_found, "", "the store has no such object"};
    out.bytes = out.object->bytes();
    if (out.bytes > object_bytes_max) {
      return fault{errc::size_overflow, "",
                   "the store reports an object of " + grouped(out.bytes) +
                       " bytes, the limit is " + grouped(object_bytes_max)};
    }
    out.stop = stop_;
    return out;
  });
  if (stop_.stop_requested()) return fault{system_code(ECANCELED), ""};
  return opened;
}

result<std::vector<std::string>> store_folder::names() const {
  auto found = sorted(&byte_folder::names);
  if (!found) return found;
  // The store may list the files of sub-folders. Their names become the names of the sub-folders.
  for (std::string& name : *found) name.erase(std::min(name.find('/'), name.size()));
  std::ranges::sort(*found);
  const auto duplicates = std::ranges::unique(*found);
  found->erase(duplicates.begin(), duplicates.end());
  return found;
}

result<std::vector<std::string>> store_folder::names_beneath() const {
  return sorted(&byte_folder::names_beneath);
}

result<std::vector<std::string>> store_folder::sorted(listing list) const {
  auto found = catch_as_fault(
      [&]() -> result<std::vector<std::string>> { return ((*folder_).*list)(stop_); });
  if (stop_.stop_requested()) return fault{system_code(ECANCELED), ""};
  if (!found) return found.error();
  if (found->size() > folder_names_max) {
    return fault{errc::not_a_checkpoint, "",
                 "the folder has more than " + grouped(folder_names_max) + " files"};
  }
  std::ranges::sort(*found);
  return found;
}

void store_folder::expect(std::span<const std::string> names) const {
  // If a name leaves the folder, open_file() reports the name later.
  if (!std::ranges::all_of(names, stays_inside)) return;
  (void)catch_as_fault([&]() -> result<void> {
    folder_->expect(names, stop_);
    return {};
  });
}

byte_store* store_of(std::string_view source, const source_options& options) noexcept {
  for (const extension& candidate : options.extensions) {
    if (candidate.store() && candidate.store()->has_name(source)) return candidate.store().get();
  }
  return nullptr;
}

result<byte_store*> store_for_writing(std::string_view name,
                                      std::span<const extension> extensions) {
  if (name.find("://") == name.npos) return nullptr;
  for (const extension& candidate : extensions) {
    if (candidate.store() && candidate.store()->has_name(name)) return candidate.store().get();
  }
  return fault{errc::unsupported_feature, "",
               "no extension accepts this name; the extension remote() writes s3:// and gs://"};
}

result<found_source> find_in(byte_store& store, std::string_view source,
                             const std::stop_token& stop) {
  auto found_in_store = catch_as_fault([&]() -> result<found_source> {
    found_source found = store.find(source, stop);
    if (!found.folder && found.local_path.empty())
      return fault{errc::source_not_found, "", "the store has no object or folder of this name"};
    return found;
  });
  if (stop.stop_requested()) return fault{system_code(ECANCELED), ""};
  return found_in_store;
}

}  // namespace ringload::inline v0
