// SPDX-License-Identifier: Apache-2.0

// ringload ls: lists the tensors of a checkpoint, as they would be loaded.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <ringload/catalog.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "json.hpp"
#include "open_request.hpp"
#include "size.hpp"
#include "text.hpp"

namespace ringload::tool {

namespace {

// The maximum width of the column of names, because a few very long names must not move all other
// columns.
constexpr std::size_t name_columns_max = 72;

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

struct row {
  std::string name;
  std::string dtype;
  std::string shape;
  std::string bytes;
  std::string_view file;
};

// Returns the length of the path of the folder that contains all files. The table omits this path.
std::size_t shared_folder(const std::vector<file_info>& files) {
  if (files.empty()) return 0;
  std::string_view shared = files.front().path;
  for (const file_info& file : files) {
    const auto differs =
        std::mismatch(shared.begin(), shared.end(), file.path.begin(), file.path.end());
    shared = shared.substr(0, static_cast<std::size_t>(differs.first - shared.begin()));
  }
  const std::size_t slash = shared.rfind('/');
  return slash == std::string_view::npos ? 0 : slash + 1;
}

void write_padded(output& out, std::string_view text, std::size_t width, bool to_the_right) {
  const std::size_t taken = columns(text);
  const std::string padding(width > taken ? width - taken : 0, ' ');
  out.write(to_the_right ? padding + std::string(text) : std::string(text) + padding);
}

void write_table(const std::vector<row>& rows, output& out) {
  std::size_t name = 0;
  std::size_t dtype = 0;
  std::size_t shape = 0;
  std::size_t bytes = 0;
  for (const row& r : rows) {
    name = std::max(name, std::min(columns(r.name), name_columns_max));
    dtype = std::max(dtype, columns(r.dtype));
    shape = std::max(shape, r.shape.size());
    bytes = std::max(bytes, r.bytes.size());
  }
  for (const row& r : rows) {
    write_padded(out, r.name, name + 2, false);
    write_padded(out, r.dtype, dtype + 2, false);
    write_padded(out, r.shape, shape, false);
    write_padded(out, r.bytes, bytes + 2, true);
    out.write("  ");
    out.write(r.file);
    out.write("\n");
  }
}

void write_text(const catalog& found, output& out) {
  const std::size_t shared = shared_folder(found.files);
  std::vector<std::string> files;
  for (const file_info& file : found.files) files.push_back(printable(file.path.substr(shared)));

  std::vector<row> rows = {{"NAME", "DTYPE", "SHAPE", "BYTES", "FILE"}};
  for (const tensor_info& tensor : found.tensors) {
    // Shows the type of a quantisation block instead of the dtype of its stored bytes.
    const bool typed = !tensor.original_shape.empty();
    rows.push_back({printable(tensor.name),
                    typed ? printable(tensor.type) : std::string(name(tensor.dtype)),
                    shape_text(typed ? tensor.original_shape : tensor.shape), grouped(tensor.bytes),
                    files[tensor.file]});
  }
  write_table(rows, out);

  std::uint64_t file_bytes = 0;
  for (const file_info& file : found.files) file_bytes += file.bytes;
  out.write(fmt::format("{} of {} in {} of {}\n", counted(found.tensors.size(), "tensor"),
                        both_sizes(found.size_bytes()), counted(found.files.size(), "file"),
                        counted(file_bytes, "byte")));
  std::vector<std::string_view> formats;
  for (const file_info& file : found.files) {
    if (std::ranges::find(formats, file.format) == formats.end()) formats.push_back(file.format);
  }
  out.write(fmt::format("format: {}\n", fmt::join(formats, ", ")));
  for (const composite_info& one : found.composites) {
    out.write(fmt::format("composite: {}: {} {} of {}\n", printable(one.name),
                          printable(one.layout), shape_text(one.shape),
                          printable(fmt::format("{}", fmt::join(one.parts, ", ")))));
  }
  for (const auto& [key, value] : found.metadata) {
    out.write(fmt::format("metadata: {}: {}\n", printable(key), printable(value.text())));
  }
  for (const std::string& note : found.notes) out.write("note: " + printable(note) + "\n");
}

void append_value(std::string& to, const attribute& value) {
  if (value.is_text()) return append_json(to, value.text());
  to += value.text();
}

// If the files have different values for a key, the JSON value is a list in the order of the files.
void write_metadata(const catalog& found, std::string& to) {
  std::vector<std::pair<std::string_view, std::vector<const attribute*>>> values;
  std::unordered_map<std::string_view, std::size_t> index_of;
  for (const auto& [key, value] : found.metadata) {
    if (index_of.emplace(key, values.size()).second) values.push_back({key, {}});
    values[index_of[key]].second.push_back(&value);
  }
  json_object metadata(to);
  for (const auto& [key, of_key] : values) {
    std::string& out = metadata.key_of_next(key);
    if (of_key.size() == 1) {
      append_value(out, *of_key.front());
      continue;
    }
    for (std::size_t i = 0; i < of_key.size(); ++i) {
      out += i == 0 ? "[" : ", ";
      append_value(out, *of_key[i]);
    }
    out += ']';
  }
  metadata.close();
}

void write_attributes(const attributes& all, json_object& to, std::string& text) {
  if (all.empty()) return;
  to.key_of_next("attributes");
  json_object out(text);
  for (const auto& [key, value] : all) append_value(out.key_of_next(key), value);
  out.close();
}

// Writes a tensor as JSON. Omits properties that are empty.
void write_tensor(const catalog& found, const tensor_info& tensor, std::string& to) {
  json_object out(to);
  out.field("name", tensor.name)
      .field("dtype", name(tensor.dtype))
      .list("shape", tensor.shape)
      .field("bytes", tensor.bytes)
      .field("file", found.files[tensor.file].path)
      .field("offset", tensor.offset);
  if (!tensor.encoding.empty()) {
    out.field("encoding", tensor.encoding).field("stored_bytes", tensor.stored_bytes);
  }
  if (!tensor.type.empty()) out.field("type", tensor.type);
  if (!tensor.original_shape.empty()) out.list("original_shape", tensor.original_shape);
  if (!tensor.digest.empty()) out.field("digest", tensor.digest);
  write_attributes(tensor.attributes, out, to);
  out.close();
}

void write_composite(const catalog& found, const composite_info& composite, std::string& to) {
  json_object out(to);
  out.field("name", composite.name)
      .field("layout", composite.layout)
      .list("shape", composite.shape)
      .list("parts", composite.parts)
      .field("file", found.files[composite.file].path);
  if (!composite.type.empty()) out.field("type", composite.type);
  write_attributes(composite.attributes, out, to);
  out.close();
}

// Writes a JSON list with one element on each line.
template <class List, class Write>
void write_lines(const List& list, const Write& write, std::string& text, output& out) {
  text += "[";
  const char* before = "\n";
  for (const auto& each : list) {
    text += before;
    write(each, text);
    before = ",\n";
    out.write(text);
    text.clear();
  }
  text += "\n]";
}

// Writes one tensor on each line, for grep and awk.
void write_json(const catalog& found, output& out) {
  std::vector<std::string_view> paths;
  std::vector<std::string_view> formats;
  for (const file_info& file : found.files) {
    paths.push_back(file.path);
    formats.push_back(file.format);
  }
  std::string text;
  json_object top(text, ",\n");
  top.field("schema_version", schema_version).list("files", paths).list("format", formats);
  write_metadata(found, top.key_of_next("metadata"));
  top.list("notes", found.notes);
  const auto tensor = [&](const tensor_info& each, std::string& to) {
    write_tensor(found, each, to);
  };
  write_lines(found.tensors, tensor, top.key_of_next("tensors"), out);
  if (!found.composites.empty()) {
    const auto composite = [&](const composite_info& each, std::string& to) {
      write_composite(found, each, to);
    };
    write_lines(found.composites, composite, top.key_of_next("composites"), out);
  }
  top.close();
  out.write(text + "\n");
}

}  // namespace

void list_catalog(const ls_request& request, output& out) {
  catalog found = catalog_of(request.from);
  const selection_text& wanted = request.from.wanted;
  if (!wanted.everything()) found = ringload::chosen(found, selection_of(wanted, found));
  if (request.json) {
    write_json(found, out);
  } else {
    write_text(found, out);
  }
  out.flush();
}

}  // namespace ringload::tool
