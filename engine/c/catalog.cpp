// SPDX-License-Identifier: Apache-2.0

#include <ringload/c.h>

#include <string>
#include <vector>

#include "c/error_name.hpp"
#include "c/handles.hpp"
#include "c/status.hpp"
#include "c/structs.hpp"

using namespace ringload::c;

namespace {

const ringload::catalog& catalog_of(const ringload_checkpoint* checkpoint) {
  return required(checkpoint, "the checkpoint is null").value.catalog();
}

ringload_status give_attribute(const ringload::attributes& elements, size_t position,
                               ringload_attribute* into) {
  if (position >= elements.size()) return RINGLOAD_END;
  const auto& [key, value] = elements[position];
  ringload_attribute view = {};
  view.key = key.c_str();
  view.text = value.text().c_str();
  view.cbor = value.encoded().data();
  view.cbor_bytes = value.encoded().size();
  view.is_text = value.is_text() ? 1 : 0;
  view.key_bytes = key.size();
  view.text_bytes = value.text().size();
  write_struct(into, view);
  return RINGLOAD_OK;
}

}  // namespace

void ringload_checkpoint_release(ringload_checkpoint* checkpoint) { delete checkpoint; }

size_t ringload_checkpoint_size(const ringload_checkpoint* checkpoint) {
  return checkpoint ? checkpoint->value.size() : 0;
}

ringload_status ringload_checkpoint_tensor(const ringload_checkpoint* checkpoint, size_t position,
                                           ringload_tensor_info* into) {
  return guarded([&] {
    const ringload::catalog& catalog = catalog_of(checkpoint);
    if (position >= catalog.tensors.size()) return RINGLOAD_END;
    const ringload::tensor_info& tensor = catalog.tensors[position];
    write_struct(into, info_of(tensor, catalog.files[tensor.file].path.c_str()));
    return RINGLOAD_OK;
  });
}

ringload_status ringload_checkpoint_find(const ringload_checkpoint* checkpoint, const char* name,
                                         size_t* position) {
  return guarded([&] {
    const ringload::catalog& catalog = catalog_of(checkpoint);
    const ringload::tensor_info& info = checkpoint->value.at(&required(name, "a name is null"));
    required(position, "the output pointer for the position is null") =
        static_cast<size_t>(&info - catalog.tensors.data());
    return RINGLOAD_OK;
  });
}

ringload_status ringload_checkpoint_metadata(const ringload_checkpoint* checkpoint, size_t position,
                                             const char** key, const char** value) {
  return guarded([&] {
    const ringload::catalog& catalog = catalog_of(checkpoint);
    if (position >= catalog.metadata.size()) return RINGLOAD_END;
    required(key, "the output pointer for the key is null") =
        catalog.metadata[position].first.c_str();
    required(value, "the output pointer for the value is null") =
        catalog.metadata[position].second.text().c_str();
    return RINGLOAD_OK;
  });
}

ringload_status ringload_checkpoint_attribute(const ringload_checkpoint* checkpoint,
                                              size_t position, ringload_attribute* into) {
  return guarded([&] { return give_attribute(catalog_of(checkpoint).metadata, position, into); });
}

ringload_status ringload_checkpoint_tensor_attribute(const ringload_checkpoint* checkpoint,
                                                     size_t tensor, size_t position,
                                                     ringload_attribute* into) {
  return guarded([&]() -> ringload_status {
    const ringload::catalog& catalog = catalog_of(checkpoint);
    if (tensor >= catalog.tensors.size()) return RINGLOAD_END;
    return give_attribute(catalog.tensors[tensor].attributes, position, into);
  });
}

ringload_status ringload_checkpoint_file(const ringload_checkpoint* checkpoint, size_t position,
                                         ringload_file_info* into) {
  return guarded([&] {
    const ringload::catalog& catalog = catalog_of(checkpoint);
    if (position >= catalog.files.size()) return RINGLOAD_END;
    const ringload::file_info& file = catalog.files[position];
    ringload_file_info info = {};
    info.path = file.path.c_str();
    info.format = file.format.c_str();
    info.bytes = file.bytes;
    info.header_bytes = file.header_bytes;
    write_struct(into, info);
    return RINGLOAD_OK;
  });
}

// --- Objects that consist of several tensors

ringload_status ringload_checkpoint_object(const ringload_checkpoint* checkpoint, size_t position,
                                           ringload_object_info* into) {
  return guarded([&] {
    const ringload::catalog& catalog = catalog_of(checkpoint);
    if (position >= catalog.composites.size()) return RINGLOAD_END;
    const ringload::composite_info& object = catalog.composites[position];
    ringload_object_info info = {};
    info.name = object.name.c_str();
    info.layout = object.layout.c_str();
    info.type = object.type.c_str();
    info.shape = object.shape.data();
    info.rank = object.shape.size();
    info.parts = object.parts.size();
    info.file_position = object.file;
    write_struct(into, info);
    return RINGLOAD_OK;
  });
}

ringload_status ringload_checkpoint_object_part(const ringload_checkpoint* checkpoint,
                                                size_t object, size_t part, const char** name,
                                                size_t* tensor) {
  return guarded([&] {
    const ringload::catalog& catalog = catalog_of(checkpoint);
    required(name, "the output pointer for the name is null") = nullptr;
    if (object >= catalog.composites.size()) return RINGLOAD_END;
    const ringload::composite_info& whole = catalog.composites[object];
    if (part >= whole.parts.size()) return RINGLOAD_END;
    *name = whole.parts[part].c_str();
    const ringload::tensor_info& info = checkpoint->value.at(whole.name_of(whole.parts[part]));
    if (tensor) *tensor = static_cast<size_t>(&info - catalog.tensors.data());
    return RINGLOAD_OK;
  });
}

ringload_status ringload_checkpoint_object_attribute(const ringload_checkpoint* checkpoint,
                                                     size_t object, size_t position,
                                                     ringload_attribute* into) {
  return guarded([&]() -> ringload_status {
    const ringload::catalog& catalog = catalog_of(checkpoint);
    if (object >= catalog.composites.size()) return RINGLOAD_END;
    return give_attribute(catalog.composites[object].attributes, position, into);
  });
}

// --- Objects that cannot be loaded, and warnings

ringload_status ringload_checkpoint_unreadable(const ringload_checkpoint* checkpoint,
                                               size_t position, ringload_unreadable_info* into) {
  return guarded([&] {
    const ringload::catalog& catalog = catalog_of(checkpoint);
    if (position >= catalog.unreadable.size()) return RINGLOAD_END;
    const ringload::unreadable_info& object = catalog.unreadable[position];
    ringload_unreadable_info info = {};
    info.name = object.name.c_str();
    info.place = object.place.c_str();
    info.reason = object.reason.c_str();
    info.error_name = error_name(object.code);
    info.status = status_of(object.code);
    info.is_left_out = object.is_left_out ? 1 : 0;
    info.file_position = object.file;
    write_struct(into, info);
    return RINGLOAD_OK;
  });
}

ringload_status ringload_checkpoint_note(const ringload_checkpoint* checkpoint, size_t position,
                                         const char** text) {
  return guarded([&] {
    const ringload::catalog& catalog = catalog_of(checkpoint);
    required(text, "the output pointer for the text is null") = nullptr;
    if (position >= catalog.notes.size()) return RINGLOAD_END;
    *text = catalog.notes[position].c_str();
    return RINGLOAD_OK;
  });
}
