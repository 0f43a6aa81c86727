// SPDX-License-Identifier: Apache-2.0
#include "convert.hpp"

#include <algorithm>
#include <cctype>

#include "attributes.hpp"

namespace ringload::python {

namespace {

nb::list list_of(const std::vector<std::string>& texts) {
  nb::list all;
  for (const std::string& text : texts) all.append(str_of(text));
  return all;
}

nb::str str_of(read_engine engine) {
  return python::str_of(std::string_view(engine == read_engine::ring ? "ring" : "threads"));
}

}  // namespace

std::string name_of(dtype type) {
  if (type == dtype::boolean) return "bool";
  std::string text(ringload::name(type));
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

dtype dtype_of(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (const auto found = dtype_named(upper)) return *found;
  throw usage_error("there is no dtype '" + std::string(name) + "'");
}

nb::tuple tuple_of(std::span<const std::uint64_t> shape) {
  nb::object made = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  if (!made.is_valid()) throw nb::python_error();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    nb::object size = nb::int_(shape[i]);
    PyTuple_SetItem(made.ptr(), static_cast<Py_ssize_t>(i), size.release().ptr());
  }
  return nb::borrow<nb::tuple>(made);
}

nb::str str_of(std::string_view text) {
  PyObject* const decoded =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
  if (decoded == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(decoded);
}

std::optional<std::string> name_from(nb::handle value) {
  if (!nb::isinstance<nb::str>(value)) return {};
  PyObject* const encoded = PyUnicode_AsEncodedString(value.ptr(), "utf-8", "surrogateescape");
  if (encoded == nullptr) {
    PyErr_Clear();
    return {};
  }
  const auto bytes = nb::steal<nb::bytes>(encoded);
  return std::string(bytes.c_str(), bytes.size());
}

std::string shown(nb::handle value) {
  const nb::object type_name = nb::handle(value.type()).attr("__name__");
  std::string text = nb::repr(value).c_str();
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return std::string(nb::str(type_name).c_str()) + " " + text;
}

std::string text_from(nb::handle value, const std::string& argument) {
  if (!nb::isinstance<nb::str>(value)) {
    throw nb::type_error((argument + " must be a str, not " + shown(value)).c_str());
  }
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  if (text == nullptr) {
    PyErr_Clear();
    throw usage_error(argument + " must be UTF-8 text, not " + nb::repr(value).c_str());
  }
  return {text, static_cast<std::size_t>(size)};
}

nb::dict dict_of(const load_stats& stats) {
  nb::dict all;
  all["bytes"] = stats.bytes;
  all["bytes_total"] = stats.bytes_total;
  all["bytes_arrived"] = stats.bytes_arrived();
  all["tensors"] = stats.tensors;
  all["tensors_total"] = stats.tensors_total;
  all["bytes_direct"] = stats.bytes_direct;
  all["bytes_buffered"] = stats.bytes_buffered;
  all["bytes_unstaged"] = stats.bytes_unstaged;
  all["bytes_gpu_direct"] = stats.bytes_gpu_direct;
  all["bytes_mapped"] = stats.bytes_mapped;
  all["bytes_remote"] = stats.bytes_remote;
  all["bytes_verified"] = stats.bytes_verified;
  all["files_unverified"] = stats.files_unverified;
  all["reads"] = stats.reads;
  all["short_reads"] = stats.short_reads;
  all["retries"] = stats.retries;
  all["second_reads"] = stats.second_reads;
  all["second_reads_won"] = stats.second_reads_won;
  all["requests"] = stats.requests;
  all["requests_repeated"] = stats.requests_repeated;
  all["seconds"] = stats.seconds;
  all["seconds_to_first_tensor"] = stats.seconds_to_first_tensor;
  all["seconds_to_first_byte"] = stats.seconds_to_first_byte;
  all["seconds_opening"] = stats.seconds_opening;
  all["seconds_device_wait"] = stats.seconds_device_wait;
  all["header_bytes"] = stats.header_bytes;
  all["memory_kept"] = stats.memory_kept;
  all["engine"] = str_of(stats.engine);
  all["engine_reason"] = str_of(stats.engine_reason);
  all["route_reason"] = str_of(stats.route_reason);
  all["gpu_direct_reason"] = str_of(stats.gpu_direct_reason);
  all["threads"] = stats.threads;
  all["pinned_bytes_peak"] = stats.pinned_bytes_peak;
  all["bytes_in_flight"] = stats.bytes_in_flight;
  return all;
}

nb::list list_of(const std::vector<file_stats>& stats, const catalog& of) {
  nb::list all;
  for (std::size_t i = 0; i < stats.size(); ++i) {
    nb::dict one;
    one["path"] = str_of(of.files[i].path);
    one["nbytes"] = of.files[i].bytes;
    one["header_bytes"] = of.files[i].header_bytes;
    one["bytes_read"] = stats[i].bytes_read;
    one["seconds_to_first_read"] = stats[i].seconds_to_first_read;
    one["seconds_reading"] = stats[i].seconds_reading;
    one["seconds_device_wait"] = stats[i].seconds_device_wait;
    one["bytes_per_second"] = stats[i].bytes_per_second();
    all.append(one);
  }
  return all;
}

nb::dict dict_of(const tensor_info& info) {
  nb::dict all;
  all["name"] = str_of(info.name);
  all["dtype"] = str_of(name_of(info.dtype));
  all["shape"] = tuple_of(info.shape);
  all["file"] = info.file;
  all["offset"] = info.offset;
  all["nbytes"] = info.bytes;
  all["encoding"] = str_of(info.encoding);
  all["stored_bytes"] = info.stored_bytes;
  all["type"] = str_of(info.type);
  all["original_shape"] = tuple_of(info.original_shape);
  all["digest"] = str_of(info.digest);
  all["attributes"] = dict_of(info.attributes);
  return all;
}

nb::dict dict_of(const composite_info& info) {
  nb::dict all;
  all["name"] = str_of(info.name);
  all["layout"] = str_of(info.layout);
  all["type"] = str_of(info.type);
  all["shape"] = tuple_of(info.shape);
  all["parts"] = list_of(info.parts);
  all["separator"] = str_of(info.separator);
  all["file"] = info.file;
  all["attributes"] = dict_of(info.attributes);
  return all;
}

nb::dict dict_of(const save_result& done) {
  nb::dict all;
  all["files"] = list_of(done.files);
  all["nbytes"] = done.bytes;
  all["bytes_direct"] = done.bytes_direct;
  all["bytes_unstaged"] = done.bytes_unstaged;
  all["writes"] = done.writes;
  all["seconds"] = done.seconds;
  all["route_reason"] = str_of(done.route_reason);
  nb::dict digests;
  for (const tensor_digest& one : done.digests) {
    std::string line = checksum_line(one);
    line.pop_back();
    digests[str_of(one.name)] = str_of(line);
  }
  all["digests"] = digests;
  return all;
}

nb::dict dict_of(const delta_result& result) {
  nb::dict fields;
  fields["nbytes"] = result.bytes;
  fields["tensors_unchanged"] = result.tensors_unchanged;
  fields["tensors_sparse"] = result.tensors_sparse;
  fields["tensors_dense"] = result.tensors_dense;
  fields["tensors_whole"] = result.tensors_whole;
  fields["tensors_removed"] = result.tensors_removed;
  fields["elements"] = result.elements;
  fields["elements_changed"] = result.elements_changed;
  fields["seconds"] = result.seconds;
  return fields;
}

nb::dict dict_of(const update_result& result) {
  nb::dict fields;
  fields["tensors_changed"] = result.tensors_changed;
  fields["bytes_changed"] = result.bytes_changed;
  fields["elements_changed"] = result.elements_changed;
  fields["seconds"] = result.seconds;
  return fields;
}

}  // namespace ringload::python
