// SPDX-License-Identifier: Apache-2.0

#include "formats/pytorch/dcp.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "formats/description_budget.hpp"
#include "formats/pytorch/dcp_boxes.hpp"
#include "formats/pytorch/pickle.hpp"
#include "formats/pytorch/torch_names.hpp"
#include "formats/pytorch/torch_state.hpp"
#include "formats/pytorch/torch_tensor.hpp"
#include "formats/shape.hpp"
#include "formats/text/malformed.hpp"
#include "formats/text/path_beneath.hpp"

namespace ringload::inline v0 {

namespace {

using dims = std::vector<std::uint64_t>;

constexpr std::size_t attributes_max = 64;  // Limit for one object. PyTorch writes a few.
// A name or path counts as one more visit for each of this number of bytes.
constexpr std::size_t visit_bytes = 256;

// A range of a file that stores one box of a tensor.
struct dcp_item {
  std::string_view path;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::optional<std::size_t> box;  // Position of the box in the pieces of its tensor.
};

class metadata_reader {
 public:
  metadata_reader(const pickle& in, strictness strictness, std::uint64_t file_bytes)
      : in_(in), strict_(strictness == strictness::strict), budget_(strictness, file_bytes) {}

  result<file_entries> run();

 private:
  bool is_object(pickle_value v, std::string_view name) const;
  result<pickle_value> attribute(pickle_value object, std::string_view name) const;
  result<std::span<const pickle_value>> pairs(pickle_value object, std::string_view name) const;
  result<void> read_items(pickle_value root);
  result<dcp_item> item_of(pickle_value info) const;
  result<void> add(std::string_view name, pickle_value description);
  result<torch_element> element(pickle_value description) const;
  result<entry> tensor(const std::string& name, pickle_value description);
  result<void> add_box(const std::string& name, pickle_value chunk, std::vector<piece>& boxes);
  result<void> count_visits(std::size_t visits, std::size_t text_bytes);
  std::uint32_t file_of(std::string_view path);

