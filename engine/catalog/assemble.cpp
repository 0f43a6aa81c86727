// SPDX-License-Identifier: Apache-2.0

#include "catalog/assemble.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "catalog/catalog_entry.hpp"

namespace ringload::inline v0 {

namespace {

using listed_tensor = std::pair<std::string, std::uint32_t>;

// Keeps the first of several pairs with the same key and the same value. Sorts indices instead of
// building a set of the pairs, because the set would need as much memory as the pairs.
void drop_equal_pairs(attributes& pairs) {
  std::vector<std::uint32_t> order(pairs.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  std::ranges::sort(order, {}, [&](std::uint32_t i) {
    return std::tuple(std::string_view(pairs[i].first), std::string_view(pairs[i].second.encoded()),
                      i);
  });
  std::vector<bool> is_dropped(pairs.size());
  for (std::size_t i = 1; i < order.size(); ++i) {
    is_dropped[order[i]] = pairs[order[i]] == pairs[order[i - 1]];
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (is_dropped[i]) continue;
    if (kept != i) pairs[kept] = std::move(pairs[i]);
    ++kept;
  }
  pairs.resize(kept);
}

// Collects the tensors of all files. finish() sorts the tensors by file and offset.
class collector {
 public:
  explicit collector(std::vector<file_content>& files);

  void add(std::uint32_t file, entry&& tensor) {
    entries_.push_back(catalog_entry_of(std::move(tensor), numbers_[file]));
  }
  void add_note(std::string note) { result_.catalog.notes.push_back(std::move(note)); }
  merged_catalog finish();

 private:
  void add_metadata(std::vector<file_content>& files);
  void add_composites(std::uint32_t file, file_entries& entries);

  merged_catalog result_;
  std::vector<catalog_entry> entries_;
  // Indexed by file: the numbers of the file and of its external data files in the catalog.
  std::vector<std::vector<std::uint32_t>> numbers_;
};

// Takes the notes, metadata, composites and unreadable objects out of `files`, and copies the
// descriptions of the files (`file_info`). The caller adds the tensors.
collector::collector(std::vector<file_content>& files) {
  catalog& out = result_.catalog;
  std::size_t tensors = 0;
  for (const file_content& file : files) {
    tensors += file.entries.tensors.size();
    numbers_.push_back({static_cast<std::uint32_t>(out.files.size())});
    out.files.push_back(file.info);
  }
  for (std::uint32_t i = 0; i < files.size(); ++i) {
    file_content& file = files[i];
    for (const file_info& external_file : file.external_files) {
      numbers_[i].push_back(static_cast<std::uint32_t>(out.files.size()));
      out.files.push_back(external_file);
    }
    for (const std::string& note : file.entries.notes) {
      add_note(printable_path(file.info.path) + ": " + note);
    }
    add_composites(i, file.entries);
    for (unreadable_object& object : file.entries.unreadable) {
      const fault& cause = object.cause;
      out.unreadable.push_back({std::move(object.name), i, cause.code,
                                printable_path(file.info.path) + ": " + cause.where(),
                                cause.cause().empty() ? cause.code.message() : cause.cause(),
                                object.is_left_out});
    }
    file.entries.unreadable = {};
    file.entries.notes = {};
  }
  add_metadata(files);
  entries_.reserve(tensors);
}

void collector::add_metadata(std::vector<file_content>& files) {
  attributes& out = result_.catalog.metadata;
  for (file_content& file : files) {
    attributes pairs = std::exchange(file.entries.metadata, {});
    if (out.empty()) {
      out = std::move(pairs);
    } else {
      std::ranges::move(pairs, std::back_inserter(out));
    }
  }
  drop_equal_pairs(out);
}

void collector::add_composites(std::uint32_t file, file_entries& entries) {
  for (composite& composite : entries.composites) {
    result_.catalog.composites.push_back(
        {std::move(composite.name), std::move(composite.layout), std::move(composite.type),
         std::move(composite.shape), std::move(composite.parts), file,
         std::move(composite.attributes), std::move(composite.separator)});
  }
  entries.composites = {};
}

merged_catalog collector::finish() {
  std::vector<std::uint32_t> order(entries_.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  std::ranges::sort(order, {}, [&](std::uint32_t i) {
    return std::tuple(entries_[i].info.file, entries_[i].info.offset, i);
  });
  result_.catalog.tensors.reserve(entries_.size());
  result_.stored.reserve(entries_.size());
  if (std::ranges::any_of(entries_, [](const catalog_entry& e) { return e.digest != nullptr; })) {
    result_.digests.reserve(entries_.size());
    for (const std::uint32_t i : order) result_.digests.push_back(std::move(entries_[i].digest));
  }
  for (const std::uint32_t i : order) {
    result_.catalog.tensors.push_back(std::move(entries_[i].info));
    result_.stored.push_back(std::move(entries_[i].stored));
  }
  return std::move(result_);
}

// Checks that all extents in external data files end within their file. The parsers check only
// extents in the parsed file.
std::optional<fault> check_external_extents(const std::vector<file_content>& files) {
  for (const file_content& file : files) {
    if (file.external_files.empty()) continue;
    for (const entry& tensor : file.entries.tensors) {
      if (tensor.stored == nullptr) continue;
      for (const piece& part : tensor.stored->pieces) {
        const stored_stream& stored = part.stored;
        if (stored.file == 0) continue;
        const file_info& external_file = file.external_files[stored.file - 1];
        if (stored.offset <= external_file.bytes &&
            stored.bytes <= external_file.bytes - stored.offset)
          continue;
        return fault{errc::extent_outside_file,
                     printable_path(file.info.path) + ": " + tensor_place(tensor.name),
                     "its " + grouped(stored.bytes) + " bytes at byte " + grouped(stored.offset) +
                         " are outside of " + printable_path(external_file.path) + ", which has " +
                         grouped(external_file.bytes) + " bytes"};
      }
    }
  }
  return std::nullopt;
}

std::optional<fault> check_unique_names(const catalog& contents) {
  std::vector<std::uint32_t> order(contents.tensors.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  const auto name = [&](std::uint32_t i) -> const std::string& { return contents.tensors[i].name; };
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    const int compared = name(a).compare(name(b));
    return compared != 0 ? compared < 0 : a < b;
  });
  const auto duplicate = std::ranges::adjacent_find(order, {}, name);
  if (duplicate == order.end()) return std::nullopt;
  const auto path = [&](std::uint32_t i) {
    return printable_path(contents.files[contents.tensors[i].file].path);
  };
  return fault{errc::duplicate_tensor, path(*duplicate) + ": " + tensor_place(name(*duplicate)),
               "the tensor is also in " + path(*std::next(duplicate)) +
                   ", but a name may occur in only one file"};
}

std::optional<fault> check_all_found(const catalog& contents, const shard_index& index,
                                     const std::vector<bool>& is_present) {
  const auto missing = std::ranges::find(is_present, false);
  if (missing == is_present.end()) return std::nullopt;
  const auto& [name, shard] = index.tensors[static_cast<std::size_t>(missing - is_present.begin())];
  return fault{errc::missing_tensor,
               printable_path(contents.files[shard].path) + ": " + tensor_place(name),
               "the index lists the tensor for this shard, but the shard lacks it"};
}

// Returns the size of all tensors. Counts the bytes of tied weights (tensors that share the same
// bytes) once, as the shard indices of PyTorch do.
std::uint64_t distinct_bytes(const catalog& contents) {
  using place = std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>;
  std::set<place> seen;
  std::uint64_t sum = 0;
  for (const tensor_info& tensor : contents.tensors) {
    if (seen.emplace(tensor.file, tensor.offset, tensor.bytes).second) sum += tensor.bytes;
  }
  return sum;
}

std::string total_note(std::uint64_t stated, std::uint64_t tensor_bytes) {
  return "the index gives a total_size of " + grouped(stated) + " bytes, but its tensors have " +
         grouped(tensor_bytes);
}

}  // namespace

result<merged_catalog> assemble_all(std::vector<file_content> files) {
  if (auto problem = check_external_extents(files)) return *problem;
  collector collected(files);
  for (std::uint32_t file = 0; file < files.size(); ++file) {
    for (entry& tensor : std::exchange(files[file].entries.tensors, {})) {
      collected.add(file, std::move(tensor));
    }
  }
  merged_catalog complete = collected.finish();
  if (files.size() > 1) {
    if (auto problem = check_unique_names(complete.catalog)) return *problem;
  }
  return complete;
}

// Marks the tensors of unreadable objects as present, so that these tensors are not reported as
// missing. `objects` are the unreadable objects of `shard`. A tensor of the index belongs to the
// object "x" if the index states this shard and the name of the tensor is "x" or begins with "x/".
// Removes objects without a tensor in the index.
void match_unreadable(std::vector<unreadable_object>& objects, std::uint32_t shard,
                      const shard_index& index, std::vector<bool>& is_present) {
  std::erase_if(objects, [&](const unreadable_object& object) {
    bool is_listed = false;
    const auto mark = [&](const std::string& prefix, bool is_whole_name) {
      auto listed = std::ranges::lower_bound(index.tensors, prefix, {}, &listed_tensor::first);
      for (; listed != index.tensors.end() && listed->first.starts_with(prefix); ++listed) {
        if (is_whole_name && listed->first != prefix) break;
        if (listed->second != shard) continue;
        is_present[static_cast<std::size_t>(listed - index.tensors.begin())] = true;
        is_listed = true;
      }
    };
    mark(object.name, true);
    mark(object.name + "/", false);
    return !is_listed;
  });
}

result<merged_catalog> assemble_listed(std::vector<file_content> files, const shard_index& index) {
  if (auto problem = check_external_extents(files)) return *problem;
  std::vector<bool> is_present(index.tensors.size());
  for (std::uint32_t file = 0; file < files.size(); ++file) {
    match_unreadable(files[file].entries.unreadable, file, index, is_present);
  }
  collector collected(files);
  std::uint64_t unlisted = 0;
  std::string first_unlisted;
  for (std::uint32_t file = 0; file < files.size(); ++file) {
    for (entry& tensor : std::exchange(files[file].entries.tensors, {})) {
      const auto listed =
          std::ranges::lower_bound(index.tensors, tensor.name, {}, &listed_tensor::first);
      if (listed != index.tensors.end() && listed->first == tensor.name && listed->second == file) {
        is_present[static_cast<std::size_t>(listed - index.tensors.begin())] = true;
        collected.add(file, std::move(tensor));
      } else if (unlisted++ == 0) {
        first_unlisted =
            "'" + printable(tensor.name) + "' of " + printable_path(files[file].info.path);
      }
    }
  }
  if (unlisted != 0) {
    collected.add_note(
        grouped(unlisted) +
        " tensors are not loaded, because the index does not list them for their shard; the "
        "first is " +
        first_unlisted);
  }
  merged_catalog complete = collected.finish();
  if (auto problem = check_all_found(complete.catalog, index, is_present)) return *problem;
  const std::uint64_t tensor_bytes = complete.catalog.size_bytes();
  if (index.total_bytes && *index.total_bytes != tensor_bytes &&
      *index.total_bytes != distinct_bytes(complete.catalog)) {
    complete.catalog.notes.push_back(total_note(*index.total_bytes, tensor_bytes));
  }
  return complete;
}

}  // namespace ringload::inline v0
