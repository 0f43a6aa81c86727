// SPDX-License-Identifier: Apache-2.0

#include "catalog/gguf_split.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/parse_number.hpp"
#include "base/printable.hpp"
#include "catalog/series_number.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::string_view gguf_suffix = ".gguf";

std::optional<std::uint64_t> value_of(const file_content& file, std::string_view key) {
  const auto found = std::ranges::find(file.entries.metadata, key, &attributes::value_type::first);
  return found == file.entries.metadata.end() ? std::nullopt
                                              : parse_number<std::uint64_t>(found->second.text());
}

fault fault_in(const file_content& file, errc code, std::string cause) {
  return {code, printable_path(file.info.path), std::move(cause)};
}

struct series_name {
  std::string_view stem;
  std::uint64_t number;
  std::uint64_t count;
};

// Parses the name of a file of a series, such as "x-00002-of-00003.gguf".
std::optional<series_name> parse_series_name(std::string_view name) {
  constexpr std::string_view separator = "-of-";
  constexpr std::size_t digits = series_number_digits;
  constexpr std::size_t tail_bytes = 1 + digits + separator.size() + digits;
  if (!name.ends_with(gguf_suffix)) return std::nullopt;
  name.remove_suffix(gguf_suffix.size());
  if (name.size() <= tail_bytes) return std::nullopt;
  const std::string_view tail = name.substr(name.size() - tail_bytes);
  const auto number = parse_number<std::uint64_t>(tail.substr(1, digits));
  const auto count = parse_number<std::uint64_t>(tail.substr(tail_bytes - digits));
  if (tail.front() != '-' || tail.substr(1 + digits, separator.size()) != separator || !number ||
      !count) {
    return std::nullopt;
  }
  return series_name{name.substr(0, name.size() - tail_bytes), *number, *count};
}

// A user may name one file of a series, by its number, to load only this file. If the name has no
// number, the user may not know that the file is only a part of a model.
std::optional<fault> check_single_file(const file_content& file) {
  const auto count = value_of(file, "split.count");
  if (file.info.format != "gguf" || count.value_or(1) <= 1 || parse_series_name(file.info.path))
    return std::nullopt;
  return fault_in(file, errc::incomplete_series,
                  "split.count is " + grouped(*count) +
                      ", so this file is a part of a model: its name must end with "
                      "-00001-of-0000N.gguf, as the names of the other parts");
}

}  // namespace

std::vector<std::string> gguf_series(std::string_view name) {
  const auto first = parse_series_name(name);
  if (!first || first->number != 1) return {};
  const std::string end = "-of-" + series_number(first->count) + std::string(gguf_suffix);
  std::vector<std::string> out;
  for (std::uint64_t i = 1; i <= first->count; ++i)
    out.push_back(std::string(first->stem) + "-" + series_number(i) + end);
  return out;
}

std::optional<fault> check_gguf_split(std::span<const file_content> files) {
  if (files.size() == 1) return check_single_file(files.front());
  std::uint64_t tensors = 0;
  for (const file_content& file : files) tensors += file.entries.tensors.size();
  for (std::size_t i = 0; i < files.size(); ++i) {
    const file_content& file = files[i];
    const auto count = value_of(file, "split.count");
    if (file.info.format != "gguf" || !count) continue;
    if (*count != files.size()) {
      return fault_in(file, errc::incomplete_series,
                      "split.count is " + grouped(*count) + ", but there are " +
                          grouped(files.size()) + " files");
    }
    if (const auto place = value_of(file, "split.no"); place.value_or(i) != i) {
      return fault_in(file, errc::incomplete_series,
                      "split.no gives this file the number " + grouped(*place + 1) +
                          ", but its name has the number " + grouped(i + 1));
    }
  }
  for (const file_content& file : files) {
    if (file.info.format != "gguf") continue;
    if (const auto stated = value_of(file, "split.tensors.count");
        stated.value_or(tensors) != tensors) {
      return fault_in(file, errc::missing_tensor,
                      "split.tensors.count is " + grouped(*stated) + ", but the files have " +
                          grouped(tensors) + " tensors");
    }
  }
  return std::nullopt;
}

}  // namespace ringload::inline v0
