// SPDX-License-Identifier: Apache-2.0
#include "source/folder_choice.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "formats/printable.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::string_view model_stem = "model";
constexpr std::string_view file_suffix = ".safetensors";
constexpr std::string_view index_suffix = ".safetensors.index.json";
constexpr std::size_t number_digits = 5;
constexpr std::size_t shown_max = 4;  // How many names a message lists.

// "model.fp16-00001-of-00002.safetensors": stem "model.fp16", number 1, total 2.
struct series_file {
  std::string_view stem;
  std::uint32_t total = 0;
  std::uint32_t number = 0;
  std::string_view name;

  bool same_series(const series_file& other) const {
    return stem == other.stem && total == other.total;
  }
  auto operator<=>(const series_file&) const = default;
};

// Takes "-00002" or "-of-00002" from the end of `text`.
std::optional<std::uint32_t> take_number(std::string_view& text, std::string_view before) {
  if (text.size() < before.size() + number_digits) return std::nullopt;
  std::uint32_t value = 0;
  for (const char c : text.substr(text.size() - number_digits)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<std::uint32_t>(c - '0');
  }
  const std::string_view rest = text.substr(0, text.size() - number_digits);
  if (!rest.ends_with(before)) return std::nullopt;
  text = rest.substr(0, rest.size() - before.size());
  return value;
}

std::optional<series_file> as_series_file(std::string_view name) {
  if (!name.ends_with(file_suffix)) return std::nullopt;
  series_file out;
  out.name = name;
  out.stem = name.substr(0, name.size() - file_suffix.size());
  const auto total = take_number(out.stem, "-of-");
  const auto number = total ? take_number(out.stem, "-") : std::nullopt;
  if (!number) return std::nullopt;
  out.total = *total;
  out.number = *number;
  return out;
}

std::string file_name(const series_file& of, std::uint32_t number) {
  const auto digits = [](std::uint32_t value) {
    const std::string text = std::to_string(value);
    return std::string(number_digits - text.size(), '0') + text;
  };
  return std::string(of.stem) + "-" + digits(number) + "-of-" + digits(of.total) +
         std::string(file_suffix);
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
          "more than one file could be meant here, name one of them: " + listed(candidates)};
}

// `files` is sorted: by stem, then total, then number.
result<folder_choice> whole_series(const std::vector<series_file>& files) {
  const series_file& first = files.front();
  for (const series_file& each : files) {
    if (!each.same_series(first)) {
      return ambiguous(std::vector<std::string_view>{first.name, each.name});
    }
  }
  folder_choice chosen;
  std::uint32_t expected = 1;
  for (const series_file& each : files) {
    if (each.number == 0 || each.number > each.total) {
      return fault{
          errc::ambiguous_source, "",
          "'" + printable(each.name) + "' is no part of a series of " + std::to_string(each.total)};
    }
    if (each.number != expected) break;
    ++expected;
    chosen.files.emplace_back(each.name);
  }
  if (expected > first.total) return chosen;
  return fault{errc::incomplete_series, "",
               "'" + printable(file_name(first, expected)) + "' is missing"};
}

struct sorted_names {
  std::vector<std::string_view> indexes;
  std::vector<std::string_view> files;  // Those that are in no series.
  std::vector<series_file> series;
};

sorted_names sort_out(const std::vector<std::string>& names) {
  sorted_names out;
  for (const std::string& name : names) {
    if (name.ends_with(index_suffix)) {
      out.indexes.push_back(name);
    } else if (const auto part = as_series_file(name)) {
      out.series.push_back(*part);
    } else if (name.ends_with(file_suffix)) {
      out.files.push_back(name);
    }
  }
  std::ranges::sort(out.indexes);
  std::ranges::sort(out.files);
  std::ranges::sort(out.series);
  return out;
}

template <class Names>
bool holds(const Names& names, std::string_view stem, std::string_view suffix) {
  return std::ranges::find(names, std::string(stem) + std::string(suffix)) != names.end();
}

}  // namespace

result<folder_choice> choose_checkpoint(const std::vector<std::string>& names) {
  const sorted_names found = sort_out(names);
  const auto index = [](std::string_view name) { return folder_choice{std::string(name), {}}; };
  const auto file = [](std::string_view name) { return folder_choice{{}, {std::string(name)}}; };

  if (holds(found.indexes, model_stem, index_suffix)) {
    return index(std::string(model_stem) + std::string(index_suffix));
  }
  if (holds(found.files, model_stem, file_suffix)) {
    return file(std::string(model_stem) + std::string(file_suffix));
  }
  const auto is_model = [](const series_file& each) { return each.stem == model_stem; };
  if (std::ranges::any_of(found.series, is_model)) {
    // A variant of the same model, such as `model.fp16.safetensors`, could be meant as well.
    for (const std::string_view each : found.files) {
      if (!each.starts_with(std::string(model_stem) + ".")) continue;
      return ambiguous(std::vector<std::string_view>{found.series.front().name, each});
    }
    return whole_series(found.series);
  }
  if (found.indexes.size() == 1) return index(found.indexes.front());
  if (found.indexes.size() > 1) return ambiguous(found.indexes);
  if (!found.series.empty() && !found.files.empty()) {
    return ambiguous(std::vector<std::string_view>{found.files.front(), found.series.front().name});
  }
  if (!found.series.empty()) return whole_series(found.series);
  if (found.files.size() == 1) return file(found.files.front());
  if (found.files.size() > 1) return ambiguous(found.files);
  return fault{errc::not_a_checkpoint, "",
               names.empty() ? "the folder is empty"
                             : "the folder holds no .safetensors file, only " + listed(names)};
}

bool is_checkpoint_file(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 11> suffixes = {".safetensors", ".gguf", ".npy", ".npz",
                                                         ".pt",          ".pth",  ".bin", ".onnx",
                                                         ".h5",          ".zt",   ".hdf5"};
  return std::ranges::any_of(suffixes, [&](std::string_view each) { return name.ends_with(each); });
}

}  // namespace ringload::inline v0
