// SPDX-License-Identifier: Apache-2.0
#include "keeper/description.hpp"

#include <algorithm>
#include <string>

#include "base/catch_as_fault.hpp"
#include "base/checked.hpp"
#include "base/numeric/convert.hpp"
#include "base/printable.hpp"
#include "base/serialize.hpp"
#include "base/utf8.hpp"

namespace ringload::inline v0::detail {

namespace {

// The head: the version and the number of bytes that follow.
constexpr std::uint64_t version = 3;
constexpr std::size_t head_bytes = 16;
constexpr std::size_t device_text_max = 256;
constexpr std::uint64_t kind_last = element_kind_count + block_kind_count - 1;

// `Way` is a packer or an unpacker. The message is const for a packer.

void pass_value(packer& way, const attribute& value) { way.text(value.encoded()); }
void pass_value(unpacker& way, attribute& value) {
  std::string encoded;
  way.text(encoded);
  if (way.failed()) return;
  auto read =
      catch_as_fault([&] { return result<attribute>(attribute::cbor(std::move(encoded))); });
  if (read) {
    value = std::move(*read);
  } else {
    way.refuse();
  }
}

void pass_attributes(auto& way, auto& items) {
  way.list(items, [](auto& w, auto& pair) {
    w.text(pair.first);
    pass_value(w, pair.second);
  });
}

void pass_numbers(auto& way, auto& items) {
  way.list(items, [](auto& w, auto& item) { w.number(item); });
}

void pass_tensor(auto& way, auto& t) {
  way.text(t.name);
  way.number(t.dtype, dtype_count - 1);
  pass_numbers(way, t.shape);
  way.number(t.file);
  way.number(t.offset);
  way.number(t.bytes);
  way.text(t.encoding);
  way.number(t.stored_bytes);
  way.text(t.type);
  pass_numbers(way, t.original_shape);
  way.text(t.digest);
  pass_attributes(way, t.attributes);
}

void pass_composite(auto& way, auto& c) {
  way.text(c.name);
  way.text(c.layout);
  way.text(c.type);
  pass_numbers(way, c.shape);
  way.list(c.parts, [](auto& w, auto& part) { w.text(part); });
  way.number(c.file);
  pass_attributes(way, c.attributes);
  way.text(c.separator);
}

void pass_description(auto& way, auto& description) {
  way.list(description.contents.files, [](auto& w, auto& file) {
    w.text(file.path);
    w.number(file.bytes);
    w.text(file.format);
  });
  way.list(description.contents.tensors, [](auto& w, auto& t) { pass_tensor(w, t); });
  way.list(description.contents.composites, [](auto& w, auto& c) { pass_composite(w, c); });
  pass_attributes(way, description.contents.metadata);
  way.list(description.contents.notes, [](auto& w, auto& note) { w.text(note); });
  way.list(description.where, [](auto& w, auto& place) {
    w.number(place.region);
    w.number(place.offset);
    w.number(place.cast.from, kind_last);
    w.number(place.cast.to, kind_last);
  });
  way.list(description.on_device, [](auto& w, auto& memory) {
    w.text(memory.on, device_text_max);
    w.text(memory.handle, device_text_max);
    w.number(memory.bytes);
  });
}

fault wrong(std::string cause) { return {errc::malformed_message, "", std::move(cause)}; }

// Returns the bytes of a tensor. Returns nothing if the bits are not whole bytes or the size
// overflows.
std::optional<std::uint64_t> bytes_of(std::span<const std::uint64_t> shape, std::uint64_t bits) {
  std::optional<std::uint64_t> total = bits;
  for (const std::uint64_t size : shape) total = total ? checked_multiply(*total, size) : total;
  if (!total || *total % 8 != 0) return std::nullopt;
  return *total / 8;
}

// Returns the bytes after loading. Returns nothing if type, shape and size are inconsistent.
std::optional<std::uint64_t> landed_bytes(const tensor_info& t, conversion target) {
  const auto stored = bytes_of(t.shape, bits(t.dtype));
  if (!stored || *stored != t.bytes) return std::nullopt;
  if (!target.needed()) return t.bytes;
  if (is_block(target.to) || t.bytes % target.from_bytes() != 0) return std::nullopt;
  if (!is_block(target.from) && dtype_of(target.from) != t.dtype) return std::nullopt;
  const auto& shape = is_block(target.from) ? t.original_shape : t.shape;
  const auto landed = bytes_of(shape, bits(dtype_of(target.to)));
  if (!landed || checked_multiply(t.bytes / target.from_bytes(), target.to_bytes()) != landed) {
    return std::nullopt;
  }
  return landed;
}

result<void> check_tensor(const kept_description& description, std::size_t t,
                          std::span<const std::uint64_t> region_bytes) {
  const tensor_info& info = description.contents.tensors[t];
  const kept_tensor& where = description.where[t];
  if (utf8_valid_bytes(info.name) != info.name.size()) return wrong("its name is not UTF-8");
  if (info.file >= description.contents.files.size()) return wrong("its file is not listed");
  const auto bytes = landed_bytes(info, where.cast);
  if (!bytes) return wrong("its type, shape and size are inconsistent");
  if (where.region >= region_bytes.size()) return wrong("its memory region was not received");
  const std::uint64_t room = region_bytes[where.region];
  if (where.offset > room || *bytes > room - where.offset) {
    return wrong("it ends past the " + grouped(room) + " bytes of its memory");
  }
  const dtype landed = where.cast.needed() ? dtype_of(where.cast.to) : info.dtype;
  if (where.offset % alignment(landed) != 0) return wrong("it is not aligned");
  return {};
}

result<void> check_names(const catalog& contents) {
  std::vector<std::string_view> names;
  names.reserve(contents.tensors.size());
  for (const tensor_info& t : contents.tensors) names.push_back(t.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return {};
  return wrong("duplicate tensor name").in(tensor_place(*twice));
}

}  // namespace

std::vector<std::byte> packed(const kept_description& description) {
  packer body;
  pass_description(body, description);
  const std::vector<std::byte> bytes = body.take();
  packer to;
  to.number(version);
  to.number(std::uint64_t{bytes.size()});
  std::vector<std::byte> out = to.take();
  out.insert(out.end(), bytes.begin(), bytes.end());
  return out;
}

result<kept_description> unpacked_description(std::span<const std::byte> from,
                                              std::span<const std::uint64_t> region_bytes) {
  unpacker head(from.first(std::min(from.size(), head_bytes)));
  std::uint64_t found = 0;
  std::uint64_t bytes = 0;
  head.number(found);
  head.number(bytes, from.size() - std::min(from.size(), head_bytes));
  if (found != version) {
    return wrong("the model description has version " + grouped(found) + ", expected " +
                 grouped(version));
  }
  unpacker in(from.subspan(std::min(from.size(), head_bytes), static_cast<std::size_t>(bytes)));
  kept_description out;
  pass_description(in, out);
  if (!head.is_complete() || !in.is_complete())
    return wrong("the model description is truncated or out of range");
  if (out.where.size() != out.contents.tensors.size()) {
    return wrong("there are " + grouped(out.where.size()) + " places, expected " +
                 grouped(out.contents.tensors.size()));
  }
  for (const composite_info& c : out.contents.composites) {
    if (c.file >= out.contents.files.size())
      return wrong("its file is not listed").in(printable(c.name));
  }
  if (!out.on_device.empty() && !region_bytes.empty()) {
    return wrong("the model is on a device, but other memory was received too");
  }
  std::vector<std::uint64_t> sizes(region_bytes.begin(), region_bytes.end());
  for (const exported_memory& memory : out.on_device) sizes.push_back(memory.bytes);
  for (std::size_t t = 0; t < out.where.size(); ++t) {
    auto status = check_tensor(out, t, sizes);
    if (!status) return status.error().in(tensor_place(out.contents.tensors[t].name));
  }
  if (auto status = check_names(out.contents); !status) return status.error();
  return out;
}

}  // namespace ringload::inline v0::detail
