// SPDX-License-Identifier: Apache-2.0

#include "formats/zt/zt_object.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "formats/shape.hpp"
#include "formats/sparse_indices.hpp"
#include "formats/text/cbor_reader.hpp"
#include "formats/zt/zt_component.hpp"

namespace ringload::inline v0 {

namespace {

const zt_component* component_named(const zt_object& object, std::string_view name) noexcept {
  const auto found = std::ranges::find(*object.components, name, &zt_component::name);
  return found == object.components->end() ? nullptr : &*found;
}

fault lacking(const zt_object& object, std::string_view name) {
  return zt_fault(
      object, errc::malformed_header,
      "a " + *object.format + " object must have the component '" + std::string(name) + "'");
}

std::optional<std::vector<std::uint64_t>> shape_of(const attribute& value) {
  memory_input from(std::as_bytes(std::span<const char>(value.encoded())));
  input_cursor in(from, 0, value.encoded().size());
  cbor_reader cbor(in);
  std::vector<std::uint64_t> shape;
  if (!cbor.enter_array()) return std::nullopt;
  while (cbor.next_item()) {
    if (shape.size() == zt_rank_max || !cbor.unsigned_integer(shape.emplace_back())) {
      return std::nullopt;
    }
  }
  return cbor.failed() ? std::nullopt : std::optional(std::move(shape));
}

// If attributes state the type of quantised blocks or of packed elements, sets the type of the
// tensor. See zt_type_keys.
void take_type_attributes(entry& tensor) {
  if (!tensor.type.empty() || tensor.dtype != dtype::u8 || tensor.shape.size() != 1) return;
  const auto value_of = [&](std::string_view key) -> const attribute* {
    const auto found = std::ranges::find(tensor.attributes, key, &attributes::value_type::first);
    return found == tensor.attributes.end() ? nullptr : &found->second;
  };
  const attribute* const shape = value_of(zt_original_shape_key);
  for (const std::string_view key : zt_type_keys) {
    const attribute* const type = value_of(key);
    if (shape == nullptr || type == nullptr || !type->is_text()) continue;
    auto original = shape_of(*shape);
    if (!original) continue;
    tensor.type = type->text();
    tensor.original_shape = std::move(*original);
    return;
  }
}

std::optional<fault> add_dense(zt_object& object, const zt_component_converter& part_converter,
                               file_entries& entries) {
  const zt_component* const data = component_named(object, "data");
  if (data == nullptr) return lacking(object, "data");
  if (object.components->size() > 1) {
    entries.notes.push_back(tensor_place(object.name) +
                            " is dense, so only its component 'data' is loaded");
  }
  auto tensor = part_converter.shaped(*data, std::move(*object.shape));
  if (!tensor) return tensor.error();
  tensor->name = std::move(object.name);
  tensor->attributes = std::move(object.attributes);
  take_type_attributes(*tensor);
  entries.tensors.push_back(std::move(*tensor));
  return std::nullopt;
}

std::optional<fault> check_sparse(const zt_object& object, const std::vector<entry>& parts,
                                  file_entries& entries) {
  const bool csr = *object.format == "sparse_csr";
  const auto part = [&](std::string_view name) -> const entry* {
    const auto found_part = std::ranges::find(parts, name, &entry::name);
    return found_part == parts.end() ? nullptr : &*found_part;
  };
  for (const std::string_view index_name : csr ? std::vector<std::string_view>{"indices", "indptr"}
                                               : std::vector<std::string_view>{"coords"}) {
    const entry* const index = part(index_name);
    if (index == nullptr) return lacking(object, index_name);
    if (index->dtype == dtype::u64) continue;
    const std::string cause = "the component '" + std::string(index_name) + "' is " +
                              std::string(name(index->dtype)) + ", expected u64";
    if (!object.from_file || !is_index_type(index->dtype)) {
      return zt_fault(object, errc::malformed_header, cause);
    }
    entries.notes.push_back(tensor_place(object.name) + ": " + cause + ": the component is loaded");
  }
  const entry* const values = part("values");
  if (values == nullptr) return lacking(object, "values");
  const auto wrong = [&](std::string_view name, std::uint64_t expected) {
    return zt_fault(object, errc::wrong_tensor_bytes,
                    "the component '" + std::string(name) + "' has " +
                        grouped(part(name)->shape[0]) + " elements, expected " + grouped(expected) +
                        " for " + grouped(values->shape[0]) + " values of " +
                        shape_text(*object.shape));
  };
  const std::uint64_t count = values->shape[0];
  if (!csr) {
    const auto expected = checked_multiply(count, object.shape->size());
    if (expected == part("coords")->shape[0]) return std::nullopt;
    return wrong("coords", expected.value_or(0));
  }
  if (object.shape->size() != 2) {
    return zt_fault(object, errc::malformed_header, "a sparse_csr object must have two dimensions");
  }
  const auto rows = checked_add(object.shape->front(), 1);
  if (rows != part("indptr")->shape[0]) return wrong("indptr", rows.value_or(0));
  if (count != part("indices")->shape[0]) return wrong("indices", count);
  return std::nullopt;
}

std::optional<fault> add_parts(zt_object& object, const zt_component_converter& part_converter,
                               file_entries& entries) {
  std::vector<entry> parts;
  for (const zt_component& part : *object.components) {
    auto tensor = part_converter.flat(part);
    if (!tensor) return tensor.error();
    tensor->name = part.name;
    parts.push_back(std::move(*tensor));
  }
  composite whole;
  if (*object.format == "sparse_csr" || *object.format == "sparse_coo") {
    if (auto problem = check_sparse(object, parts, entries)) return problem;
    whole.type = std::ranges::find(parts, "values", &entry::name)->type;
  }
  for (entry& part : parts) {
    // The file stores the coordinates of all values in dimension 0, then in dimension 1, and so on.
    if (*object.format == "sparse_coo" && part.name == "coords") {
      const std::uint64_t rank = object.shape->size();
      part.shape = {rank, rank == 0 ? 0 : part.shape[0] / rank};
      if (part.stored != nullptr) {
        part.stored = one_stream(part.stored->pieces[0].stored, part.shape, bits(part.dtype) / 8,
                                 part.stored->swap_bytes);
      }
    }
    whole.parts.push_back(part.name);
    part.name = object.name + "/" + part.name;
    entries.tensors.push_back(std::move(part));
  }
  whole.name = std::move(object.name);
  whole.layout = std::move(*object.format);
  whole.shape = std::move(*object.shape);
  whole.attributes = std::move(object.attributes);
  entries.composites.push_back(std::move(whole));
  return std::nullopt;
}

}  // namespace

std::optional<fault> add_zt_object(zt_object object, const zt_blob_rules& blobs,
                                   file_entries& entries) {
  if (!object.format || !object.shape || !object.components) {
    return zt_fault(object, errc::malformed_header,
                    "it must have a shape, a format and components");
  }
  // add_dense() and add_parts() move some members of `object`. The converter does not read a member
  // after its move.
  const zt_object& whole = object;
  const zt_component_converter part_converter(whole, blobs, entries);
  return *object.format == "dense" ? add_dense(object, part_converter, entries)
                                   : add_parts(object, part_converter, entries);
}

}  // namespace ringload::inline v0
