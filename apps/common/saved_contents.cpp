// SPDX-License-Identifier: Apache-2.0
#include "saved_contents.hpp"

#include <algorithm>
#include <iterator>
#include <ringload/error.hpp>
#include <ringload/save.hpp>
#include <string_view>

#include "json.hpp"
#include "text.hpp"

namespace ringload::tool {

namespace asio = boost::asio;

namespace {

// The keys of the attributes that loads interpret.
constexpr const char* gguf_type_key = "gguf_type";
constexpr const char* logical_type_key = "logical_type";
constexpr const char* original_shape_key = "original_shape";

// Returns true if the logical type is also a dtype of ringload.
bool is_dtype(std::string_view type) {
  constexpr std::string_view known[] = {"f8_e4m3fn",  "f8_e5m2",   "f8_e4m3fnuz", "f8_e5m2fnuz",
                                        "f8_e8m0fnu", "complex64", "complex128"};
  return std::ranges::find(known, type) != std::end(known);
}

void append_attributes(json_object& to, const attributes& all) {
  if (all.empty()) return;
  std::string& text = to.key_of_next("attributes");
  json_object out(text);
  for (const auto& [key, value] : all) {
    std::string& here = out.key_of_next(key);
    if (value.is_text()) {
      append_json(here, value.text());
    } else {
      here += value.text();
    }
  }
  out.close();
}

// Returns the information about a tensor that safetensors cannot store, as JSON. Returns an empty
// string if there is none.
std::string information_lost(const tensor_info& tensor, dtype loaded) {
  const bool typed = !tensor.type.empty() && loaded == tensor.dtype && !is_dtype(tensor.type);
  if (!typed && tensor.attributes.empty()) return {};
  std::string text;
  json_object out(text);
  if (typed) out.field("type", tensor.type);
  append_attributes(out, tensor.attributes);
  out.close();
  return text;
}

std::string text_of(const composite_info& object) {
  std::string text;
  json_object out(text);
  out.field("layout", object.layout).list("shape", object.shape);
  if (!object.type.empty() && !is_dtype(object.type)) out.field("type", object.type);
  json_object parts(out.key_of_next("parts"));
  for (const std::string& part : object.parts) parts.field(part, object.name_of(part));
  parts.close();
  append_attributes(out, object.attributes);
  out.close();
  return text;
}

// Returns true if one object of a .zt file can describe both tensors.
bool have_same_properties(const tensor_info& a, const tensor_info& b) {
  return a.type == b.type && a.original_shape == b.original_shape && a.attributes == b.attributes;
}

}  // namespace

attributes metadata_of(const catalog& all) {
  attributes out;
  std::unordered_set<std::string> keys;
  for (const auto& each : all.metadata) {
    if (keys.insert(each.first).second) out.push_back(each);
  }
  return out;
}

std::unordered_set<std::string> part_names(const catalog& selected) {
  std::unordered_set<std::string> names;
  for (const composite_info& each : selected.composites) {
    for (const std::string& part : each.parts) names.insert(each.name_of(part));
  }
  return names;
}

void check_storable(const tensor_info& tensor, dtype loaded) {
  if (tensor.original_shape.empty() || tensor.type.empty() || loaded != tensor.dtype) return;
  throw error(errc::unsupported_dtype, "tensor '" + printable(tensor.name) + "'",
              "its elements are quantised blocks of " + printable(tensor.type) +
                  ", which safetensors cannot store; --dtype f16, bf16 or f32 dequantises blocks "
                  "of GGUF, and .zt stores all blocks unchanged");
}

std::vector<std::pair<std::string, std::string>> safetensors_metadata(
    const catalog& selected, const loaded_dtype& dtype_of) {
  constexpr std::string_view own_key = "ringload";
  std::vector<std::pair<std::string, std::string>> out;
  std::string earlier;  // The value of `own_key`, from an earlier conversion.
  for (const auto& [key, value] : metadata_of(selected)) {
    if (key == own_key) {
      earlier = value.text();
    } else {
      out.emplace_back(key, value.text());
    }
  }
  std::string tensors;
  for (const tensor_info& each : selected.tensors) {
    const std::string lost = information_lost(each, dtype_of(each));
    if (lost.empty()) continue;
    tensors += tensors.empty() ? "" : ", ";
    append_json(tensors, each.name);
    tensors += ": " + lost;
  }
  std::string objects;
  for (const composite_info& each : selected.composites) {
    objects += objects.empty() ? "" : ", ";
    append_json(objects, each.name);
    objects += ": " + text_of(each);
  }
  if (tensors.empty() && objects.empty()) {
    if (!earlier.empty()) out.emplace_back(own_key, std::move(earlier));
    return out;
  }
  out.emplace_back(own_key, "{\"objects\": {" + objects + "}, \"tensors\": {" + tensors + "}}");
  return out;
}

std::vector<std::pair<std::string, std::string>> safetensors_metadata(const model& source) {
  const loaded_dtype dtype_of = [&source](const tensor_info& info) {
    const tensor loaded = source.find(info.name);
    return loaded ? loaded.dtype() : info.dtype;
  };
  for (const tensor_info& each : source.catalog().tensors) check_storable(each, dtype_of(each));
  return safetensors_metadata(source.catalog(), dtype_of);
}

parts_by_name parts_of(const std::vector<composite_info>& all) {
  parts_by_name out;
  for (const composite_info& each : all) {
    for (const std::string& part : each.parts) out[each.name_of(part)] = {each.name, part};
  }
  return out;
}

object_info object_of(const catalog& all, const composite_info& composite) {
  object_info object;
  object.name = composite.name;
  // The sparse layouts of .zt require parts with certain names and types. Sparse objects of other
  // formats have other parts, so their layouts get a prefix.
  const std::string& format = all.files[composite.file].format;
  const bool taken = format != "zt" && composite.layout.starts_with("sparse_");
  const std::string origin = format == "pytorch" ? "torch_" : format + "_";
  object.layout = (taken ? origin : "") + composite.layout;
  object.shape = composite.shape;
  object.attributes = composite.attributes;
  return object;
}

object_options object_options_of(const catalog& all, const tensor_info& tensor, dtype loaded,
                                 object_options storage) {
  object_options options = std::move(storage);
  options.attributes = tensor.attributes;
  if (tensor.type.empty()) return options;
  if (loaded == tensor.dtype && tensor.original_shape.empty()) options.type = tensor.type;
  if (tensor.original_shape.empty()) return options;
  // .zt stores blocks and packed elements as bytes. The attributes below state their type and
  // shape.
  bool is_gguf = all.files[tensor.file].format == "gguf";
  std::erase_if(options.attributes, [&](const auto& each) {
    is_gguf = is_gguf || each.first == gguf_type_key;
    return each.first == gguf_type_key || each.first == logical_type_key ||
           each.first == original_shape_key;
  });
  if (loaded != tensor.dtype) return options;
  options.attributes.emplace_back(is_gguf ? gguf_type_key : logical_type_key, tensor.type);
  std::string shape;
  for (const std::uint64_t size : tensor.original_shape) {
    shape += (shape.empty() ? "" : ",") + std::to_string(size);
  }
  options.attributes.emplace_back(original_shape_key, attribute::json("[" + shape + "]"));
  return options;
}

asio::awaitable<void> add_model(writer& out, model source, object_options storage) {
  const catalog& contents = source.catalog();
  std::map<std::string_view, const tensor_info*> infos;
  for (const tensor_info& each : contents.tensors) infos[each.name] = &each;
  const parts_by_name parts = parts_of(contents.composites);
  for (const composite_info& each : contents.composites) {
    object_info object = object_of(contents, each);
    co_await out.declare_async(std::move(object));
  }
  const attributes metadata = metadata_of(contents);
  for (const auto& [key, value] : metadata) {
    attribute copied(value);
    co_await out.set_attribute_async(key, std::move(copied));
  }
  const std::vector<tensor_ref> tensors = refs_of(source);
  const std::vector<std::size_t> first = first_of_same(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensor_ref view = tensors[i];
    const tensor_info& info = *infos.at(view.name);
    const std::string& first_name = tensors[first[i]].name;
    const auto part = parts.find(view.name);
    const bool is_alias = first[i] != i && part == parts.end() && !parts.contains(first_name) &&
                          have_same_properties(info, *infos.at(first_name));
    object_options options = object_options_of(contents, info, view.dtype, storage);
    if (is_alias) {
      co_await out.add_alias_async(view.name, first_name);
    } else if (part != parts.end()) {
      view.name = part->second.part;
      co_await out.add_part_async(part->second.object, std::move(view), std::move(options));
    } else {
      co_await out.add_async(std::move(view), std::move(options));
    }
  }
}

}  // namespace ringload::tool
