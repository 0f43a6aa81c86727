// SPDX-License-Identifier: Apache-2.0
// The steps of a writer for a .zt file that add, declare and replace objects.

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "formats/codec/zstd_frame.hpp"
#include "formats/zt/zt_dtype.hpp"
#include "formats/zt/zt_writing.hpp"
#include "save/tensor_bytes.hpp"
#include "save/writer_state.hpp"

namespace ringload::inline v0::detail {

result<std::shared_ptr<writer_state>> writer_state::make_zt(optional_path path,
                                                            writer_options options) {
  auto state = make(path, std::move(options), 0);
  if (!state) return state.error();
  writer_state& job = **state;
  if (auto status = job.run([&job] { return job.open_archive(0); }); !status) return status.error();
  return state;
}

result<void> writer_state::open_archive(std::uint64_t begin) {
  archive_settings settings;
  if (options_.alignment != 0) settings.alignment = options_.alignment;
  const std::uint32_t processors = std::max(1U, std::thread::hardware_concurrency());
  settings.encoders = options_.zstd_threads != 0 ? options_.zstd_threads
                                                 : std::min(processors, frame_queue::encoders_max);
  settings.sha256 = options_.sha256;
  auto new_archive = zt_archive::make(file_, begin, std::move(settings), stop_);
  if (!new_archive) return new_archive.error();
  archive_ = std::move(*new_archive);
  return {};
}

result<zt_archive*> writer_state::archive(std::string_view name) {
  if (auto status = check_not_ended(); !status) return status.error();
  if (archive_) return archive_.get();
  return tensor_fault(name, errc::unsupported_feature, "a safetensors file has only dense tensors");
}

result<zt_component> writer_state::component_of(std::string part, const tensor_ref& tensor,
                                                const object_options& options,
                                                const std::string& name) const {
  const auto element = zt_element_of(tensor.dtype);
  if (!element) {
    return tensor_fault(name, errc::unsupported_dtype,
                        ".zt cannot store " + std::string(ringload::name(tensor.dtype)) +
                            ", expected elements of whole bytes");
  }
  if (options.zstd_level < 0 || options.zstd_level > zstd_level_max) {
    return tensor_fault(name, errc::invalid_saving,
                        "zstd_level is " + std::to_string(options.zstd_level) + ", expected 1 to " +
                            grouped(zstd_level_max) + ", or 0 for raw");
  }
  if (options.digest == digest_algorithm::sha256 && !options_.sha256) {
    return tensor_fault(name, errc::digest_unavailable,
                        "sha256 was requested, but no sha256 hasher is set");
  }
  const auto bytes = stored_bytes(tensor, tensor.dtype);
  if (!bytes) return tensor_fault(name, errc::invalid_tensor, bytes.error().cause());
  zt_component component;
  component.name = std::move(part);
  component.dtype = element->stored;
  component.type = options.type.empty() ? std::string(element->type) : options.type;
  // The offset is not known yet. This temporary offset passes the checks.
  component.offset = zt_alignment;
  component.length = *bytes;
  return component;
}

result<void> writer_state::write_part(std::uint32_t object, zt_component part,
                                      const tensor_ref& tensor, const object_options& options,
                                      const std::string& name) {
  hasher content;
  auto source = make_reader(tensor, name, content);
  if (!source) return source.error();
  const std::uint64_t bytes = *part.length;
  may_damage_file_ = true;
  auto status = archive_->write(object, std::move(part), bytes, *source,
                                {options.zstd_level, options.digest});
  if (!status) return status.error();
  end_content_digest(content, name);
  return {};
}

result<std::string> writer_state::encode_attributes(const attributes& pairs,
                                                    const std::string& name) const {
  attribute_list list;
  for (const auto& [key, value] : pairs) {
    if (utf8_valid_bytes(key) != key.size()) {
      return tensor_fault(name, errc::header_not_utf8,
                          "its attribute '" + printable(key) + "' is not UTF-8");
    }
    if (list.has(key)) {
      return tensor_fault(name, errc::invalid_saving,
                          "duplicate attribute key '" + printable(key) + "'");
    }
    list.set(key, value.encoded());
  }
  return list.to_cbor();
}

result<void> writer_state::drain() {
  may_damage_file_ = true;
  auto status = archive_->take_all_frames();
  may_damage_file_ = !status;
  return status;
}

result<void> writer_state::add(const tensor_ref& tensor, const object_options& options) {
  if (auto status = check_not_ended(); !status) return status.error();
  if (append_) return add_planned(tensor, options);
  auto attributes = encode_attributes(options.attributes, tensor.name);
  if (!attributes) return attributes.error();
  auto data = component_of("data", tensor, options, tensor.name);
  if (!data) return data.error();
  zt_object object;
  object.name = tensor.name;
  object.format = "dense";
  object.shape = tensor.shape;
  object.encoded_attributes = std::move(*attributes);
  object.components.emplace().push_back(*data);
  if (auto status = check_zt_object(object); !status) return status.error().in(file_.place);
  object.components->clear();
  // If the name already exists, declare() returns the error.
  if (archive_->index_of(tensor.name)) return archive_->declare(std::move(object)).error();
  // Creates the backend of the device before declare(), because creating a backend may throw.
  if (tensor.device != host()) (void)backend_of(tensor.device);
  auto known = archive_->declare(std::move(object));
  if (!known) return known.error();
  may_damage_file_ = true;
  return write_part(*known, std::move(*data), tensor, options, tensor.name);
}

result<void> writer_state::declare(const object_info& info) {
  auto target = archive(info.name);
  if (!target) return target.error();
  if (info.layout.empty() || info.layout == "dense") {
    return tensor_fault(
        info.name, errc::invalid_saving,
        "the layout is '" + printable(info.layout) + "', expected a layout other than 'dense'");
  }
  if (utf8_valid_bytes(info.name) != info.name.size() ||
      utf8_valid_bytes(info.layout) != info.layout.size()) {
    return tensor_fault(info.name, errc::header_not_utf8, "its name or its layout is not UTF-8");
  }
  auto attributes = encode_attributes(info.attributes, info.name);
  if (!attributes) return attributes.error();
  zt_object object;
  object.name = info.name;
  object.format = info.layout;
  object.shape = info.shape;
  object.encoded_attributes = std::move(*attributes);
  auto known = (*target)->declare(std::move(object));
  return known ? result<void>() : known.error();
}

result<void> writer_state::add_part(const std::string& object, const tensor_ref& part,
                                    const object_options& options) {
  auto target = archive(object);
  if (!target) return target.error();
  const auto known = (*target)->index_of(object);
  if (!known) return tensor_fault(object, errc::no_such_tensor, "it was not declared");
  if (!options.attributes.empty()) {
    return tensor_fault(object, errc::invalid_saving, "a component cannot have attributes");
  }
  if ((*target)->has_part(*known, part.name)) {
    return tensor_fault(object, errc::duplicate_tensor,
                        "duplicate part '" + printable(part.name) + "'");
  }
  const std::string name = object + "/" + part.name;
  if (utf8_valid_bytes(part.name) != part.name.size()) {
    return tensor_fault(name, errc::header_not_utf8, "its name is not UTF-8");
  }
  auto component = component_of(part.name, part, options, name);
  if (!component) return component.error();
  return write_part(*known, std::move(*component), part, options, name);
}

result<void> writer_state::add_alias(const std::string& name, const std::string& original) {
  auto target = archive(name);
  if (!target) return target.error();
  if (auto status = drain(); !status) return status.error();
  return (*target)->alias(name, original);
}

result<void> writer_state::set_attribute(std::string key, const attribute& value) {
  auto target = archive("");
  if (!target) return target.error();
  if (utf8_valid_bytes(key) != key.size()) {
    return fault{errc::header_not_utf8, file_.place,
                 "the attribute '" + printable(key) + "' is not UTF-8"};
  }
  attributes_.set(std::move(key), value.encoded());
  return {};
}

result<void> writer_state::replace(const tensor_ref& tensor) {
  auto target = archive(tensor.name);
  if (!target) return target.error();
  if (file_.object) {
    return tensor_fault(tensor.name, errc::unsupported_feature,
                        "the elements of an object of a store cannot be replaced");
  }
  if (auto status = drain(); !status) return status.error();
  const zt_object* const known = (*target)->find(tensor.name);
  if (known == nullptr) return tensor_fault(tensor.name, errc::no_such_tensor, "");
  file_entries entries;
  const zt_blob_rules anywhere = {zt_magic.size(), INT64_MAX, 1};
  if (auto problem = add_zt_object(*known, anywhere, entries)) return *problem;
  if (entries.tensors.empty()) {
    return tensor_fault(tensor.name, errc::unsupported_feature,
                        "only dense tensors can be replaced");
  }
  const entry& stored = entries.tensors.front();
  const bool is_plain = entries.composites.empty();
  // An object of a packed or unknown type has two shapes: the shape in logical elements, and the
  // shape in stored elements. `tensor` must have the shape in stored elements.
  auto same = check_dtype_and_shape(tensor, is_plain ? stored.dtype : tensor.dtype,
                                    is_plain ? stored.shape : *known->shape);
  if (!same) return same;
  hasher content;
  auto source = make_reader(tensor, tensor.name, content);
  if (!source) return source.error();
  if (auto status = (*target)->check_overwrite(tensor.name); !status) return status.error();
  may_damage_file_ = true;
  if (auto status = (*target)->overwrite(tensor.name, *source); !status) return status.error();
  end_content_digest(content, tensor.name);
  return {};
}

}  // namespace ringload::inline v0::detail
