// SPDX-License-Identifier: Apache-2.0
#include "formats/zt/zt.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/printable.hpp"
#include "formats/text/cbor_reader.hpp"
#include "formats/text/input_cursor.hpp"
#include "formats/zt/zt_lengths.hpp"
#include "formats/zt/zt_names.hpp"
#include "formats/zt/zt_object.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::uint64_t magic_bytes = 8;
constexpr std::uint64_t size_bytes = 8;
// Magic, the size of the manifest, and the magic again, which 0.1 lacks.
constexpr std::uint64_t file_bytes_min = 24;
constexpr std::uint64_t file_bytes_min_0_1 = 16;

// Reads the manifest. `in` must contain only the manifest.
class manifest_reader {
 public:
  // If `keep` is not null, it receives the objects in their manifest form.
  manifest_reader(input_cursor& in, strictness strictness, file_entries& found,
                  zt_manifest* keep) noexcept
      : in_(in), cbor_(in), strictness_(strictness), found_(found), keep_(keep) {}

  bool read(zt_blobs& blobs);
  bool read_0_1(const zt_blobs& blobs);
  // Must be called after read(). Adds the objects whose lengths are counted from the stored bytes.
  void read_waiting(input& from, const zt_blobs& blobs);
  // The index of the first part of each composite, see separate_zt_names().
  const std::vector<std::size_t>& first_parts() const noexcept { return first_parts_; }

 private:
  bool fail(std::string cause) { return in_.fail(errc::malformed_header, std::move(cause)); }
  bool once(bool seen, const std::string& key) {
    return !seen || fail("duplicate field '" + key + "'");
  }
  bool read_version(zt_blobs& blobs);
  bool read_attributes(attributes& out, range& extent);
  bool read_objects(const zt_blobs& blobs);
  bool read_object(zt_object& out);
  bool count_names(const zt_object& object);
  bool read_components(zt_object& out);
  bool read_component(zt_component& out);
  bool read_component_field(const std::string& key, zt_component& out);
  bool read_shape(std::optional<std::vector<std::uint64_t>>& out);
  bool read_number(std::optional<std::uint64_t>& out, const std::string& key);
  bool read_dtype(zt_component& out, bool long_names);
  bool read_encoding(zt_component& out);
  bool read_item_0_1(const zt_blobs& blobs);
  bool read_item_field_0_1(const std::string& key, zt_object& object, zt_component& part,
                           bool& big_endian);
  void add(zt_object object, const zt_blobs& blobs);
  bool refuse_object(errc code, std::string cause);

  input_cursor& in_;
  cbor_reader cbor_;
  const strictness strictness_;
  file_entries& found_;
  zt_manifest* const keep_;
  std::uint64_t attribute_bytes_ = 0;
  std::uint64_t name_bytes_ = 0;
  std::string text_;
  std::optional<fault> refused_;    // Why the current object cannot be read.
  std::vector<zt_object> waiting_;  // Objects with compressed components of unknown length.
  // By composite: the index of its first part. The other parts follow.
  std::vector<std::size_t> first_parts_;
};

// Marks the current object as unreadable. The following objects can still be read.
bool manifest_reader::refuse_object(errc code, std::string cause) {
  if (!refused_) refused_ = fault{code, "byte " + grouped(in_.position()), std::move(cause)};
  return true;
}

void manifest_reader::add(zt_object object, const zt_blobs& blobs) {
  object.from_file = true;
  std::optional<fault> problem = std::move(object.unreadable);
  std::string name = object.name;
  const std::size_t tensors = found_.tensors.size();
  const std::size_t composites = found_.composites.size();
  if (!problem && keep_ != nullptr) {
    problem = add_zt_object(object, blobs, found_);
  } else if (!problem) {
    problem = add_zt_object(std::move(object), blobs, found_);
  }
  if (found_.composites.size() > composites) first_parts_.push_back(tensors);
  if (problem) {
    found_.notes.push_back(tensor_place(name) + " cannot be loaded: " + message_of(*problem));
    found_.unreadable.push_back({std::move(name), *problem, strictness_ == strictness::reference});
  }
  if (keep_ == nullptr) return;
  object.unreadable = std::move(problem);
  keep_->objects.push_back(std::move(object));
}

void manifest_reader::read_waiting(input& from, const zt_blobs& blobs) {
  std::uint64_t budget = zt_counted_bytes_max;
  for (zt_object& object : waiting_) {
    if (auto problem = count_zt_lengths(object, from, blobs, budget)) object.unreadable = *problem;
    add(std::move(object), blobs);
  }
  waiting_.clear();
}

