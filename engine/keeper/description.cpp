// SPDX-License-Identifier: Apache-2.0

#include "keeper/description.hpp"

#include <algorithm>
#include <limits>
#include <ringload/error.hpp>
#include <string>

#include "base/catch_as_fault.hpp"
#include "base/checked.hpp"
#include "base/numeric/convert.hpp"
#include "base/printable.hpp"
#include "base/serialize.hpp"
#include "base/utf8.hpp"

namespace ringload::inline v0::detail {

namespace {

// A description begins with the version of its format and the number of bytes that follow.
constexpr std::uint64_t format_version = 5;
constexpr std::size_t head_bytes = 16;
constexpr std::size_t device_text_max = 256;
constexpr std::uint32_t code_of_library = 0;
constexpr std::uint32_t code_of_system = 1;
constexpr std::uint64_t kind_last = element_kind_count + block_kind_count - 1;

// Each function pass_...() writes its second argument to a packer, or reads its second argument
// from an unpacker.

void pass_value(packer& archive, const attribute& value) { archive.text(value.encoded()); }
void pass_value(unpacker& archive, attribute& value) {
  std::string encoded;
  archive.text(encoded);
  if (archive.failed()) return;
  auto read =
      catch_as_fault([&] { return result<attribute>(attribute::cbor(std::move(encoded))); });
  if (read) {
    value = std::move(*read);
  } else {
    archive.refuse();
  }
}

void pass_attributes(auto& archive, auto& items) {
  archive.list(items, [](auto& w, auto& pair) {
    w.text(pair.first);
    pass_value(w, pair.second);
  });
}

void pass_numbers(auto& archive, auto& items) {
  archive.list(items, [](auto& w, auto& item) { w.number(item); });
}

void pass_tensor(auto& archive, auto& t) {
  archive.text(t.name);
  archive.number(t.dtype, dtype_count - 1);
  pass_numbers(archive, t.shape);
  archive.number(t.file);
  archive.number(t.offset);
  archive.number(t.bytes);
  archive.text(t.encoding);
  archive.number(t.stored_bytes);
  archive.text(t.type);
  pass_numbers(archive, t.original_shape);
  archive.text(t.digest);
  pass_attributes(archive, t.attributes);
}

void pass_composite(auto& archive, auto& c) {
  archive.text(c.name);
  archive.text(c.layout);
  archive.text(c.type);
  pass_numbers(archive, c.shape);
  archive.list(c.parts, [](auto& w, auto& part) { w.text(part); });
  archive.number(c.file);
  pass_attributes(archive, c.attributes);
  archive.text(c.separator);
}

// Passes a code as the number of its category and its value. The readers of files only report codes
// of the library and errno values.
void pass_code(packer& archive, const boost::system::error_code& code) {
  archive.number(std::uint32_t{code.category() == category() ? code_of_library : code_of_system});
  archive.number(static_cast<std::uint32_t>(code.value()));
}
void pass_code(unpacker& archive, boost::system::error_code& code) {
  std::uint32_t kind = 0;
  std::uint32_t value = 0;
  archive.number(kind, code_of_system);
  archive.number(value, std::numeric_limits<int>::max());
  code = kind == code_of_library ? boost::system::error_code(static_cast<int>(value), category())
                                 : system_code(static_cast<int>(value));
}

void pass_unreadable(auto& archive, auto& object) {
  archive.text(object.name);
  archive.number(object.file);
  pass_code(archive, object.code);
  archive.text(object.place);
  archive.text(object.reason);
  archive.number(object.is_left_out, 1);
}

void pass_description(auto& archive, auto& description) {
  archive.list(description.contents.files, [](auto& w, auto& file) {
    w.text(file.path);
    w.number(file.bytes);
    w.text(file.format);
    w.number(file.header_bytes);
  });
  archive.list(description.contents.tensors, [](auto& w, auto& t) { pass_tensor(w, t); });
  archive.list(description.contents.composites, [](auto& w, auto& c) { pass_composite(w, c); });
  archive.list(description.contents.unreadable, [](auto& w, auto& u) { pass_unreadable(w, u); });
  pass_attributes(archive, description.contents.metadata);
  archive.list(description.contents.notes, [](auto& w, auto& note) { w.text(note); });
  archive.list(description.tensors, [](auto& w, auto& place) {
    w.number(place.region);
    w.number(place.offset);
    w.number(place.cast.from, kind_last);
    w.number(place.cast.to, kind_last);
  });
  archive.list(description.device_regions, [](auto& w, auto& memory) {
    w.text(memory.on, device_text_max);
    w.number(memory.bytes);
  });
}

fault wrong(std::string cause) { return {errc::malformed_message, "", std::move(cause)}; }

// Returns the size of a tensor in bytes: 0 if a dimension is 0. Returns an empty optional if its
// number of bits does not fit in 64 bits, or is not a multiple of 8.
std::optional<std::uint64_t> bytes_of(std::span<const std::uint64_t> shape, std::uint64_t bits) {
  if (std::ranges::find(shape, std::uint64_t{0}) != shape.end()) return 0;
  std::optional<std::uint64_t> total = bits;
  for (const std::uint64_t size : shape) total = total ? checked_multiply(*total, size) : total;
  if (!total || *total % 8 != 0) return std::nullopt;
  return *total / 8;
}

// Returns the size of a tensor in memory, after its conversion. Returns an empty optional if its
// type, shape and size contradict each other.
std::optional<std::uint64_t> memory_bytes(const tensor_info& t, conversion target) {
  const auto stored = bytes_of(t.shape, bits(t.dtype));
  if (!stored || *stored != t.bytes) return std::nullopt;
  // The shape of a tensor that a load has dequantised is `original_shape`, which is checked below.
  // No load converts to blocks.
  if (!target.needed() && is_block(target.from)) return std::nullopt;
  if (!target.needed()) return t.bytes;
  if (is_block(target.to) || t.bytes % target.from_bytes() != 0) return std::nullopt;
  if (!is_block(target.from) && dtype_of(target.from) != t.dtype) return std::nullopt;
  const auto& shape = is_block(target.from) ? t.original_shape : t.shape;
  const auto converted = bytes_of(shape, bits(dtype_of(target.to)));
  if (!converted ||
      checked_multiply(t.bytes / target.from_bytes(), target.to_bytes()) != converted) {
    return std::nullopt;
  }
  return converted;
}

result<void> check_tensor(const kept_description& description, std::size_t t,
                          std::span<const std::uint64_t> region_bytes) {
  const tensor_info& info = description.contents.tensors[t];
  const kept_tensor& place = description.tensors[t];
  if (utf8_valid_bytes(info.name) != info.name.size()) return wrong("its name is not UTF-8");
  if (info.file >= description.contents.files.size()) return wrong("its file is not listed");
  const auto bytes = memory_bytes(info, place.cast);
  if (!bytes) return wrong("its type, shape and size are inconsistent");
  if (place.region >= region_bytes.size()) return wrong("its memory region was not received");
  const std::uint64_t region_size = region_bytes[place.region];
  if (place.offset > region_size || *bytes > region_size - place.offset) {
    return wrong("it ends past the " + grouped(region_size) + " bytes of its memory");
  }
  const dtype type = place.cast.needed() ? dtype_of(place.cast.to) : info.dtype;
  if (place.offset % alignment(type) != 0) return wrong("it is not aligned");
  return {};
}

}  // namespace

std::optional<std::string_view> duplicate_name(const catalog& contents) {
  std::vector<std::string_view> names;
  names.reserve(contents.tensors.size());
  for (const tensor_info& t : contents.tensors) names.push_back(t.name);
  std::sort(names.begin(), names.end());
  const auto duplicate = std::adjacent_find(names.begin(), names.end());
  if (duplicate == names.end()) return std::nullopt;
  return *duplicate;
}

std::vector<std::byte> pack(const kept_description& description) {
  packer body;
  pass_description(body, description);
  const std::vector<std::byte> bytes = body.take();
  packer head;
  head.number(format_version);
  head.number(std::uint64_t{bytes.size()});
  std::vector<std::byte> out = head.take();
  out.insert(out.end(), bytes.begin(), bytes.end());
  return out;
}

result<kept_description> unpack_description(std::span<const std::byte> bytes,
                                            std::span<const std::uint64_t> region_bytes) {
  const std::size_t body_begin = std::min(bytes.size(), head_bytes);
  unpacker head(bytes.first(body_begin));
  std::uint64_t found_version = 0;
  std::uint64_t body_bytes = 0;
  head.number(found_version);
  head.number(body_bytes, bytes.size() - body_begin);
  if (found_version != format_version) {
    return wrong("the model description has version " + grouped(found_version) + ", expected " +
                 grouped(format_version));
  }
  unpacker body(bytes.subspan(body_begin, static_cast<std::size_t>(body_bytes)));
  kept_description out;
  pass_description(body, out);
  if (!head.is_complete() || !body.is_complete())
    return wrong("the model description is truncated or out of range");
  if (out.tensors.size() != out.contents.tensors.size()) {
    return wrong("there are " + grouped(out.tensors.size()) + " tensor placements, expected " +
                 grouped(out.contents.tensors.size()));
  }
  for (const composite_info& c : out.contents.composites) {
    if (c.file >= out.contents.files.size())
      return wrong("its file is not listed").in(printable(c.name));
  }
  for (const unreadable_info& object : out.contents.unreadable) {
    if (object.file >= out.contents.files.size())
      return wrong("its file is not listed").in(printable(object.name));
  }
  if (!out.device_regions.empty() && !region_bytes.empty()) {
    return wrong("the model is on a device, but host memory was received too");
  }
  std::vector<std::uint64_t> sizes(region_bytes.begin(), region_bytes.end());
  for (const exported_memory& memory : out.device_regions) sizes.push_back(memory.bytes);
  for (std::size_t t = 0; t < out.tensors.size(); ++t) {
    auto status = check_tensor(out, t, sizes);
    if (!status) return status.error().in(tensor_place(out.contents.tensors[t].name));
  }
  if (const auto name = duplicate_name(out.contents))
    return wrong("duplicate tensor name").in(tensor_place(*name));
  return out;
}

}  // namespace ringload::inline v0::detail
