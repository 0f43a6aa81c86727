// SPDX-License-Identifier: Apache-2.0
#include "keeper/description.hpp"

#include <algorithm>
#include <string>

#include "core/attempt.hpp"
#include "core/checked.hpp"
#include "core/convert.hpp"
#include "core/packing.hpp"
#include "formats/printable.hpp"
#include "formats/utf8.hpp"

namespace ringload::inline v0::detail {

namespace {

// The head: the version, and how many bytes follow.
constexpr std::uint64_t version = 3;
constexpr std::size_t head_bytes = 16;
constexpr std::size_t device_text_max = 256;
constexpr std::uint64_t kind_last = element_kind_count + block_kind_count - 1;

// `Way` packs or unpacks; what it is given is const or not.

void pass_value(packer& way, const attribute& value) { way.text(value.encoded()); }
void pass_value(unpacker& way, attribute& value) {
  std::string encoded;
  way.text(encoded);
  if (way.failed()) return;
  auto read = attempt([&] { return result<attribute>(attribute::cbor(std::move(encoded))); });
  if (read) {
    value = std::move(*read);
  } else {
    way.refuse();
  }
}

void pass_attributes(auto& way, auto& all) {
  way.list(all, [](auto& w, auto& pair) {
    w.text(pair.first);
    pass_value(w, pair.second);
  });
}

void pass_numbers(auto& way, auto& all) {
  way.list(all, [](auto& w, auto& one) { w.number(one); });
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

void pass_description(auto& way, auto& all) {
  way.list(all.what.files, [](auto& w, auto& file) {
    w.text(file.path);
    w.number(file.bytes);
    w.text(file.format);
  });
  way.list(all.what.tensors, [](auto& w, auto& t) { pass_tensor(w, t); });
  way.list(all.what.composites, [](auto& w, auto& c) { pass_composite(w, c); });
  pass_attributes(way, all.what.metadata);
  way.list(all.what.notes, [](auto& w, auto& note) { w.text(note); });
  way.list(all.where, [](auto& w, auto& place) {
    w.number(place.region);
    w.number(place.offset);
    w.number(place.as.from, kind_last);
    w.number(place.as.to, kind_last);
  });
  way.list(all.on_device, [](auto& w, auto& memory) {
    w.text(memory.on, device_text_max);
    w.text(memory.handle, device_text_max);
    w.number(memory.bytes);
  });
}

fault wrong(std::string cause) { return {errc::malformed_message, "", std::move(cause)}; }

// How many bytes so many elements of so many bits take; empty where that is no whole number, or
// does not fit.
std::optional<std::uint64_t> bytes_of(std::span<const std::uint64_t> shape, std::uint64_t bits) {
  std::optional<std::uint64_t> all = bits;
  for (const std::uint64_t size : shape) all = all ? checked_multiply(*all, size) : all;
  if (!all || *all % 8 != 0) return std::nullopt;
  return *all / 8;
}

// As it has landed; empty where type, shape and size contradict each other.
std::optional<std::uint64_t> landed_bytes(const tensor_info& t, conversion as) {
  const auto stored = bytes_of(t.shape, bits(t.dtype));
  if (!stored || *stored != t.bytes) return std::nullopt;
  if (!as.needed()) return t.bytes;
  if (is_block(as.to) || t.bytes % as.from_bytes() != 0) return std::nullopt;
  if (!is_block(as.from) && dtype_of(as.from) != t.dtype) return std::nullopt;
  const auto& shape = is_block(as.from) ? t.original_shape : t.shape;
  const auto landed = bytes_of(shape, bits(dtype_of(as.to)));
  if (!landed || checked_multiply(t.bytes / as.from_bytes(), as.to_bytes()) != landed) {
    return std::nullopt;
  }
  return landed;
}

result<void> check_tensor(const kept_description& all, std::size_t t,
                          std::span<const std::uint64_t> region_bytes) {
  const tensor_info& info = all.what.tensors[t];
  const kept_tensor& where = all.where[t];
  if (utf8_valid_bytes(info.name) != info.name.size()) return wrong("its name is not UTF-8");
  if (info.file >= all.what.files.size()) return wrong("its file is not listed");
  const auto bytes = landed_bytes(info, where.as);
  if (!bytes) return wrong("its type, its shape and its size contradict each other");
  if (where.region >= region_bytes.size()) return wrong("its memory did not come");
  const std::uint64_t room = region_bytes[where.region];
  if (where.offset > room || *bytes > room - where.offset) {
    return wrong("it ends past the " + grouped(room) + " bytes of its memory");
  }
  const dtype landed = where.as.needed() ? dtype_of(where.as.to) : info.dtype;
  if (where.offset % alignment(landed) != 0) return wrong("it is not aligned");
  return {};
}

result<void> check_names(const catalog& what) {
  std::vector<std::string_view> names;
  names.reserve(what.tensors.size());
  for (const tensor_info& t : what.tensors) names.push_back(t.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return {};
  return wrong("there are two of it").in(tensor_place(*twice));
}

}  // namespace

std::vector<std::byte> packed(const kept_description& of) {
  packer body;
  pass_description(body, of);
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
    return wrong("the model's description has version " + grouped(found) + ", not " +
                 grouped(version));
  }
  unpacker in(from.subspan(std::min(from.size(), head_bytes), static_cast<std::size_t>(bytes)));
  kept_description out;
  pass_description(in, out);
  if (!head.good() || !in.good())
    return wrong("the model's description is cut off, or out of its ranges");
  if (out.where.size() != out.what.tensors.size()) {
    return wrong("there are places for " + grouped(out.where.size()) + " tensors of " +
                 grouped(out.what.tensors.size()));
  }
  for (const composite_info& c : out.what.composites) {
    if (c.file >= out.what.files.size())
      return wrong("its file is not listed").in(printable(c.name));
  }
  if (!out.on_device.empty() && !region_bytes.empty()) {
    return wrong("it lies on a device, and other memory came with it");
  }
  std::vector<std::uint64_t> sizes(region_bytes.begin(), region_bytes.end());
  for (const exported_memory& each : out.on_device) sizes.push_back(each.bytes);
  for (std::size_t t = 0; t < out.where.size(); ++t) {
    auto good = check_tensor(out, t, sizes);
    if (!good) return good.error().in(tensor_place(out.what.tensors[t].name));
  }
  if (auto good = check_names(out.what); !good) return good.error();
  return out;
}

}  // namespace ringload::inline v0::detail