bool manifest_reader::read_version(zt_blobs& blobs) {
  if (!cbor_.text(text_)) return false;
  if (!text_.starts_with("1.")) {
    return in_.fail(errc::unsupported_feature,
                    "this is version '" + printable(text_) + "' of .zt, expected 1.x");
  }
  blobs.length_by_shape = text_.starts_with("1.1.") || text_ == "1.1";
  if (keep_ != nullptr) keep_->version = text_;
  return true;
}

bool manifest_reader::read_attributes(attributes& out, range& extent) {
  const std::uint64_t begin = cbor_.position();
  if (cbor_.null()) return true;
  if (!cbor_.enter_map()) return false;
  std::string key;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> values;  // First and past the last byte.
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
    values.emplace_back(value_begin, cbor_.position());
    out.emplace_back(key, attribute());
  }
  extent = {begin, cbor_.position()};
  if (cbor_.failed()) return false;
  // Keeps the encoded form of the values.
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

bool manifest_reader::read_number(std::optional<std::uint64_t>& out, const std::string& key) {
  if (cbor_.null()) return true;
  std::uint64_t value = 0;
  if (!once(out.has_value(), key) || !cbor_.unsigned_integer(value)) return false;
  out = value;
  return true;
}

bool manifest_reader::read_dtype(zt_component& out, bool long_names) {
  if (!once(out.dtype.has_value(), "dtype") || !cbor_.text(text_)) return false;
  out.dtype = long_names ? zt_0_1_dtype(text_) : zt_dtype(text_);
  return out.dtype || refuse_object(errc::unsupported_feature,
                                    "the dtype '" + printable(text_) + "' is unknown");
}

bool manifest_reader::read_encoding(zt_component& out) {
  if (cbor_.null()) return true;
  if (!cbor_.text(text_)) return false;
  out.zstd = text_ == "zstd";
  return out.zstd || text_ == "raw" ||
         refuse_object(errc::unsupported_feature,
                       "the encoding '" + printable(text_) + "' is unknown");
}

bool manifest_reader::read_component_field(const std::string& key, zt_component& out) {
  if (key == "dtype") return read_dtype(out, false);
  if (key == "type") return cbor_.null() || cbor_.text(out.type);
  if (key == "offset") return read_number(out.offset, key);
  if (key == "length") return read_number(out.length, key);
  if (key == "uncompressed_length") return read_number(out.uncompressed_length, key);
  if (key == "encoding") return read_encoding(out);
  if (key == "digest") return cbor_.null() || cbor_.text(out.digest);
  return cbor_.skip_value();
}

bool manifest_reader::read_component(zt_component& out) {
  out.manifest_byte = in_.position();
  if (!cbor_.enter_map()) return false;
  std::string key;
  std::vector<std::string> seen;
  while (cbor_.next_key(key)) {
    if (std::ranges::find(seen, key) != seen.end()) return once(true, key);
    if (seen.size() < 16) seen.push_back(key);  // The schema has seven fields.
    if (!read_component_field(key, out)) return false;
  }
  return !cbor_.failed();
}

bool manifest_reader::read_components(zt_object& out) {
  if (!once(out.components.has_value(), "components") || !cbor_.enter_map()) return false;
  out.components.emplace();
  std::unordered_set<std::string> names;
  std::string name;
  while (cbor_.next_key(name)) {
    if (!names.insert(name).second) {
      return in_.fail(errc::duplicate_tensor,
                      "duplicate component '" + printable(name) + "' of " + tensor_place(out.name));
    }
    zt_component& part = out.components->emplace_back();
    part.name = name;
    if (!read_component(part)) return false;
  }
  return !cbor_.failed();
}

