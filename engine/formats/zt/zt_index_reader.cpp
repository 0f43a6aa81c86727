// SPDX-License-Identifier: Apache-2.0

#include "formats/zt/zt_index_reader.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/printable.hpp"
#include "formats/zt/zt_dtype.hpp"
#include "formats/zt/zt_lengths.hpp"
#include "formats/zt/zt_object.hpp"

namespace ringload::inline v0 {

namespace {

bool is_component_field(std::string_view key) {
  constexpr std::array<std::string_view, 7> fields = {
      "dtype", "type", "offset", "length", "uncompressed_length", "encoding", "digest"};
  return std::ranges::find(fields, key) != fields.end();
}

}  // namespace

// Marks the current object as unreadable. The following objects can still be read.
bool zt_index_reader::refuse_object(errc code, std::string cause) {
  if (!object_error_)
    object_error_ = fault{code, "byte " + grouped(in_.position()), std::move(cause)};
  return true;
}

void zt_index_reader::add(zt_object object, const zt_blob_rules& blobs) {
  object.from_file = true;
  std::optional<fault> problem = std::move(object.unreadable);
  std::string name = object.name;
  const std::size_t tensors = entries_.tensors.size();
  const std::size_t composites = entries_.composites.size();
  if (!problem && raw_objects_ != nullptr) {
    problem = add_zt_object(object, blobs, entries_);
  } else if (!problem) {
    problem = add_zt_object(std::move(object), blobs, entries_);
  }
  if (entries_.composites.size() > composites) first_parts_.push_back(tensors);
  if (problem) {
    budget_.take_unreadable(name.size());
    entries_.notes.push_back(tensor_place(name) + " cannot be loaded: " + message_of(*problem));
    entries_.unreadable.push_back(
        {std::move(name), *problem, strictness_ == strictness::reference});
  }
  if (raw_objects_ == nullptr) return;
  object.unreadable = std::move(problem);
  raw_objects_->objects.push_back(std::move(object));
}

result<void> zt_index_reader::read_unsized(input& file, const zt_blob_rules& blobs) {
  std::uint64_t budget = zt_counted_bytes_max;
  for (zt_object& object : unsized_objects_) {
    if (auto status = count_zt_lengths(object, file, blobs, budget); !status) return status.error();
    add(std::move(object), blobs);
  }
  unsized_objects_.clear();
  return {};
}

bool zt_index_reader::read_version(zt_blob_rules& blobs) {
  if (!cbor_.text(scratch_text_)) return false;
  if (!scratch_text_.starts_with("1.")) {
    return in_.fail(errc::unsupported_feature,
                    "this is version '" + printable(scratch_text_) + "' of .zt, expected 1.x");
  }
  blobs.length_by_shape = scratch_text_.starts_with("1.1.") || scratch_text_ == "1.1";
  if (raw_objects_ != nullptr) raw_objects_->version = scratch_text_;
  return true;
}

bool zt_index_reader::read_attributes(attributes& out, range& extent) {
  const std::uint64_t begin = cbor_.position();
  if (cbor_.null()) return true;
  if (!cbor_.enter_map()) return false;
  std::string key;
  // The range [first, second) of each value in the file.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> values;
  while (cbor_.next_key(key)) {
    std::string value;
    const std::uint64_t left = zt_attribute_bytes_max - attribute_bytes_;
    const std::uint64_t value_begin = cbor_.position();
    const bool read = cbor_.is_text() ? cbor_.text(value) : cbor_.json(value, left);
    if (!read) return false;
    if (value.size() + key.size() > left) {
      return in_.fail(
          errc::header_too_large,
          "the attributes have more than " + grouped(zt_attribute_bytes_max) + " bytes of text");
    }
    attribute_bytes_ += value.size() + key.size();
    if (!budget_.take_attribute(key.size(), value.size())) return fail_over_budget();
    values.emplace_back(value_begin, cbor_.position());
    out.emplace_back(key, attribute());
  }
  extent = {begin, cbor_.position()};
  if (cbor_.failed()) return false;
  // Stores the encoded form of the values.
  std::string_view map_text;
  in_.seek(extent.begin);
  if (!in_.text(static_cast<std::size_t>(extent.count()), map_text)) return false;
  const std::string encoded(map_text);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto [value_begin, value_end] = values[i];
    out[i].second = attribute::cbor(encoded.substr(value_begin - begin, value_end - value_begin));
  }
  return true;
}

bool zt_index_reader::read_number(std::optional<std::uint64_t>& out, const std::string& key) {
  if (cbor_.null()) return true;
  std::uint64_t value = 0;
  if (!reject_duplicate(out.has_value(), key) || !cbor_.unsigned_integer(value)) return false;
  out = value;
  return true;
}