  const pickle& in_;
  const bool strict_;
  description_budget budget_;
  std::uint64_t visits_ = 0;
  std::set<std::string_view> names_;  // The names of the tensors.
  std::map<std::pair<std::string_view, dims>, dcp_item> items_;
  std::map<std::string, std::uint32_t, std::less<>> files_;
  file_entries entries_;
  std::uint64_t left_out_ = 0;
  std::string first_left_out_;
};

// Returns true if `v` is an object of the class `name` of torch.distributed.
bool metadata_reader::is_object(pickle_value v, std::string_view name) const {
  if (!v.has_kind(pickle_kind::call) || !in_.callee(v).has_kind(pickle_kind::global)) return false;
  const pickle_global& type = in_.global(in_.callee(v));
  return type.name == name && type.module.starts_with("torch.distributed.");
}

result<pickle_value> metadata_reader::attribute(pickle_value object, std::string_view name) const {
  const pickle_value state = in_.state(object);
  if (state.has_kind(pickle_kind::dict)) {
    const auto& items = in_.container(state);
    if (items.size() > 2 * attributes_max) {
      return fault{
          errc::header_too_large, "",
          "an object of the metadata has more than " + grouped(attributes_max) + " attributes"};
    }
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      if (items[i].has_kind(pickle_kind::text) && in_.text(items[i]) == name) return items[i + 1];
    }
  }
  return malformed("an object of the metadata has no '" + std::string(name) + "'");
}

// Returns the keys and values of a dictionary. The dictionary is the attribute `name` of `object`.
result<std::span<const pickle_value>> metadata_reader::pairs(pickle_value object,
                                                             std::string_view name) const {
  auto value = attribute(object, name);
  if (!value) return value.error();
  if (value->has_kind(pickle_kind::dict)) return std::span(in_.container(*value));
  return malformed("'" + std::string(name) + "' of the metadata is not a dictionary");
}

result<dcp_item> metadata_reader::item_of(pickle_value info) const {
  if (!is_object(info, "_StorageInfo"))
    return malformed("the location of an item has an unknown type");
  auto path = attribute(info, "relative_path");
  if (!path) return path.error();
  auto offset = attribute(info, "offset");
  if (!offset) return offset.error();
  auto length = attribute(info, "length");
  if (!length) return length.error();
  if (!path->has_kind(pickle_kind::text) || !offset->has_kind(pickle_kind::integer) ||
      !length->has_kind(pickle_kind::integer) || offset->integer() < 0 || length->integer() < 0) {
    return malformed("the location of an item must be a path, an offset and a length");
  }
  if (const auto transforms = attribute(info, "transform_descriptors")) {
    const bool is_empty =
        transforms->has_kind(pickle_kind::none) ||
        (transforms->has_kind(pickle_kind::list) && in_.container(*transforms).empty()) ||
        (transforms->has_kind(pickle_kind::tuple) && transforms->b() == 0);
    if (!is_empty)
      return unsupported("an item was transformed by an extension when it was written");
  }
  return dcp_item{in_.text(*path), static_cast<std::uint64_t>(offset->integer()),
                  static_cast<std::uint64_t>(length->integer()), std::nullopt};
}

result<void> metadata_reader::count_visits(std::size_t visits, std::size_t text_bytes) {
  visits_ += visits * (1 + text_bytes / visit_bytes);
  if (visits_ <= dcp_visits_max) return {};
  return fault{errc::header_too_large, "",
               "the metadata has too many chunks, repeats its chunks too often, or has too long "
               "names"};
}

result<void> metadata_reader::read_items(pickle_value root) {
  auto storage = pairs(root, "storage_data");
  if (!storage) return storage.error();
  for (std::size_t i = 0; i + 1 < storage->size(); i += 2) {
    const pickle_value index = (*storage)[i];
    if (!is_object(index, "MetadataIndex"))
      return malformed("the key of an item is not a MetadataIndex");
    auto name = attribute(index, "fqn");
    if (!name) return name.error();
    if (!name->has_kind(pickle_kind::text)) return malformed("the name of an item is not text");
    if (auto status = count_visits(1, in_.text(*name).size()); !status) return status.error();
    // Only items of tensors have offsets.
    const auto offsets = attribute(index, "offset");
    if (!offsets || offsets->has_kind(pickle_kind::none)) continue;
    auto origin = dims_of(in_, *offsets);
    if (!origin) return origin.error().in(tensor_place(std::string(in_.text(*name))));
    auto item = item_of((*storage)[i + 1]);
    if (!item) return item.error().in(tensor_place(std::string(in_.text(*name))));
    items_[{in_.text(*name), std::move(*origin)}] = *item;
  }
  return {};
}

result<torch_element> metadata_reader::element(pickle_value description) const {
  auto properties = attribute(description, "properties");
  if (!properties) return properties.error();
  const pickle_value state = in_.state(*properties);
  pickle_value type;
  if (state.has_kind(pickle_kind::tuple) && state.b() > 0) {
    type = in_.tuple(state)[0];
  } else {
    auto value = attribute(*properties, "dtype");
    if (!value) return value.error();
    type = *value;
  }
  if (!type.has_kind(pickle_kind::global) || role_of(in_.global(type)) != torch_role::dtype) {
    return malformed("its dtype is not a dtype of PyTorch");
  }
  const auto known = element_of(in_.global(type));
  if (known && known->dtype && !known->is_f4_pair) return *known;
  return unsupported("tensors of '" + full_name(in_.global(type)) + "' are not supported");
}

std::uint32_t metadata_reader::file_of(std::string_view path) {
  const auto number = static_cast<std::uint32_t>(entries_.external_files.size() + 1);
  const auto [known, is_new] = files_.emplace(std::string(path), number);
  if (is_new) entries_.external_files.emplace_back(path);
  return known->second;
}

// Adds the box of a chunk to `boxes`. Ignores boxes without elements and repeated boxes.
result<void> metadata_reader::add_box(const std::string& name, pickle_value chunk,
                                      std::vector<piece>& boxes) {
  if (!is_object(chunk, "ChunkStorageMetadata"))
    return malformed("one of its chunks has an unknown type");
  auto offsets = attribute(chunk, "offsets");
  auto sizes = attribute(chunk, "sizes");
  if (!offsets || !sizes) return malformed("one of its chunks has no offsets or no sizes");
  auto origin = dims_of(in_, *offsets);
  auto extent = dims_of(in_, *sizes);
  if (!origin || !extent) return malformed("the offsets or sizes of a chunk are not integers");
  piece out;
  out.origin = std::move(*origin);
  out.extent = std::move(*extent);
  if (std::ranges::find(out.extent, 0U) != out.extent.end()) return {};
  const auto item = items_.find({name, out.origin});
  if (item == items_.end()) {
    return malformed("no item has its chunk that begins at " + shape_text(out.origin));
  }
  if (item->second.box) {
    if (boxes[*item->second.box].extent == out.extent) return {};
    return malformed("two chunks of different sizes begin at " + shape_text(out.origin));
  }
  if (auto status = count_visits(1, item->second.path.size()); !status) return status.error();
  const std::string path = path_beneath(item->second.path);
  if (path.empty()) {
    return fault{errc::path_outside_source, "",
                 "its data is in '" + printable(item->second.path) +
                     "', expected a path inside the folder of the checkpoint"};
  }
  out.stored.file = file_of(path);
  out.stored.offset = item->second.offset;
  out.stored.bytes = out.stored.decoded_bytes = item->second.bytes;
  item->second.box = boxes.size();
  boxes.push_back(std::move(out));
  return {};
}

result<entry> metadata_reader::tensor(const std::string& name, pickle_value description) {
  auto type = element(description);
  if (!type) return type.error();
  auto size = attribute(description, "size");
  if (!size) return size.error();
  auto shape = dims_of(in_, *size);
  if (!shape) return shape.error();
  auto chunks = attribute(description, "chunks");
  if (!chunks || !chunks->has_kind(pickle_kind::list))
    return malformed("the tensor has no list of chunks");
  entry out;
  out.name = name;
  out.dtype = *type->dtype;
  out.shape = std::move(*shape);
  const auto count = element_count(out.shape);
  const auto bytes = count ? checked_multiply(*count, std::uint64_t{type->bytes}) : count;
  if (!bytes) {
    return fault{errc::size_overflow, "",
                 "a tensor of shape " + shape_text(out.shape) + " does not fit in 64 bits"};
  }
  out.bytes = *bytes;
  auto form = std::make_shared<stored_form>();
  const auto& chunk_list = in_.container(*chunks);
  auto counted = count_visits(chunk_list.size(), name.size());
  if (!counted) return counted.error();
  for (const pickle_value chunk : chunk_list) {
    if (auto status = add_box(name, chunk, form->pieces); !status) return status.error();
  }
  if (auto status = check_dcp_boxes(form->pieces, out.shape); !status) return status.error();
  if (!form->pieces.empty()) out.stored = std::move(form);
  return out;
}

result<void> metadata_reader::add(std::string_view name, pickle_value description) {
  if (utf8_valid_bytes(name) != name.size()) return malformed("the name of a tensor is not UTF-8");
  if (is_object(description, "BytesStorageMetadata")) {
    if (left_out_++ == 0) first_left_out_ = printable(name);
    return {};
  }
  if (!is_object(description, "TensorStorageMetadata")) {
    return malformed("'" + printable(name) + "' is neither a tensor nor bytes");
  }
  const std::string text(name);
  if (!names_.insert(name).second) {
    return fault{errc::duplicate_tensor, tensor_place(text), "the tensor occurs twice"};
  }
  auto parsed = tensor(text, description);
  if (parsed) {
    if (!budget_.take_tensor(text.size(), parsed->shape.size())) {
      return fault{errc::header_too_large, tensor_place(text), budget_.cause()};
    }
    entries_.tensors.push_back(std::move(*parsed));
    return {};
  }
  if (strict_ || parsed.error().code != errc::unsupported_feature) {
    return parsed.error().in(tensor_place(text));
  }
  entries_.notes.push_back(tensor_place(text) + " is left out: " + parsed.error().cause());
  return {};
}

result<file_entries> metadata_reader::run() {
  if (!is_object(in_.root, "Metadata")) {
    return fault{errc::not_a_checkpoint, "byte 0",
                 "this is a Python pickle, but not the metadata of torch.distributed.checkpoint"};
  }
  if (auto status = read_items(in_.root); !status) return status.error();
  auto state = pairs(in_.root, "state_dict_metadata");
  if (!state) return state.error();
  for (std::size_t i = 0; i + 1 < state->size(); i += 2) {
    if (!(*state)[i].has_kind(pickle_kind::text))
      return malformed("a key of the state is not text");
    if (entries_.tensors.size() == torch_tensors_max) {
      return fault{errc::header_too_large, "",
                   "the metadata has more than " + grouped(torch_tensors_max) + " tensors"};
    }
    if (auto status = add(in_.text((*state)[i]), (*state)[i + 1]); !status) return status.error();
  }
  std::ranges::sort(entries_.tensors, {}, &entry::name);
  if (left_out_ != 0) {
    entries_.notes.push_back(grouped(left_out_) +
                             " values that are not tensors are left out, the first is '" +
                             first_left_out_ + "'");
  }
  return std::move(entries_);
}

}  // namespace

bool is_dcp_metadata(std::string_view name) noexcept {
  return name.substr(name.rfind('/') + 1) == dcp_metadata_name;
}

result<file_entries> parse_dcp(input& from, strictness strictness) {
  if (from.bytes() > dcp_metadata_bytes_max) {
    return fault{errc::header_too_large, "",
                 "the metadata has " + grouped(from.bytes()) + " bytes, the limit is " +
                     grouped(dcp_metadata_bytes_max)};
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(from.bytes()));
  if (auto status = from.read_into(0, bytes); !status) return status.error();
  auto state = read_pickle(bytes, 0, {dcp_metadata_bytes_max, dcp_values_max});
  if (!state) return state.error();
  return metadata_reader(*state, strictness, from.bytes()).run();
}

}  // namespace ringload::inline v0
