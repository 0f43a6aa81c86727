// SPDX-License-Identifier: Apache-2.0

#include "formats/onnx/onnx.hpp"

#include <algorithm>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "formats/onnx/onnx_entry.hpp"
#include "formats/onnx/onnx_graph.hpp"
#include "formats/onnx/onnx_tensor.hpp"
#include "formats/text/input_cursor.hpp"

namespace ringload::inline v0 {

namespace {

// Chooses a unique name for each tensor. Initializers get their names first. Constants without a
// name are next, and get the name of their output, which is unique in a valid model. Constants with
// a name are last, because exporters use the same name ("value") for many constants. If several
// constants have the same name, the first gets this name, and each other constant gets the name of
// its output.
class namer {
 public:
  bool take(const std::string& name) { return taken_.insert(name).second; }

  std::string choose(const std::string& path, const std::string& name,
                     const std::string& fallback) {
    if (!name.empty() && take(path + name)) return path + name;
    const std::string full_name = path + (fallback.empty() ? name : fallback);
    if (take(full_name)) return full_name;
    // Only invalid models need this search. The search starts after the last number that was used.
    while (true) {
      std::string numbered = full_name + "#" + std::to_string(++last_number_);
      if (take(numbered)) return numbered;
    }
  }

 private:
  std::unordered_set<std::string> taken_;
  std::uint64_t last_number_ = 1;
};

// Builds the entries of a model, without the metadata.
class assembler {
 public:
  assembler(const onnx_model& model, input& from, file_entries& entries) noexcept
      : model_(model), from_(from), entries_(entries) {}

  result<void> assemble();

 private:
  result<void> name_initializers();
  void name_constants();
  result<void> add_tensors();
  result<void> add_sparse(const onnx_sparse& sparse);
  void add_notes();

  const onnx_model& model_;
  input& from_;
  file_entries& entries_;
  onnx_files external_files_;
  namer names_;
  std::vector<std::string> chosen_names_;  // One name for each element of model_.tensors.
  std::uint64_t string_tensors_ = 0;
  std::string first_string_tensor_;
};

result<void> assembler::name_initializers() {
  chosen_names_.resize(model_.tensors.size());
  for (std::size_t i = 0; i < model_.tensors.size(); ++i) {
    const onnx_candidate& candidate = model_.tensors[i];
    if (!candidate.initializer) continue;
    chosen_names_[i] = candidate.path + candidate.tensor.name;
    if (!names_.take(chosen_names_[i])) {
      return fault{errc::duplicate_tensor,
                   tensor_place(chosen_names_[i]) + ", byte " + grouped(candidate.tensor.file_byte),
                   "another initializer has the same name"};
    }
  }
  return {};
}

void assembler::name_constants() {
  for (const bool named : {false, true}) {
    for (std::size_t i = 0; i < model_.tensors.size(); ++i) {
      const onnx_candidate& candidate = model_.tensors[i];
      if (candidate.initializer || candidate.tensor.name.empty() == named) continue;
      chosen_names_[i] = names_.choose(candidate.path, candidate.tensor.name, candidate.fallback);
    }
  }
}

result<void> assembler::add_tensors() {
  entries_.tensors.reserve(model_.tensors.size());
  for (std::size_t i = 0; i < model_.tensors.size(); ++i) {
    const onnx_tensor& stored = model_.tensors[i].tensor;
    if (stored.data_type == onnx_string_type) {
      if (string_tensors_++ == 0) first_string_tensor_ = chosen_names_[i];
      continue;
    }
    if (utf8_valid_bytes(chosen_names_[i]) != chosen_names_[i].size()) {
      return fault{errc::header_not_utf8,
                   tensor_place(chosen_names_[i]) + ", byte " + grouped(stored.file_byte),
                   "its name is not UTF-8"};
    }
    auto tensor = entry_of(stored, from_, external_files_);
    if (!tensor) return tensor.error();
    tensor->name = std::move(chosen_names_[i]);
    entries_.tensors.push_back(std::move(*tensor));
  }
  return {};
}

result<void> assembler::add_sparse(const onnx_sparse& sparse) {
  composite sparse_tensor;
  sparse_tensor.name = names_.choose(sparse.path, sparse.values.name, sparse.fallback);
  sparse_tensor.layout = "sparse_coo";
  sparse_tensor.shape = sparse.dims;
  sparse_tensor.parts = {"values", "indices"};
  auto values = entry_of(sparse.values, from_, external_files_);
  if (!values) return values.error();
  auto indices = entry_of(sparse.indices, from_, external_files_);
  if (!indices) return indices.error();
  const fault wrong_parts = {
      errc::wrong_tensor_bytes,
      tensor_place(sparse_tensor.name) + ", byte " + grouped(sparse.file_byte),
      "a sparse tensor must have values [n] and i64 indices [n] or [n, rank]"};
  if (values->shape.size() != 1 || indices->dtype != dtype::i64) return wrong_parts;
  const std::vector<std::uint64_t>& shape = indices->shape;
  if (shape.empty() || shape.size() > 2 || shape[0] != values->shape[0]) return wrong_parts;
  if (shape.size() == 2 && shape[1] != sparse.dims.size()) return wrong_parts;
  if (utf8_valid_bytes(sparse_tensor.name) != sparse_tensor.name.size()) {
    return fault{errc::header_not_utf8, wrong_parts.where(), "its name is not UTF-8"};
  }
  values->name = sparse_tensor.name + "/values";
  indices->name = sparse_tensor.name + "/indices";
  if (!names_.take(values->name) || !names_.take(indices->name)) {
    return fault{errc::duplicate_tensor, wrong_parts.where(),
                 "one of its parts has the name of another tensor"};
  }
  entries_.tensors.push_back(std::move(*values));
  entries_.tensors.push_back(std::move(*indices));
  entries_.composites.push_back(std::move(sparse_tensor));
  return {};
}

void assembler::add_notes() {
  if (string_tensors_ > 0) {
    entries_.notes.push_back(grouped(string_tensors_) +
                             " tensors of strings are left out, the first is '" +
                             printable(first_string_tensor_) + "'");
  }
  if (model_.unnamed > 0) {
    entries_.notes.push_back(grouped(model_.unnamed) + " initializers without a name are left out");
  }
  if (model_.metadata_left_out) {
    entries_.notes.push_back("some metadata is left out, because it is limited to " +
                             grouped(onnx_metadata_bytes_max) + " bytes");
  }
}

result<void> assembler::assemble() {
  if (auto named = name_initializers(); !named) return named;
  name_constants();
  if (auto added = add_tensors(); !added) return added;
  for (const onnx_sparse& sparse : model_.sparse) {
    if (auto added = add_sparse(sparse); !added) return added;
  }
  std::ranges::stable_sort(entries_.tensors, {}, [](const entry& e) {
    const std::uint32_t file = e.stored == nullptr ? 0 : e.stored->pieces.front().stored.file;
    return std::tuple(file, e.offset);
  });
  entries_.external_files = std::move(external_files_.paths);
  add_notes();
  return {};
}

}  // namespace

result<file_entries> parse_onnx(input& from, strictness strictness) {
  onnx_model model;
  input_cursor in(from, 0, from.bytes());
  if (!read_onnx_model(in, strictness, model)) return in.error();

  file_entries entries;
  entries.metadata.reserve(model.metadata.size());
  for (auto& [key, value] : std::exchange(model.metadata, {})) {
    entries.metadata.emplace_back(std::move(key), value);
  }
  if (auto status = assembler(model, from, entries).assemble(); !status) return status.error();
  return entries;
}

}  // namespace ringload::inline v0
