// SPDX-License-Identifier: Apache-2.0

#include "catalog/folder_choice.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "base/printable.hpp"
#include "catalog/series_number.hpp"
#include "catalog/version_name.hpp"
#include "formats/pytorch/dcp.hpp"

namespace ringload::inline v0 {

namespace {

// A kind of tensor files. `model_stem` is the usual name of a model file on the hub, without the
// suffix. `model_stem` is empty if the hub has no usual name for this kind.
struct file_kind {
  std::string_view suffix;
  std::string_view model_stem;
};

constexpr std::array<file_kind, 11> file_kinds = {{
    {".safetensors", "model"},
    {".bin", "pytorch_model"},
    {".gguf", {}},
    {".pt", {}},
    {".pth", {}},
    {".zt", {}},
    {".npz", {}},
    {".npy", {}},
    {".onnx", {}},
    {".h5", {}},
    {".hdf5", {}},
}};

constexpr std::string_view shard_index_suffix = ".index.json";  // Follows the suffix of the shards.
constexpr std::size_t shown_max = 4;  // Maximum number of names in a message.

// The name of a file of a series, and its parts. Example: "model.fp16-00001-of-00002.safetensors"
// has the stem "model.fp16", the number 1 and the total 2.
struct series_file {
  std::string_view stem;
  std::uint32_t total = 0;
  std::uint32_t number = 0;
  std::string_view name;
  std::string_view suffix;

  bool same_series(const series_file& second) const {
    return stem == second.stem && total == second.total;
  }
  auto operator<=>(const series_file&) const = default;
};

// Removes a number such as "00002", and the text `before` in front of the number, from the end of
// `text`. Returns the number.
std::optional<std::uint32_t> take_number(std::string_view& text, std::string_view before) {
  if (text.size() < before.size() + series_number_digits) return std::nullopt;
  std::uint32_t value = 0;
  for (const char c : text.substr(text.size() - series_number_digits)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<std::uint32_t>(c - '0');
  }
  const std::string_view head = text.substr(0, text.size() - series_number_digits);
  if (!head.ends_with(before)) return std::nullopt;
  text = head.substr(0, head.size() - before.size());
  return value;
}

std::optional<series_file> as_series_file(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return std::nullopt;
  series_file out;
  out.name = name;
  out.suffix = suffix;
  out.stem = name.substr(0, name.size() - suffix.size());
  const auto total = take_number(out.stem, "-of-");
  const auto number = total ? take_number(out.stem, "-") : std::nullopt;
  if (!number) return std::nullopt;
  out.total = *total;
  out.number = *number;
  return out;
}

std::string file_name(const series_file& series, std::uint32_t number) {
  return std::string(series.stem) + "-" + series_number(number) + "-of-" +
         series_number(series.total) + std::string(series.suffix);
}

template <class Names>
std::string listed(const Names& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i == shown_max) return out + " and " + grouped(names.size() - shown_max) + " more";
    if (i != 0) out += ", ";
    out += "'" + printable(names[i]) + "'";
  }
  return out;
}

template <class Names>
fault ambiguous(const Names& candidates) {
  return {errc::ambiguous_source, "",
          "the folder has several checkpoints, name one of them: " + listed(candidates)};
}

// `files` must be sorted by stem, total and number.
result<folder_choice> whole_series(const std::vector<series_file>& files) {
  const series_file& first = files.front();
  for (const series_file& file : files) {
    if (!file.same_series(first)) {
      return ambiguous(std::vector<std::string_view>{first.name, file.name});
    }
  }
  folder_choice chosen;
  std::uint32_t expected = 1;
  for (const series_file& file : files) {
    if (file.number == 0 || file.number > file.total) {
      return fault{errc::ambiguous_source, "",
                   "'" + printable(file.name) + "' has a number outside its series of " +
                       std::to_string(file.total)};
    }
    if (file.number != expected) break;
    ++expected;
    chosen.files.emplace_back(file.name);
  }
  if (expected > first.total) return chosen;
  return fault{errc::incomplete_series, "",
               "'" + printable(file_name(first, expected)) + "' is missing"};
}

struct sorted_names {
  std::vector<std::string_view> indexes;
  std::vector<std::string_view> files;  // Files that belong to no series.
  std::vector<series_file> series;

  bool empty() const { return indexes.empty() && files.empty() && series.empty(); }
  std::string_view first() const {
    return !indexes.empty() ? indexes.front()
           : !files.empty() ? files.front()
                            : series.front().name;
  }
};

