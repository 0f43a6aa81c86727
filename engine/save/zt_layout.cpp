// SPDX-License-Identifier: Apache-2.0

#include "save/zt_layout.hpp"

#include <algorithm>
#include <vector>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "formats/shape.hpp"
#include "formats/text/cbor_writer.hpp"
#include "formats/zt/zt.hpp"
#include "formats/zt/zt_dtype.hpp"
#include "formats/zt/zt_writing.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::uint64_t zt_alignment_max = 2U << 20;

fault wrong_setting(std::string cause) {
  return {errc::invalid_saving, "saving", std::move(cause)};
}

// Returns the metadata as a CBOR map with sorted keys, or an empty string if there is no metadata.
result<std::string> attributes_of(const zt_settings& settings) {
  using pair = std::pair<std::string, std::string>;
  std::vector<pair> sorted(settings.metadata.begin(), settings.metadata.end());
  std::ranges::sort(sorted, {}, &pair::first);
  const auto duplicate = std::ranges::adjacent_find(sorted, {}, &pair::first);
  if (duplicate != sorted.end()) {
    return wrong_setting("duplicate metadata key '" + printable(duplicate->first) + "'");
  }
  std::string out;
  if (sorted.empty()) return out;
  cbor_writer writer(out);
  writer.map(sorted.size());
  for (const auto& [key, value] : sorted) {
    if (utf8_valid_bytes(key) != key.size() || utf8_valid_bytes(value) != value.size()) {
      return wrong_setting("metadata '" + printable(key) + "' is not UTF-8");
    }
    writer.text(key);
    writer.text(value);
  }
  return out;
}

// Describes a tensor as an object. The caller sets the offset and the length.
result<zt_object> object_of(const layout_tensor& tensor) {
  const auto element = zt_element_of(tensor.dtype);
  if (!element) {
    return fault{errc::unsupported_dtype, tensor_place(tensor.name),
                 ".zt cannot store " + std::string(name(tensor.dtype)) +
                     ", expected elements of whole bytes"};
  }
  zt_object object;
  object.name = tensor.name;
  object.format = "dense";
  object.shape = tensor.shape;
  zt_component& data = object.components.emplace().emplace_back();
  data.name = "data";
  data.dtype = element->stored;
  data.type = element->type;
  return object;
}

result<std::uint64_t> raw_bytes_of(const layout_tensor& tensor) {
  const auto elements = element_count(tensor.shape);
  const auto bytes = elements ? checked_multiply(*elements, bits(tensor.dtype) / 8) : elements;
  if (bytes) return *bytes;
  return fault{errc::size_overflow, tensor_place(tensor.name), "its shape does not fit in 64 bits"};
}

}  // namespace

result<checkpoint_layout> lay_out_zt(std::span<const layout_tensor> tensors,
                                     const zt_settings& settings) {
  const bool power = (settings.alignment & (settings.alignment - 1)) == 0;
  if (!power || settings.alignment < zt_alignment || settings.alignment > zt_alignment_max) {
    return wrong_setting("alignment is " + grouped(settings.alignment) +
                         ", expected a power of two, 64 to " + grouped(zt_alignment_max));
  }
  auto metadata = attributes_of(settings);
  if (!metadata) return metadata.error();
  checkpoint_layout out;
  file_layout file;
  file.head = zt_magic;
  std::vector<zt_object> objects;
  std::uint64_t end = file.head.size();
  for (std::uint32_t t = 0; t < tensors.size(); ++t) {
    auto object = object_of(tensors[t]);
    if (!object) return object.error();
    const auto bytes = raw_bytes_of(tensors[t]);
    if (!bytes) return bytes.error();
    tensor_extent extent = {0, 0, *bytes};
    if (const std::uint32_t first = settings.bytes_of[t]; first < t) {
      extent.offset = out.tensors[first].offset;
    } else {
      const auto offset = zt_blob_offset(end, settings.alignment);
      const auto blob_end = offset ? checked_add(*offset, *bytes) : offset;
      if (!blob_end || *blob_end > std::uint64_t{1} << 62) {
        return fault{errc::size_overflow, tensor_place(tensors[t].name),
                     "the total size of the tensors exceeds 2^62 bytes"};
      }
      extent.offset = *offset;
      end = *blob_end;
    }
    zt_component& data = object->components->front();
    data.offset = extent.offset;
    data.length = extent.bytes;
    if (auto status = check_zt_object(*object); !status) return status.error();
    out.tensors.push_back(extent);
    objects.push_back(std::move(*object));
  }
  auto tail = zt_tail(zt_version_written, *metadata, objects);
  if (!tail) return tail.error();
  file.tail = std::move(*tail);
  file.bytes = end + file.tail.size();
  if (auto status = check_zt_tail(file.tail, file.bytes); !status) return status.error();
  out.files.push_back(std::move(file));
  return out;
}

}  // namespace ringload::inline v0
