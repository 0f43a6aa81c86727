// SPDX-License-Identifier: Apache-2.0

#include "formats/pytorch/torch_tensor.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "formats/pytorch/torch_names.hpp"
#include "formats/shape.hpp"
#include "formats/text/malformed.hpp"

namespace ringload::inline v0 {

namespace {

using dims = std::vector<std::uint64_t>;

constexpr std::size_t torch_dims_max = 64;  // PyTorch has the same limit.
// Limit for the metadata of a tensor. PyTorch writes a few entries.
constexpr std::size_t metadata_entries_max = 64;

result<std::uint64_t> natural(pickle_value v, std::string_view number) {
  if (!v.has_kind(pickle_kind::integer) || v.integer() < 0) {
    return malformed(std::string(number) + " is not an integer of 0 or more");
  }
  return static_cast<std::uint64_t>(v.integer());
}

// Returns true for {"conj": True} and {"neg": True}: the stored elements of the tensor must be
// conjugated or negated.
result<bool> is_lazy(const pickle& in, pickle_value metadata) {
  if (!metadata.has_kind(pickle_kind::dict)) return false;
  const auto& items = in.container(metadata);
  if (items.size() > 2 * metadata_entries_max) {
    return fault{errc::header_too_large, "",
                 "its metadata has " + grouped(items.size() / 2) + " entries, the limit is " +
                     grouped(metadata_entries_max)};
  }
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (!items[i].has_kind(pickle_kind::text)) continue;
    const std::string_view key = in.text(items[i]);
    if ((key == "conj" || key == "neg") && items[i + 1].has_kind(pickle_kind::boolean) &&
        items[i + 1].boolean()) {
      return true;
    }
  }
  return false;
}

// The arguments of a call. The ranges are not yet checked against the storage.
struct description {
  torch_identity storage;
  torch_element element;
  std::uint64_t offset = 0;  // Number of elements from the beginning of the storage.
  dims size;
  dims stride;
};

result<torch_element> element_type(const pickle& in, const torch_identity& storage,
                                   std::optional<pickle_value> dtype) {
  auto element = element_of(storage.type);
  if (dtype) {
    const bool named = dtype->has_kind(pickle_kind::global);
    element = named ? element_of(in.global(*dtype)) : std::nullopt;
    if (!element) return malformed("it is rebuilt with an argument that is not a dtype");
    if (!element->dtype) {
      return unsupported("its dtype is " + full_name(in.global(*dtype)) +
                         ", which is not supported");
    }
    return *element;
  }
  if (element->is_untyped_storage) {
    element->dtype = ringload::dtype::u8;
  } else if (!element->dtype) {
    return unsupported("it is a quantised tensor, of " + full_name(storage.type));
  }
  return *element;
}

result<description> describe(const pickle& in, const torch_call& call) {
  const bool typed = role_of(call.function) == torch_role::rebuild_typed;
  const auto arguments = call.arguments;
  const std::size_t metadata_at = typed ? 7 : 6;
  if (arguments.size() < (typed ? 7 : 4)) return malformed("it is rebuilt with too few arguments");
  if (!arguments[0].has_kind(pickle_kind::persistent)) {
    return malformed("it is rebuilt from an object that is not a storage");
  }
  description out;
  auto storage = identity_of(in, arguments[0]);
  if (!storage) return storage.error();
  auto element = element_type(in, *storage, typed ? std::optional(arguments[6]) : std::nullopt);
  if (!element) return element.error();
  auto offset = natural(arguments[1], "its offset");
  if (!offset) return offset.error();
  auto size = dims_of(in, arguments[2]);
  if (!size) return size.error().in("size");
  auto stride = dims_of(in, arguments[3]);
  if (!stride) return stride.error().in("stride");
  if (size->size() != stride->size()) {
    return malformed("it has " + grouped(size->size()) + " dimensions but " +
                     grouped(stride->size()) + " strides");
  }
  if (arguments.size() > metadata_at) {
    auto lazy = is_lazy(in, arguments[metadata_at]);
    if (!lazy) return lazy.error();
    if (*lazy) return unsupported("it is a conjugate or negative view, which is not supported");
  }
  out.storage = *storage;
  out.element = *element;
  out.offset = *offset;
  out.size = std::move(*size);
  out.stride = std::move(*stride);
  return out;
}

// Returns the number of elements of the storage from the first to the last element of the tensor.
std::optional<std::uint64_t> reach(const description& tensor) {
  std::uint64_t last = 0;
  for (std::size_t d = 0; d < tensor.size.size(); ++d) {
    if (tensor.size[d] == 0) return 0;
    const auto distance = checked_multiply(tensor.size[d] - 1, tensor.stride[d]);
    const auto sum = distance ? checked_add(last, *distance) : distance;
    if (!sum) return std::nullopt;
    last = *sum;
  }
  return checked_add(last, 1);
}

// A tensor without elements is contiguous, whatever its strides are.
bool is_contiguous(const description& tensor) {
  if (std::ranges::find(tensor.size, 0U) != tensor.size.end()) return true;
  std::uint64_t expected = 1;
  for (std::size_t d = tensor.size.size(); d-- > 0;) {
    if (tensor.size[d] == 1) continue;
    if (tensor.stride[d] != expected) return false;
    expected *= tensor.size[d];
  }
  return true;
}

std::uint8_t swapped(const torch_element& element) {
  const unsigned unit = (*element.dtype == dtype::c64 || *element.dtype == dtype::c128)
                            ? element.bytes / 2U
                            : element.bytes;
  return unit == 1 ? std::uint8_t{0} : static_cast<std::uint8_t>(unit);
}

std::shared_ptr<const stored_form> form_of(const description& tensor, stored_stream stream,
                                           std::uint64_t first_byte, std::uint8_t swap) {
  auto form = std::make_shared<stored_form>();
  form->swap_bytes = swap;
  piece& whole = form->pieces.emplace_back();
  whole.stored = std::move(stream);
  whole.first_byte = first_byte;
  whole.origin.assign(tensor.size.size(), 0);
  whole.extent = tensor.size;
  for (std::size_t d = 0; d < tensor.size.size(); ++d) {
    // The stride of a dimension with one element is not used, and may have any value.
    whole.stride_bytes.push_back(tensor.size[d] == 1 ? 0 : tensor.stride[d] * tensor.element.bytes);
  }
  return form;
}

}  // namespace