sorted_names sort_out(const std::vector<std::string>& names, std::string_view suffix) {
  const std::string suffix_of_index = std::string(suffix) + std::string(shard_index_suffix);
  sorted_names out;
  for (const std::string& name : names) {
    if (name.ends_with(suffix_of_index)) {
      out.indexes.push_back(name);
    } else if (const auto part = as_series_file(name, suffix)) {
      out.series.push_back(*part);
    } else if (name.ends_with(suffix)) {
      out.files.push_back(name);
    }
  }
  std::ranges::sort(out.indexes);
  std::ranges::sort(out.files);
  std::ranges::sort(out.series);
  return out;
}

folder_choice the_index(std::string_view name) { return {std::string(name), {}}; }
folder_choice the_file(std::string_view name) { return {{}, {std::string(name)}}; }

// Returns the files that have the usual name of a model on the hub. Returns an empty optional if
// the folder has no file with the usual name.
std::optional<result<folder_choice>> choose_model(const sorted_names& sorted,
                                                  const file_kind& kind) {
  if (kind.model_stem.empty()) return std::nullopt;
  const std::string file = std::string(kind.model_stem) + std::string(kind.suffix);
  const std::string index = file + std::string(shard_index_suffix);
  if (std::ranges::find(sorted.indexes, index) != sorted.indexes.end()) return the_index(index);
  if (std::ranges::find(sorted.files, file) != sorted.files.end()) return the_file(file);
  const auto is_model = [&](const series_file& part) { return part.stem == kind.model_stem; };
  const auto series = std::ranges::find_if(sorted.series, is_model);
  if (series == sorted.series.end()) return std::nullopt;
  // The user may mean a variant of the same model, such as `model.fp16.safetensors`.
  for (const std::string_view variant : sorted.files) {
    if (!variant.starts_with(std::string(kind.model_stem) + ".")) continue;
    return ambiguous(std::vector<std::string_view>{series->name, variant});
  }
  return whole_series(sorted.series);
}

result<folder_choice> choose_only(const sorted_names& sorted) {
  if (sorted.indexes.size() == 1) return the_index(sorted.indexes.front());
  if (sorted.indexes.size() > 1) return ambiguous(sorted.indexes);
  if (!sorted.series.empty() && !sorted.files.empty()) {
    return ambiguous(
        std::vector<std::string_view>{sorted.files.front(), sorted.series.front().name});
  }
  if (!sorted.series.empty()) return whole_series(sorted.series);
  if (sorted.files.size() == 1) return the_file(sorted.files.front());
  return ambiguous(sorted.files);
}

}  // namespace

result<folder_choice> choose_checkpoint(const std::vector<std::string>& names) {
  // In a version folder, often only the oldest version is complete and the other versions are
  // deltas, so no file is chosen.
  for (const std::string& name : names) {
    if (!version_named(name, delta_ending)) continue;
    return fault{errc::ambiguous_source, "",
                 "this is a version folder, with '" + printable(name) +
                     "': load a version of it, or name the file of a full version"};
  }
  std::vector<sorted_names> groups;
  for (const file_kind& kind : file_kinds) {
    sorted_names sorted = sort_out(names, kind.suffix);
    if (sorted.empty()) continue;
    if (auto model = choose_model(sorted, kind)) return *model;
    // Folders with safetensors files often have the same tensors in other formats. The other
    // formats are ignored.
    if (&kind == &file_kinds.front()) return choose_only(sorted);
    groups.push_back(std::move(sorted));
  }
  const bool is_dcp =
      std::ranges::find(names, dcp_metadata_name) != names.end() &&
      std::ranges::any_of(names, [](const std::string& n) { return n.ends_with(dcp_item_suffix); });
  if (is_dcp && groups.empty()) return the_file(dcp_metadata_name);
  if (is_dcp) {
    return ambiguous(std::vector<std::string_view>{dcp_metadata_name, groups.front().first()});
  }
  if (groups.size() == 1) return choose_only(groups.front());
  if (groups.size() > 1) {
    std::vector<std::string_view> candidates;
    for (const sorted_names& group : groups) candidates.push_back(group.first());
    return ambiguous(candidates);
  }
  return fault{errc::not_a_checkpoint, "",
               names.empty() ? "the folder is empty"
                             : "the folder has no tensor file, only " + listed(names)};
}

result<std::vector<std::string>> choose_independent_files(std::vector<std::string> names) {
  const auto is_hidden = [](std::string_view name) {
    const std::size_t file = name.rfind('/');
    return file != name.npos && (name.starts_with('.') || name.find("/.") < file);
  };
  std::erase_if(
      names, [&](const std::string& name) { return !is_checkpoint_file(name) || is_hidden(name); });
  if (!names.empty()) return names;
  return fault{errc::not_a_checkpoint, "",
               "no file in the folder has the extension of a tensor file"};
}

bool is_checkpoint_file(std::string_view name) noexcept {
  return std::ranges::any_of(file_kinds,
                             [&](const file_kind& kind) { return name.ends_with(kind.suffix); });
}

}  // namespace ringload::inline v0
