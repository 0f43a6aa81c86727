// SPDX-License-Identifier: Apache-2.0

#include "formats/hdf5.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <tuple>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "formats/hdf5_dataset.hpp"
#include "formats/text/json_text.hpp"
#include "formats/text/malformed.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::size_t reason_bytes_max = 200;

result<void> check_name(const std::string& name) {
  if (utf8_valid_bytes(name) == name.size() && name.size() <= hdf5_name_bytes_max) return {};
  return fault{errc::malformed_header, tensor_place(name),
               "its name is longer than " + grouped(hdf5_name_bytes_max) + " bytes or not UTF-8"};
}

std::string json_of(const hdf5_attribute& attribute) {
  std::string out;
  const auto append_all = [&](const auto& values, auto&& append) {
    bool first = true;
    for (const auto& value : values) {
      if (!std::exchange(first, false)) out += ", ";
      append(out, value);
    }
  };
  if (attribute.is_list) out += '[';
  switch (attribute.value_kind) {
    case hdf5_attribute::kind::texts:
      append_all(attribute.texts, [](auto& to, const auto& v) { append_json_string(to, v); });
      break;
    case hdf5_attribute::kind::floats:
      append_all(attribute.floats, [](auto& to, double v) { append_json_number(to, v); });
      break;
    case hdf5_attribute::kind::integers:
      append_all(attribute.integers, [](auto& to, std::int64_t v) { append_json_number(to, v); });
      break;
    case hdf5_attribute::kind::naturals:
      append_all(attribute.naturals, [](auto& to, std::uint64_t v) { append_json_number(to, v); });
      break;
  }
  if (attribute.is_list) out += ']';
  return out;
}

attributes::value_type metadata_of(const hdf5_attribute& from) {
  const bool one_text =
      !from.is_list && from.value_kind == hdf5_attribute::kind::texts && from.texts.size() == 1;
  return {as_utf8(from.name),
          one_text ? attribute(as_utf8(from.texts.front())) : attribute::json(json_of(from))};
}

std::string left_out_note(std::uint64_t count, std::string_view kind, const hdf5_left_out& first) {
  return grouped(count) + " " + std::string(kind) + " are left out, the first is '" +
         printable(first.name) + "' (" + printable(first.reason, reason_bytes_max) + ")";
}

result<void> add_left_out(const std::vector<hdf5_left_out>& objects, strictness strictness,
                          file_entries& entries) {
  for (const bool numbers : {true, false}) {
    const auto first = std::ranges::find(objects, numbers, &hdf5_left_out::numbers);
    if (first == objects.end()) continue;
    if (numbers && strictness == strictness::strict) {
      return fault{errc::unsupported_feature, tensor_place(first->name),
                   printable(first->reason, reason_bytes_max)};
    }
    const auto count = std::ranges::count(objects, numbers, &hdf5_left_out::numbers);
    entries.notes.push_back(left_out_note(
        static_cast<std::uint64_t>(count),
        numbers ? "tensors that cannot be read" : "objects that are not tensors", *first));
  }
  return {};
}

result<void> check_unique_names(std::vector<std::string_view> names) {
  std::ranges::sort(names);
  const auto duplicate = std::ranges::adjacent_find(names);
  if (duplicate == names.end()) return {};
  return fault{errc::duplicate_tensor, tensor_place(*duplicate),
               "two paths of the file have this name after '/' is replaced by a dot"};
}

}  // namespace

result<file_entries> parse_hdf5(hdf5_contents contents, std::uint64_t file_bytes,
                                strictness strictness) {
  file_entries out;
  std::uint64_t decoded = 0;
  for (hdf5_dataset& dataset : contents.datasets) {
    if (dataset.names.empty()) return malformed("a dataset has no name");
    std::vector<std::string> names = std::move(dataset.names);
    for (const std::string& name : names) {
      if (auto status = check_name(name); !status) return status.error();
    }
    hdf5_dataset_parser work(std::move(dataset), file_bytes);
    auto tensor = work.parse();
    if (!tensor) return tensor.error().in(tensor_place(names.front()));
    decoded = checked_add(decoded, work.decoded_bytes()).value_or(~std::uint64_t{0});
    for (std::string& name : names) {
      out.tensors.push_back(*tensor);
      out.tensors.back().name = std::move(name);
    }
    if (out.tensors.size() > hdf5_names_max) return malformed("the file has too many datasets");
  }
  if (decoded > hdf5_bytes_usual && decoded / hdf5_ratio_max > file_bytes) {
    return fault{errc::header_too_large, "byte 0",
                 "the datasets would decode to " + grouped(decoded) + " bytes, more than " +
                     grouped(hdf5_ratio_max) + " times the file's " + grouped(file_bytes)};
  }
  std::vector<std::string_view> names;
  for (const entry& tensor : out.tensors) names.push_back(tensor.name);
  if (auto status = check_unique_names(std::move(names)); !status) return status.error();
  if (auto status = add_left_out(contents.left_out, strictness, out); !status)
    return status.error();
  std::ranges::sort(out.tensors, {}, [](const entry& e) { return std::tie(e.offset, e.name); });
  for (const hdf5_attribute& attribute : contents.attributes) {
    out.metadata.push_back(metadata_of(attribute));
  };
  if (contents.attributes_left_out > 0) {
    out.notes.push_back(
        grouped(contents.attributes_left_out) +
        " attributes are left out, because they are neither texts nor a few numbers, have several "
        "dimensions, or exceed the limits for attributes");
  }
  return out;
}

}  // namespace ringload::inline v0