const torch_storage* torch_storages::find(std::string_view key) const noexcept {
  const auto position = std::ranges::lower_bound(storages, key, {}, &torch_storage::key);
  return position != storages.end() && position->key == key ? &*position : nullptr;
}

result<torch_identity> identity_of(const pickle& in, pickle_value persistent) {
  const pickle_value name = in.identity(persistent);
  const auto parts =
      name.has_kind(pickle_kind::tuple) ? in.tuple(name) : std::span<const pickle_value>();
  const bool is_storage =
      parts.size() >= 5 && parts[0].has_kind(pickle_kind::text) && in.text(parts[0]) == "storage" &&
      parts[1].has_kind(pickle_kind::global) && parts[2].has_kind(pickle_kind::text);
  if (!is_storage)
    return malformed("the pickle refers to an external object that is not a storage");
  torch_identity out;
  out.type = in.global(parts[1]);
  const auto element = element_of(out.type);
  if (!element || role_of(out.type) != torch_role::storage) {
    return malformed("'" + full_name(out.type) + "' is not a storage class");
  }
  out.element_bytes = element->bytes;
  out.key = in.text(parts[2]);
  auto elements = natural(parts[4], "the number of elements of a storage");
  if (!elements) return elements.error();
  out.elements = *elements;
  if (parts.size() > 5 && parts[5].has_kind(pickle_kind::tuple)) {
    const auto view = in.tuple(parts[5]);
    if (view.size() != 3) return malformed("the view of a storage has no key, offset and size");
    auto offset = natural(view[1], "the offset of a view");
    if (!offset) return offset.error();
    out.view_offset = *offset;
  }
  return out;
}