bool manifest_reader::read_shape(std::optional<std::vector<std::uint64_t>>& out) {
  if (!once(out.has_value(), "shape") || !cbor_.enter_array()) return false;
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

bool manifest_reader::read_object(zt_object& out) {
  out.manifest_byte = in_.position();
  if (!cbor_.enter_map()) return false;
  std::string key;
  bool attributes_seen = false;
  while (cbor_.next_key(key)) {
    bool read = false;
    if (key == "shape") {
      read = read_shape(out.shape);
    } else if (key == "format") {
      read = once(out.format.has_value(), key) && cbor_.text(out.format.emplace());
    } else if (key == "attributes") {
      read = once(std::exchange(attributes_seen, true), key) &&
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

// The names of tensors contain the object's name once per component.
bool manifest_reader::count_names(const zt_object& object) {
  name_bytes_ += object.name.size() * (object.components ? object.components->size() : 1);
  return name_bytes_ <= zt_name_bytes_max ||
         in_.fail(errc::header_too_large,
                  "the names of tensors have more than " + grouped(zt_name_bytes_max) + " bytes");
}

bool manifest_reader::read_objects(const zt_blobs& blobs) {
  if (!cbor_.enter_map()) return false;
  std::unordered_set<std::string> names;
  std::string name;
  while (cbor_.next_key(name)) {
    if (!names.insert(name).second) {
      return in_.fail(errc::duplicate_tensor, "duplicate " + tensor_place(name));
    }
    zt_object object;
    object.name = name;
    refused_.reset();
    if (!read_object(object) || !count_names(object)) return false;
    object.unreadable = refused_ ? std::optional(refused_->in(tensor_place(name))) : std::nullopt;
    if (!object.unreadable && lacks_zt_lengths(object, blobs)) {
      waiting_.push_back(std::move(object));
    } else {
      add(std::move(object), blobs);
    }
  }
  return !cbor_.failed();
}

bool manifest_reader::read(zt_blobs& blobs) {
  if (!cbor_.enter_map()) return false;
  bool has_version = false;
  bool has_objects = false;
  bool has_attributes = false;
  bool has_tensors = false;
  range ignored;
  std::string key;
  while (cbor_.next_key(key)) {
    bool read = false;
    if (key == "version") {
      read = once(std::exchange(has_version, true), key) && read_version(blobs);
    } else if (key == "attributes") {
      read = once(std::exchange(has_attributes, true), key) &&
             read_attributes(found_.metadata, keep_ != nullptr ? keep_->attribute_bytes : ignored);
    } else if (key == "objects") {
      read = once(std::exchange(has_objects, true), key) && read_objects(blobs);
    } else {
      has_tensors = has_tensors || key == "tensors";
      read = cbor_.skip_value();
    }
    if (!read) return false;
  }
  if (cbor_.failed()) return false;
  if (has_tensors && !has_objects) {
    return in_.fail(errc::unsupported_feature,
                    "this is a .zt file of version 1.0; 0.1, 1.1 and 1.2 are read");
  }
  return (has_version && has_objects) || fail("the manifest must have a version and objects");
}

bool manifest_reader::read_item_field_0_1(const std::string& key, zt_object& object,
                                          zt_component& part, bool& big_endian) {
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
  if (!cbor_.text(text_)) return false;
  big_endian = text_ == "big";
  return big_endian || text_ == "little" ||
         fail("data_endianness is '" + printable(text_) + "', expected little or big");
}

bool manifest_reader::read_item_0_1(const zt_blobs& blobs) {
  zt_object object;
  zt_component part;
  object.manifest_byte = part.manifest_byte = in_.position();
  part.name = "data";
  refused_.reset();
  if (!cbor_.enter_map()) return false;
  bool big_endian = false;
  bool has_name = false;
  std::string key;
  while (cbor_.next_key(key)) {
    if (key == "name" && !once(std::exchange(has_name, true), key)) return false;
    if (!read_item_field_0_1(key, object, part, big_endian)) return false;
  }
  if (cbor_.failed()) return false;
  if (!has_name) return fail("a tensor has no name");
  if (object.format && *object.format != "dense" && !object.format->empty()) {
    found_.notes.push_back(tensor_place(object.name) + " is left out: its layout is '" +
                           printable(*object.format) +
                           "', but in version 0.1 only dense tensors are read");
    return true;
  }
  if (big_endian && part.dtype && bits(*part.dtype) > 8) {
    part.swap_bytes = static_cast<std::uint8_t>(bits(*part.dtype) / 8);
  }
  object.format = "dense";
  object.components.emplace().push_back(std::move(part));
  object.unreadable =
      refused_ ? std::optional(refused_->in(tensor_place(object.name))) : std::nullopt;
  add(std::move(object), blobs);
  return true;
}

bool manifest_reader::read_0_1(const zt_blobs& blobs) {
  if (!cbor_.enter_array()) return false;
  while (cbor_.next_item()) {
    if (!read_item_0_1(blobs)) return false;
  }
  return !cbor_.failed();
}

// Sorts the tensors by offset. Only version 0.1 allows duplicate names, which fail here.
std::optional<fault> in_file_order(std::vector<entry>& tensors) {
  std::unordered_set<std::string_view> names;
  for (const entry& tensor : tensors) {
    if (names.insert(tensor.name).second) continue;
    return fault{errc::duplicate_tensor, tensor_place(tensor.name), "duplicate tensor name"};
  }
  std::ranges::stable_sort(tensors, {}, &entry::offset);
  return std::nullopt;
}

fault wrong_magic(std::string_view magic) {
  if (magic == zt_2_magic) {
    return {errc::unsupported_feature, "byte 0",
            "this is a .zt file of version 2; 0.1, 1.1 and 1.2 are read"};
  }
  return {errc::malformed_header, "byte 0",
          "a .zt file begins with '" + std::string(zt_magic) + "'"};
}

result<std::string> text_at(input& from, std::uint64_t offset, std::size_t bytes) {
  auto read = from.read(offset, bytes);
  if (!read) return read.error();
  return std::string(reinterpret_cast<const char*>(read->data()), read->size());
}

// Returns the offset of the manifest, which ends at `end`. Its size follows there.
result<std::uint64_t> manifest_begin(input& from, std::uint64_t end) {
  std::uint64_t bytes = 0;
  input_cursor in(from, end, end + size_bytes);
  if (!in.number(bytes)) return in.error();
  if (bytes > zt_manifest_bytes_max) {
    return fault{errc::header_too_large, "byte " + grouped(end),
                 "the manifest would have " + grouped(bytes) + " bytes, expected at most " +
                     grouped(zt_manifest_bytes_max)};
  }
  if (bytes > end - magic_bytes) {
    return fault{errc::header_outside_file, "byte " + grouped(end),
                 "the manifest would have " + grouped(bytes) + " bytes, but only " +
                     grouped(end - magic_bytes) + " bytes are before its end"};
  }
  return end - bytes;
}

// Returns the encoded attribute map at `extent`.
result<std::string> encoded(input& from, const range& extent) {
  return extent.count() == 0 ? std::string() : text_at(from, extent.begin, extent.count());
}

result<file_entries> parse(input& from, strictness strictness, zt_manifest* keep) {
  const std::uint64_t file_bytes = from.bytes();
  if (file_bytes < file_bytes_min_0_1) {
    return fault{errc::header_too_small, "byte 0",
                 "the file has " + grouped(file_bytes) + " bytes, expected at least " +
                     grouped(file_bytes_min)};
  }
  auto magic = text_at(from, 0, magic_bytes);
  if (!magic) return magic.error();
  const bool is_0_1 = *magic == zt_0_1_magic;
  if (!is_0_1 && *magic != zt_magic) return wrong_magic(*magic);
  std::uint64_t manifest_end = file_bytes - size_bytes;
  if (!is_0_1) {
    if (file_bytes < file_bytes_min) {
      return fault{errc::header_too_small, "byte 0",
                   "the file has " + grouped(file_bytes) + " bytes, expected at least " +
                       grouped(file_bytes_min)};
    }
    auto last = text_at(from, file_bytes - magic_bytes, magic_bytes);
    if (!last) return last.error();
    if (*last != zt_magic) {
      return fault{errc::malformed_header, "byte " + grouped(file_bytes - magic_bytes),
                   "the file does not end with '" + std::string(zt_magic) +
                       "': the file is truncated or was never finished"};
    }
    manifest_end -= magic_bytes;
  }
  auto begin = manifest_begin(from, manifest_end);
  if (!begin) return begin.error();
  // The extent of the manifest is fixed here. All blobs are before it.

  file_entries found;
  input_cursor in(from, *begin, manifest_end);
  manifest_reader reader(in, strictness, found, keep);
  zt_blobs blobs = {magic_bytes, *begin, zt_alignment, is_0_1};
  if (!(is_0_1 ? reader.read_0_1(blobs) : reader.read(blobs))) return in.error();
  reader.read_waiting(from, blobs);
  separate_zt_names(found, reader.first_parts());
  if (auto twice = in_file_order(found.tensors)) return *twice;
  if (keep != nullptr) {
    keep->begin = *begin;
    keep->is_0_1 = is_0_1;
  }
  return found;
}

}  // namespace

result<file_entries> parse_zt(input& from, strictness strictness) {
  return parse(from, strictness, nullptr);
}

result<zt_manifest> read_zt_manifest(input& from) {
  zt_manifest out;
  if (auto status = parse(from, strictness::strict, &out); !status) return status.error();
  auto file_attributes = encoded(from, out.attribute_bytes);
  if (!file_attributes) return file_attributes.error();
  out.encoded_attributes = std::move(*file_attributes);
  for (zt_object& object : out.objects) {
    auto object_attributes = encoded(from, object.attribute_bytes);
    if (!object_attributes) return object_attributes.error();
    object.encoded_attributes = std::move(*object_attributes);
  }
  return out;
}

}  // namespace ringload::inline v0
