// SPDX-License-Identifier: Apache-2.0
#include "layout/zt_layout.hpp"

#include <algorithm>
#include <vector>

#include "core/checked.hpp"
#include "formats/cbor_writer.hpp"
#include "formats/dense.hpp"
#include "formats/printable.hpp"
#include "formats/utf8.hpp"
#include "formats/zt.hpp"
#include "formats/zt_writing.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::uint64_t zt_alignment_max = 2U << 20;

fault wrong_setting(std::string cause) {
  return {errc::invalid_saving, "saving", std::move(cause)};
}

// A map of CBOR, with sorted keys; empty: there are none.
result<std::string> attributes_of(const zt_settings& how) {
  using pair = std::pair<std::string, std::string>;
  std::vector<pair> sorted(how.metadata.begin(), how.metadata.end());
  std::ranges::sort(sorted, {}, &pair::first);
  const auto twice = std::ranges::adjacent_find(sorted, {}, &pair::first);
  if (twice != sorted.end()) {
    return wrong_setting("metadata '" + printable(twice->first) + "' is given twice");
  }
  std::string out;
  if (sorted.empty()) return out;
  cbor_writer to(out);
  to.map(sorted.size());
  for (const auto& [key, value] : sorted) {
    if (utf8_valid_bytes(key) != key.size() || utf8_valid_bytes(value) != value.size()) {
      return wrong_setting("metadata '" + printable(key) + "' is not UTF-8");
    }
    to.text(key);
    to.text(value);
  }
  return out;
}

// Its component has neither place nor length yet.
result<zt_object> object_of(const layout_tensor& one) {
  const auto element = zt_element_of(one.dtype);
  if (!element) {
    return fault{errc::unsupported_dtype, tensor_place(one.name),
                 ".zt has no elements of less than a byte, as those of " +
                     std::string(name(one.dtype)) + " are"};
  }
  zt_object made;
  made.name = one.name;
  made.format = "dense";
  made.shape = one.shape;
  zt_component& data = made.components.emplace().emplace_back();
  data.name = "data";
  data.dtype = element->stored;
  data.type = element->type;
  return made;
}

result<std::uint64_t> raw_bytes_of(const layout_tensor& one) {
  const auto elements = element_count(one.shape);
  const auto bytes = elements ? checked_multiply(*elements, bits(one.dtype) / 8) : elements;
  if (bytes) return *bytes;
  return fault{errc::size_overflow, tensor_place(one.name), "its shape does not fit in 64 bits"};
}

}  // namespace

result<checkpoint_layout> lay_out_zt(std::span<const layout_tensor> tensors,
                                     const zt_settings& how) {
  const bool power = (how.alignment & (how.alignment - 1)) == 0;
  if (!power || how.alignment < zt_alignment || how.alignment > zt_alignment_max) {
    return wrong_setting("alignment must be a power of two, at most " + grouped(zt_alignment_max));
  }
  auto metadata = attributes_of(how);
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
    tensor_extent place = {0, 0, *bytes};
    if (const std::uint32_t first = how.bytes_of[t]; first < t) {
      place.offset = out.tensors[first].offset;
    } else {
      const auto offset = zt_blob_offset(end, how.alignment);
      const auto behind = offset ? checked_add(*offset, *bytes) : offset;
      if (!behind || *behind > std::uint64_t{1} << 62) {
        return fault{errc::size_overflow, tensor_place(tensors[t].name),
                     "all together are too large"};
      }
      place.offset = *offset;
      end = *behind;
    }
    zt_component& data = object->components->front();
    data.offset = place.offset;
    data.length = place.bytes;
    if (auto good = check_zt_object(*object); !good) return good.error();
    out.tensors.push_back(place);
    objects.push_back(std::move(*object));
  }
  auto tail = zt_tail(zt_version_written, *metadata, objects);
  if (!tail) return tail.error();
  file.tail = std::move(*tail);
  file.bytes = end + file.tail.size();
  out.files.push_back(std::move(file));
  return out;
}

}  // namespace ringload::inline v0
