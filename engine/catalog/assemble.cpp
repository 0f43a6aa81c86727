// SPDX-License-Identifier: Apache-2.0
#include "catalog/assemble.hpp"

#include <algorithm>
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

// Takes the tensors of many files one by one, and puts them in the catalog's order at the end.
class collector {
 public:
  explicit collector(const std::vector<file_content>& files);

  void add(std::uint32_t file, entry&& tensor) {
    found_.push_back(catalog_entry_of(std::move(tensor), numbers_[file]));
  }
  void add_note(std::string note) { result_.catalog.notes.push_back(std::move(note)); }
  assembled finish();

 private:
  void add_composites(std::uint32_t file, const file_entries& from);

  assembled result_;
  std::vector<catalog_entry> found_;
  // By file: the catalog's numbers of the file itself and of those beside it.
  std::vector<std::vector<std::uint32_t>> numbers_;
};

// The files' paths, notes, metadata and composites; the tensors are the caller's.
collector::collector(const std::vector<file_content>& files) {
  catalog& out = result_.catalog;
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const file_content& file : files) {
    numbers_.push_back({static_cast<std::uint32_t>(out.files.size())});
    out.files.push_back(file.info);
  }
  for (std::uint32_t i = 0; i < files.size(); ++i) {
    const file_content& file = files[i];
    for (const file_info& beside : file.files_beside) {
      numbers_[i].push_back(static_cast<std::uint32_t>(out.files.size()));
      out.files.push_back(beside);
    }
    for (const std::string& note : file.entries.notes) {
      add_note(printable_path(file.info.path) + ": " + note);
    }
    for (const auto& [key, value] : file.entries.metadata) {
      if (seen.emplace(key, value.encoded()).second) out.metadata.emplace_back(key, value);
    }
    add_composites(i, file.entries);
    for (const unreadable_object& object : file.entries.unreadable) {
      out.unreadable.push_back({object.name, i, object.cause.code,
                                printable_path(file.info.path) + ": " + object.cause.where,
                                message_of(object.cause), object.is_left_out});
    }
  }
}

void collector::add_composites(std::uint32_t file, const file_entries& from) {
  for (const composite& composite : from.composites) {
    result_.catalog.composites.push_back({composite.name, composite.layout, composite.type,
                                          composite.shape, composite.parts, file,
                                          composite.attributes, composite.separator});
  }
}

assembled collector::finish() {
  std::vector<std::uint32_t> order(found_.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  std::ranges::sort(order, {}, [&](std::uint32_t i) {
    return std::tuple(found_[i].info.file, found_[i].info.offset, i);
  });
  result_.catalog.tensors.reserve(found_.size());
  result_.stored.reserve(found_.size());
  if (std::ranges::any_of(found_, [](const catalog_entry& e) { return e.digest != nullptr; })) {
    result_.digests.reserve(found_.size());
    for (const std::uint32_t i : order) result_.digests.push_back(std::move(found_[i].digest));
  }
  for (const std::uint32_t i : order) {
    result_.catalog.tensors.push_back(std::move(found_[i].info));
    result_.stored.push_back(std::move(found_[i].stored));
  }
  return std::move(result_);
}

// A parser knows the bytes of its own file only.
std::optional<fault> check_extents_beside(const std::vector<file_content>& files) {
  for (const file_content& file : files) {
    if (file.files_beside.empty()) continue;
    for (const entry& tensor : file.entries.tensors) {
      if (tensor.stored == nullptr) continue;
      for (const piece& part : tensor.stored->pieces) {
        const stored_stream& stored = part.stored;
        if (stored.file == 0) continue;
        const file_info& in = file.files_beside[stored.file - 1];
        if (stored.offset <= in.bytes && stored.bytes <= in.bytes - stored.offset) continue;
        return fault{errc::extent_outside_file,
                     printable_path(file.info.path) + ": " + tensor_place(tensor.name),
                     "its " + grouped(stored.bytes) + " bytes would begin at byte " +
                         grouped(stored.offset) + " of " + printable_path(in.path) +
                         ", which ends at " + grouped(in.bytes)};
      }
    }
  }
  return std::nullopt;
}

std::optional<fault> check_names_once(const catalog& contents) {
  std::vector<std::uint32_t> order(contents.tensors.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  const auto name = [&](std::uint32_t i) -> const std::string& { return contents.tensors[i].name; };
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    const int compared = name(a).compare(name(b));
    return compared != 0 ? compared < 0 : a < b;
  });
  const auto twice = std::ranges::adjacent_find(order, {}, name);
  if (twice == order.end()) return std::nullopt;
  const auto path = [&](std::uint32_t i) {
    return printable_path(contents.files[contents.tensors[i].file].path);
  };
  return fault{
      errc::duplicate_tensor, path(*twice) + ": " + tensor_place(name(*twice)),
      "it is also in " + path(*std::next(twice)) + ", and a name may stand in one file only"};
}