result<std::vector<std::uint64_t>> dims_of(const pickle& in, pickle_value v) {
  if (v.has_kind(pickle_kind::call) && in.callee(v).has_kind(pickle_kind::global) &&
      role_of(in.global(in.callee(v))) == torch_role::size) {
    const auto arguments = in.tuple(in.arguments(v));
    if (arguments.size() == 1) v = arguments[0];
  }
  std::span<const pickle_value> items;
  if (v.has_kind(pickle_kind::tuple)) {
    items = in.tuple(v);
  } else if (v.has_kind(pickle_kind::list)) {
    items = in.container(v);
  } else {
    return malformed("expected a tuple of integers");
  }
  if (items.size() > torch_dims_max) {
    return malformed("there are more than " + std::to_string(torch_dims_max) + " dimensions");
  }
  std::vector<std::uint64_t> out;
  out.reserve(items.size());
  for (const pickle_value item : items) {
    auto dim = natural(item, "an item");
    if (!dim) return dim.error();
    out.push_back(*dim);
  }
  return out;
}

result<entry> rebuilt_tensor(const pickle& in, const torch_call& call,
                             const torch_storages& storages) {
  auto described = describe(in, call);
  if (!described) return described.error();
  description& tensor = *described;
  const std::string key = "storage '" + printable(tensor.storage.key) + "'";
  const torch_storage* storage = storages.find(tensor.storage.key);
  if (storage == nullptr) {
    return fault{errc::missing_tensor, {}, "its " + key + " is not in the file"};
  }
  const std::uint64_t unit = tensor.element.bytes;
  const auto stated = checked_multiply(tensor.storage.elements, tensor.storage.element_bytes);
  if (!stated || *stated != storage->stream.decoded_bytes) {
    return fault{errc::wrong_tensor_bytes,
                 {},
                 "its " + key + " would have " + grouped(tensor.storage.elements) +
                     " elements of " + grouped(tensor.storage.element_bytes) + " bytes, but has " +
                     grouped(storage->stream.decoded_bytes) + " bytes"};
  }
  const auto elements = element_count(tensor.size);
  const auto bytes = elements ? checked_multiply(*elements, unit) : elements;
  const auto touched = reach(tensor);
  const auto begin = checked_add(tensor.offset, tensor.storage.view_offset);
  const auto end = touched && begin ? checked_add(*begin, *touched) : std::nullopt;
  if (!bytes || !end) {
    return fault{errc::size_overflow,
                 {},
                 "a tensor of shape " + shape_text(tensor.size) + " does not fit in 64 bits"};
  }
  if (*touched != 0 && *end > *stated / unit) {  // The offset of an empty tensor is not used.
    return fault{errc::extent_outside_file,
                 {},
                 "its last element would be element " + grouped(*end) + " of its " + key +
                     ", which has " + grouped(*stated / unit) + " elements"};
  }

  entry out;
  out.dtype = *tensor.element.dtype;
  out.bytes = *bytes;
  out.shape = tensor.size;
  stored_stream stream = storage->stream;
  std::uint64_t first_byte = *touched == 0 ? 0 : *begin * unit;
  out.offset = stream.offset;
  if (stream.stored_codec == codec::raw) {  // Only the bytes of the tensor are read.
    stream.offset += first_byte;
    out.offset = stream.offset;
    stream.bytes = stream.decoded_bytes = *touched * unit;
    stream.crc32.reset();
    first_byte = 0;
  }
  const bool contiguous = is_contiguous(tensor);
  if (tensor.element.is_f4_pair) {
    if (!contiguous || out.shape.empty()) return unsupported("its pairs of F4 are not contiguous");
    out.shape.back() *= 2;
    tensor.size = out.shape;
  }
  const std::uint8_t swap = storages.big_endian ? swapped(tensor.element) : std::uint8_t{0};
  if (out.bytes == 0 || (contiguous && swap == 0 && stream.stored_codec == codec::raw)) return out;
  if (tensor.element.is_f4_pair) return unsupported("its pairs of F4 are stored compressed");
  out.stored = form_of(tensor, std::move(stream), first_byte, swap);
  return out;
}

std::uint64_t repeated_bytes(const entry& tensor) noexcept {
  if (tensor.stored == nullptr) return 0;
  const piece& whole = tensor.stored->pieces.front();
  std::uint64_t reach = bits(tensor.dtype) / 8;
  for (std::size_t d = 0; d < whole.extent.size(); ++d) {
    reach += (whole.extent[d] - 1) * whole.stride_bytes[d];
  }
  return tensor.bytes > reach ? tensor.bytes - reach : 0;
}

}  // namespace ringload::inline v0
