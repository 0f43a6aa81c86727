// SPDX-License-Identifier: Apache-2.0
#include "source/assemble.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "core/checked.hpp"
#include "formats/printable.hpp"

namespace ringload::inline v0 {

namespace {

using listed_tensor = std::pair<std::string, std::uint32_t>;

tensor_info info_of(entry&& from, std::uint32_t file) {
  tensor_info out;
  out.name = std::move(from.name);
  out.dtype = from.dtype;
  out.shape = std::move(from.shape);
  out.file = file;
  out.offset = from.offset;
  out.bytes = from.bytes;
  return out;
}

// The files' paths, notes and metadata; the tensors are the caller's.
catalog without_tensors(const std::vector<file_content>& files) {
  catalog out;
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const file_content& file : files) {
    out.files.push_back({file.path, file.bytes});
    for (const std::string& note : file.entries.notes) {
      out.notes.push_back(printable_path(file.path) + ": " + note);
    }
    for (const auto& [key, value] : file.entries.metadata) {
      if (seen.emplace(key, value).second) out.metadata.emplace_back(key, value);
    }
  }
  return out;
}

std::optional<fault> check_names_once(const catalog& all) {
  std::vector<std::uint32_t> order(all.tensors.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  const auto name = [&](std::uint32_t i) -> const std::string& { return all.tensors[i].name; };
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    const int compared = name(a).compare(name(b));
    return compared != 0 ? compared < 0 : a < b;
  });
  const auto twice = std::ranges::adjacent_find(order, {}, name);
  if (twice == order.end()) return std::nullopt;
  const auto path = [&](std::uint32_t i) {
    return printable_path(all.files[all.tensors[i].file].path);
  };
  return fault{
      errc::duplicate_tensor, path(*twice) + ": " + tensor_place(name(*twice)),
      "it is also in " + path(*std::next(twice)) + ", and there is no index that chooses one"};
}

std::optional<fault> check_all_found(const catalog& all, const shard_index& index,
                                     const std::vector<bool>& found) {
  const auto lacking = std::ranges::find(found, false);
  if (lacking == found.end()) return std::nullopt;
  const auto& [name, shard] = index.tensors[static_cast<std::size_t>(lacking - found.begin())];
  return fault{errc::missing_tensor,
               printable_path(all.files[shard].path) + ": " + tensor_place(name),
               "the index lists it for this shard, but it is not there"};
}

std::string total_note(std::uint64_t stated, std::uint64_t held) {
  return "the index gives a total_size of " + grouped(stated) + " bytes, but its tensors have " +
         grouped(held);
}

}  // namespace

result<catalog> assemble_all(std::vector<file_content> files) {
  catalog all = without_tensors(files);
  for (std::uint32_t file = 0; file < files.size(); ++file) {
    for (entry& each : files[file].entries.tensors) {
      all.tensors.push_back(info_of(std::move(each), file));
    }
  }
  if (files.size() > 1) {
    if (auto bad = check_names_once(all)) return *bad;
  }
  return all;
}

result<catalog> assemble_listed(std::vector<file_content> files, const shard_index& index) {
  catalog all = without_tensors(files);
  std::vector<bool> found(index.tensors.size());
  std::uint64_t unlisted = 0;
  std::string first_unlisted;
  for (std::uint32_t file = 0; file < files.size(); ++file) {
    for (entry& each : files[file].entries.tensors) {
      const auto at = std::ranges::lower_bound(index.tensors, each.name, {}, &listed_tensor::first);
      if (at != index.tensors.end() && at->first == each.name && at->second == file) {
        found[static_cast<std::size_t>(at - index.tensors.begin())] = true;
        all.tensors.push_back(info_of(std::move(each), file));
      } else if (unlisted++ == 0) {
        first_unlisted = "'" + printable(each.name) + "' of " + printable_path(files[file].path);
      }
    }
  }
  if (auto bad = check_all_found(all, index, found)) return *bad;
  if (unlisted != 0) {
    all.notes.push_back(
        "tensors that the index does not list for the shard they are in, and that "
        "are not loaded: " +
        grouped(unlisted) + ", the first is " + first_unlisted);
  }
  const std::uint64_t held = all.bytes();
  if (index.total_bytes && *index.total_bytes != held) {
    all.notes.push_back(total_note(*index.total_bytes, held));
  }
  return all;
}

}  // namespace ringload::inline v0