std::optional<fault> check_all_found(const catalog& contents, const shard_index& index,
                                     const std::vector<bool>& found) {
  const auto lacking = std::ranges::find(found, false);
  if (lacking == found.end()) return std::nullopt;
  const auto& [name, shard] = index.tensors[static_cast<std::size_t>(lacking - found.begin())];
  return fault{errc::missing_tensor,
               printable_path(contents.files[shard].path) + ": " + tensor_place(name),
               "the index lists it for this shard, but it is not there"};
}

// As PyTorch's shard indices count: tensors that are the same bytes, as tied weights are, once.
std::uint64_t bytes_once(const catalog& contents) {
  using place = std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>;
  std::set<place> seen;
  std::uint64_t sum = 0;
  for (const tensor_info& tensor : contents.tensors) {
    if (seen.emplace(tensor.file, tensor.offset, tensor.bytes).second) sum += tensor.bytes;
  }
  return sum;
}

std::string total_note(std::uint64_t stated, std::uint64_t held) {
  return "the index gives a total_size of " + grouped(stated) + " bytes, but its tensors have " +
         grouped(held);
}

}  // namespace

result<assembled> assemble_all(std::vector<file_content> files) {
  if (auto problem = check_extents_beside(files)) return *problem;
  collector found(files);
  for (std::uint32_t file = 0; file < files.size(); ++file) {
    for (entry& tensor : files[file].entries.tensors) found.add(file, std::move(tensor));
  }
  assembled complete = found.finish();
  if (files.size() > 1) {
    if (auto problem = check_names_once(complete.catalog)) return *problem;
  }
  return complete;
}

result<assembled> assemble_listed(std::vector<file_content> files, const shard_index& index) {
  if (auto problem = check_extents_beside(files)) return *problem;
  collector taken(files);
  std::vector<bool> found(index.tensors.size());
  std::uint64_t unlisted = 0;
  std::string first_unlisted;
  for (std::uint32_t file = 0; file < files.size(); ++file) {
    for (entry& tensor : files[file].entries.tensors) {
      const auto listed =
          std::ranges::lower_bound(index.tensors, tensor.name, {}, &listed_tensor::first);
      if (listed != index.tensors.end() && listed->first == tensor.name && listed->second == file) {
        found[static_cast<std::size_t>(listed - index.tensors.begin())] = true;
        taken.add(file, std::move(tensor));
      } else if (unlisted++ == 0) {
        first_unlisted =
            "'" + printable(tensor.name) + "' of " + printable_path(files[file].info.path);
      }
    }
  }
  if (unlisted != 0) {
    taken.add_note(
        "tensors that the index does not list for the shard they are in, and that "
        "are not loaded: " +
        grouped(unlisted) + ", the first is " + first_unlisted);
  }
  assembled complete = taken.finish();
  if (auto problem = check_all_found(complete.catalog, index, found)) return *problem;
  const std::uint64_t held = complete.catalog.size_bytes();
  if (index.total_bytes && *index.total_bytes != held &&
      *index.total_bytes != bytes_once(complete.catalog)) {
    complete.catalog.notes.push_back(total_note(*index.total_bytes, held));
  }
  return complete;
}

}  // namespace ringload::inline v0
