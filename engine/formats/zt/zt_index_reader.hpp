// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads the CBOR index of a .zt file. The format calls this index the manifest. The manifest lists
// objects in versions 1.x, and tensors in version 0.1.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ringload/catalog.hpp>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "base/range.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/description_budget.hpp"
#include "formats/text/cbor_reader.hpp"
#include "formats/text/input_cursor.hpp"
#include "formats/zt/zt_index.hpp"

namespace ringload::inline v0 {

// `in` must contain only the index.
class zt_index_reader {
 public:
  // If `raw_objects` is not null, the reader also adds the unchanged description of each object to
  // `raw_objects`.
  zt_index_reader(input_cursor& in, std::uint64_t file_bytes, strictness strictness,
                  file_entries& entries, zt_index* raw_objects) noexcept
      : in_(in),
        cbor_(in),
        strictness_(strictness),
        budget_(strictness, file_bytes),
        entries_(entries),
        raw_objects_(raw_objects) {}

  bool read(zt_blob_rules& blobs);
  bool read_0_1(const zt_blob_rules& blobs);
  // Must be called after read() or read_0_1(). Adds the objects that have compressed components of
  // unknown length. To find the lengths, decodes these components from `file`. Fails if `file`
  // cannot be read.
  result<void> read_unsized(input& file, const zt_blob_rules& blobs);
  // Returns, for each composite, the index of its first part in the tensors of `entries`. Used as
  // the argument `first_parts` of separate_zt_names().
  const std::vector<std::size_t>& first_parts() const noexcept { return first_parts_; }

 private:
  bool fail(std::string cause) { return in_.fail(errc::malformed_header, std::move(cause)); }
  bool reject_duplicate(bool seen, const std::string& key) {
    return !seen || fail("duplicate field '" + key + "'");
  }
  bool read_version(zt_blob_rules& blobs);
  bool read_attributes(attributes& out, range& extent);
  bool read_objects(const zt_blob_rules& blobs);
  bool read_object(zt_object& out);
  bool count_names(const zt_object& object);
  bool read_components(zt_object& out);
  bool read_component(zt_component& out);
  bool read_component_field(const std::string& key, zt_component& out);
  bool read_shape(std::optional<std::vector<std::uint64_t>>& out);
  bool read_number(std::optional<std::uint64_t>& out, const std::string& key);
  bool read_dtype(zt_component& out, bool uses_long_names);
  bool read_encoding(zt_component& out);
  bool read_tensor_0_1(const zt_blob_rules& blobs);
  bool read_tensor_field_0_1(const std::string& key, zt_object& object, zt_component& part,
                             bool& is_big_endian);
  void add(zt_object object, const zt_blob_rules& blobs);
  bool fail_over_budget() { return in_.fail(errc::header_too_large, budget_.cause()); }
  bool refuse_object(errc code, std::string cause);

  input_cursor& in_;
  cbor_reader cbor_;
  const strictness strictness_;
  description_budget budget_;
  file_entries& entries_;
  zt_index* const raw_objects_;
  std::uint64_t attribute_bytes_ = 0;
  std::uint64_t name_bytes_ = 0;
  std::string scratch_text_;
  std::optional<fault> object_error_;       // Error of the current object.
  std::vector<zt_object> unsized_objects_;  // Objects with compressed components of unknown length.
  // For each composite, the index of its first part in entries_.tensors. The other parts follow.
  std::vector<std::size_t> first_parts_;
};

}  // namespace ringload::inline v0