bool zt_index_reader::read_dtype(zt_component& out, bool uses_long_names) {
  if (!reject_duplicate(out.dtype.has_value(), "dtype") || !cbor_.text(scratch_text_)) return false;
  out.dtype = uses_long_names ? zt_0_1_dtype(scratch_text_) : zt_dtype(scratch_text_);
  return out.dtype || refuse_object(errc::unsupported_feature,
                                    "the dtype '" + printable(scratch_text_) + "' is unknown");
}

bool zt_index_reader::read_encoding(zt_component& out) {
  if (cbor_.null()) return true;
  if (!cbor_.text(scratch_text_)) return false;
  out.zstd = scratch_text_ == "zstd";
  return out.zstd || scratch_text_ == "raw" ||
         refuse_object(errc::unsupported_feature,
                       "the encoding '" + printable(scratch_text_) + "' is unknown");
}

bool zt_index_reader::read_component_field(const std::string& key, zt_component& out) {
  if (key == "dtype") return read_dtype(out, false);
  if (key == "type") return cbor_.null() || cbor_.text(out.type);
  if (key == "offset") return read_number(out.offset, key);
  if (key == "length") return read_number(out.length, key);
  if (key == "uncompressed_length") return read_number(out.uncompressed_length, key);
  if (key == "encoding") return read_encoding(out);
  if (key == "digest") return cbor_.null() || cbor_.text(out.digest);
  return cbor_.skip_value();
}

bool zt_index_reader::read_component(zt_component& out) {
  out.description_offset = in_.position();
  if (!cbor_.enter_map()) return false;
  std::string key;
  std::vector<std::string> seen;
  while (cbor_.next_key(key)) {
    if (std::ranges::find(seen, key) != seen.end()) return reject_duplicate(true, key);
    // The duplicate check covers all fields of the schema, and at most 16 unknown keys.
    if (is_component_field(key) || seen.size() < 16) seen.push_back(key);
    if (!read_component_field(key, out)) return false;
  }
  return !cbor_.failed();
}

bool zt_index_reader::read_components(zt_object& out) {
  if (!reject_duplicate(out.components.has_value(), "components") || !cbor_.enter_map())
    return false;
  out.components.emplace();
  std::unordered_set<std::string> names;
  std::string name;
  while (cbor_.next_key(name)) {
    if (!names.insert(name).second) {
      return in_.fail(errc::duplicate_tensor,
                      "duplicate component '" + printable(name) + "' of " + tensor_place(out.name));
    }
    // The first component is included in the cost of the object.
    if (!out.components->empty() && !budget_.take_tensor(out.name.size() + name.size(), 0)) {
      return fail_over_budget();
    }
    zt_component& part = out.components->emplace_back();
    part.name = name;
    if (!read_component(part)) return false;
  }
  return !cbor_.failed();
}

bool zt_index_reader::read_shape(std::optional<std::vector<std::uint64_t>>& out) {
  if (!reject_duplicate(out.has_value(), "shape") || !cbor_.enter_array()) return false;
  out.emplace();
  while (cbor_.next_item()) {
    if (!cbor_.unsigned_integer(out->emplace_back())) return false;
    if (out->size() > zt_rank_max) {
      return in_.fail(errc::malformed_header,
                      "a shape has more than " + grouped(zt_rank_max) + " dimensions");
    }
  }
  return !cbor_.failed();
}

bool zt_index_reader::read_object(zt_object& out) {
  out.description_offset = in_.position();
  if (!cbor_.enter_map()) return false;
  std::string key;
  bool attributes_seen = false;
  while (cbor_.next_key(key)) {
    bool read = false;
    if (key == "shape") {
      read = read_shape(out.shape);
    } else if (key == "format") {
      read = reject_duplicate(out.format.has_value(), key) && cbor_.text(out.format.emplace());
    } else if (key == "attributes") {
      read = reject_duplicate(std::exchange(attributes_seen, true), key) &&
             read_attributes(out.attributes, out.attribute_bytes);
    } else if (key == "components") {
      read = read_components(out);
    } else {
      read = cbor_.skip_value();
    }
    if (!read) return false;
  }
  return !cbor_.failed();
}

// The name of an object counts once for each component, because the names of all its tensors
// contain the name of the object.
bool zt_index_reader::count_names(const zt_object& object) {
  name_bytes_ += object.name.size() * (object.components ? object.components->size() : 1);
  return name_bytes_ <= zt_name_bytes_max ||
         in_.fail(errc::header_too_large,
                  "the names of tensors have more than " + grouped(zt_name_bytes_max) + " bytes");
}

bool zt_index_reader::read_objects(const zt_blob_rules& blobs) {
  if (!cbor_.enter_map()) return false;
  std::unordered_set<std::string> names;
  std::string name;
  while (cbor_.next_key(name)) {
    if (!names.insert(name).second) {
      return in_.fail(errc::duplicate_tensor, "duplicate " + tensor_place(name));
    }
    zt_object object;
    object.name = name;
    object_error_.reset();
    if (!budget_.take_tensor(name.size(), 0)) return fail_over_budget();
    if (!read_object(object) || !count_names(object)) return false;
    object.unreadable =
        object_error_ ? std::optional(object_error_->in(tensor_place(name))) : std::nullopt;
    if (!object.unreadable && lacks_zt_lengths(object, blobs)) {
      unsized_objects_.push_back(std::move(object));
    } else {
      add(std::move(object), blobs);
    }
  }
  return !cbor_.failed();
}

bool zt_index_reader::read(zt_blob_rules& blobs) {
  if (!cbor_.enter_map()) return false;
  bool has_version = false;
  bool has_objects = false;
  bool has_attributes = false;
  bool has_tensors = false;
  std::optional<std::uint64_t> skipped_objects;
  range ignored;
  std::string key;
  while (cbor_.next_key(key)) {
    bool read = false;
    if (key == "version") {
      read = reject_duplicate(std::exchange(has_version, true), key) && read_version(blobs);
    } else if (key == "attributes") {
      read = reject_duplicate(std::exchange(has_attributes, true), key) &&
             read_attributes(entries_.metadata,
                             raw_objects_ != nullptr ? raw_objects_->attribute_bytes : ignored);
    } else if (key == "objects") {
      read = reject_duplicate(std::exchange(has_objects, true), key);
      // The rules for objects depend on the version, which may follow the objects.
      if (read && !has_version) skipped_objects = cbor_.position();
      read = read && (has_version ? read_objects(blobs) : cbor_.skip_value());
    } else {
      has_tensors = has_tensors || key == "tensors";
      read = cbor_.skip_value();
    }
    if (!read) return false;
  }
  if (cbor_.failed()) return false;
  if (has_tensors && !has_objects) {
    return in_.fail(errc::unsupported_feature,
                    "this is a .zt file of version 1.0, expected 0.1, 1.1 or 1.2");
  }
  if (!has_version || !has_objects) return fail("the manifest must have a version and objects");
  if (!skipped_objects) return true;
  const std::uint64_t end = cbor_.position();
  in_.seek(*skipped_objects);
  if (!read_objects(blobs)) return false;
  in_.seek(end);
  return true;
}

bool zt_index_reader::read_tensor_field_0_1(const std::string& key, zt_object& object,
                                            zt_component& part, bool& is_big_endian) {
  if (key == "name") return cbor_.text(object.name);
  if (key == "offset") return read_number(part.offset, key);
  if (key == "size") return read_number(part.length, key);
  if (key == "dtype") return read_dtype(part, true);
  if (key == "layout") return cbor_.null() || cbor_.text(object.format.emplace());
  if (key == "shape") return read_shape(object.shape);
  if (key == "encoding") return read_encoding(part);
  if (key == "checksum") return cbor_.null() || cbor_.text(part.digest);
  if (key != "data_endianness") return cbor_.skip_value();
  if (cbor_.null()) return true;
  if (!cbor_.text(scratch_text_)) return false;
  is_big_endian = scratch_text_ == "big";
  return is_big_endian || scratch_text_ == "little" ||
         fail("data_endianness is '" + printable(scratch_text_) + "', expected little or big");
}

bool zt_index_reader::read_tensor_0_1(const zt_blob_rules& blobs) {
  zt_object object;
  zt_component part;
  object.description_offset = part.description_offset = in_.position();
  part.name = "data";
  object_error_.reset();
  if (!budget_.take_tensor(0, 0)) return fail_over_budget();
  if (!cbor_.enter_map()) return false;
  bool is_big_endian = false;
  bool has_name = false;
  std::string key;
  while (cbor_.next_key(key)) {
    if (key == "name" && !reject_duplicate(std::exchange(has_name, true), key)) return false;
    if (!read_tensor_field_0_1(key, object, part, is_big_endian)) return false;
  }
  if (cbor_.failed()) return false;
  if (!has_name) return fail("a tensor has no name");
  if (object.format && *object.format != "dense" && !object.format->empty()) {
    entries_.notes.push_back(tensor_place(object.name) + " is left out: its layout is '" +
                             printable(*object.format) +
                             "', but in version 0.1 only dense tensors are read");
    return true;
  }
  if (is_big_endian && part.dtype && bits(*part.dtype) > 8) {
    part.swap_bytes = static_cast<std::uint8_t>(bits(*part.dtype) / 8);
  }
  object.format = "dense";
  object.components.emplace().push_back(std::move(part));
  object.unreadable =
      object_error_ ? std::optional(object_error_->in(tensor_place(object.name))) : std::nullopt;
  add(std::move(object), blobs);
  return true;
}

bool zt_index_reader::read_0_1(const zt_blob_rules& blobs) {
  if (!cbor_.enter_array()) return false;
  while (cbor_.next_item()) {
    if (!read_tensor_0_1(blobs)) return false;
  }
  return !cbor_.failed();
}

}  // namespace ringload::inline v0
