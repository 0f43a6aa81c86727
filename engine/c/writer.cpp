// SPDX-License-Identifier: Apache-2.0

#include <ringload/c.h>

#include <cstdint>
#include <memory>
#include <ringload/writer.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "c/handles.hpp"
#include "c/operation.hpp"
#include "c/status.hpp"
#include "c/structs.hpp"

using namespace ringload::c;

namespace {

ringload::writer_options writer_options_of(const ringload_writer_options& c_options) {
  ringload::writer_options options;
  options.alignment = c_options.alignment;
  options.zstd_threads = c_options.zstd_threads;
  options.replace = c_options.keep_existing == 0;
  options.sync = c_options.no_sync == 0;
  options.result_digest = digest_of(c_options.result_digest);
  options.sha256 = hashers_of(c_options.sha256);
  if (c_options.extension_count > 0) required(c_options.extensions, "the extensions are null");
  for (std::size_t i = 0; i < c_options.extension_count; ++i) {
    options.extensions.push_back(required(c_options.extensions[i], "an extension is null").value);
  }
  return options;
}

using attribute_pair = std::pair<std::string, ringload::attribute>;

// Returns the attribute that `convert` returns. If the value is not valid JSON or CBOR, throws
// errc::invalid_saving, because the value is an argument and not a part of a file.
template <class Convert>
ringload::attribute attribute_of(const std::string& key, const Convert& convert) {
  try {
    return convert();
  } catch (const ringload::error& failure) {
    throw ringload::error(ringload::errc::invalid_saving, "attribute '" + key + "'",
                          failure.what());
  }
}

attribute_pair json_attribute_of(const char* c_key, const char* value) {
  const std::string key = &required(c_key, "an attribute's key is null");
  required(value, "an attribute's value is null");
  return {key, attribute_of(key, [&] { return ringload::attribute::json(value); })};
}

attribute_pair typed_attribute_of(const ringload_attribute* from) {
  const ringload_attribute c_attribute = read_struct(&required(from, "an attribute is null"));
  const char* const cbor = static_cast<const char*>(c_attribute.cbor);
  const std::string key = &required(c_attribute.key, "an attribute's key is null");
  if (c_attribute.key_bytes != 0 && c_attribute.key_bytes != key.size()) {
    throw invalid_argument(
        "an attribute's key_bytes differs from the length of its key, or the key has a 0 byte");
  }
  required(cbor, "an attribute's CBOR is null");
  return {key, attribute_of(
                   key, [&] { return ringload::attribute::cbor({cbor, c_attribute.cbor_bytes}); })};
}

// Converts the attributes of `c_struct`. `T` is a struct with JSON attributes and CBOR attributes.
template <class T>
std::vector<attribute_pair> attributes_of(const T& c_struct) {
  if (c_struct.attributes_count > 0) required(c_struct.attributes, "the attributes are null");
  if (c_struct.typed_attributes_count > 0) {
    required(c_struct.typed_attributes, "the typed attributes are null");
  }
  std::vector<attribute_pair> pairs;
  for (std::size_t i = 0; i < c_struct.attributes_count; ++i) {
    pairs.push_back(json_attribute_of(c_struct.attributes[2 * i], c_struct.attributes[2 * i + 1]));
  }
  for (std::size_t i = 0; i < c_struct.typed_attributes_count; ++i) {
    pairs.push_back(typed_attribute_of(c_struct.typed_attributes[i]));
  }
  return pairs;
}

ringload::object_options object_options_of(const ringload_object_options* from) {
  const ringload_object_options c_options = read_struct(from);
  ringload::object_options options;
  options.zstd_level = c_options.zstd_level;
  options.digest = digest_of(c_options.digest);
  if (c_options.type) options.type = c_options.type;
  options.attributes = attributes_of(c_options);
  return options;
}

ringload::object_info object_of(const ringload_object* from) {
  const ringload_object c_object = read_struct(&required(from, "the object is null"));
  ringload::object_info info;
  info.name = &required(c_object.name, "the object's name is null");
  info.layout = &required(c_object.layout, "the object's layout is null");
  info.shape = shape_of(c_object.shape, c_object.rank);
  info.attributes = attributes_of(c_object);
  return info;
}

// Returns a function that returns true for each object to copy. Returns an empty function if all
// objects are copied.
std::function<bool(std::string_view)> copy_filter_of(const ringload_copy_options& c_options) {
  if (c_options.without_count == 0) return {};
  required(c_options.without, "the list `without` is null");
  std::set<std::string, std::less<>> without;
  for (std::size_t i = 0; i < c_options.without_count; ++i) {
    without.insert(&required(c_options.without[i], "a name in the list `without` is null"));
  }
  return [without = std::move(without)](std::string_view name) { return !without.contains(name); };
}

ringload::copy_options copy_options_of(const ringload_copy_options& c_options) {
  ringload::copy_options options;
  if (c_options.encode_anew != 0) options.zstd_level = c_options.zstd_level;
  options.digest = digest_of(c_options.digest);
  return options;
}

// Takes ownership of the DLPack tensor, even if this function throws. Therefore callers must call
// this function before they check other arguments.
ringload::tensor_ref tensor_ref_of(const ringload_writer* handle,
                                   const ringload_saved_tensor* from) {
  const ringload::device on = handle ? handle->on : ringload::host();
  return std::move(refs_of(&required(from, "the tensor is null"), 1, on).front());
}

ringload_status create_handle(ringload::writer writer, const ringload_writer_options& c_options,
                              bool appends, ringload_writer** result) {
  *result = new ringload_writer{
      std::make_shared<completion_thread>(), std::make_shared<ringload::writer>(std::move(writer)),
      c_options.device ? c_options.device->value : ringload::host(), appends};
  return RINGLOAD_OK;
}

// Calls `initiate` with the writer and a completion handler, in the completion thread. `reads_file`
// is true if the step reads another file.
template <class T = std::uint64_t, class Initiate>
ringload_status begin_step(ringload_writer* writer, ringload_operation** operation,
                           Initiate initiate, bool reads_file = false) {
  const ringload_writer& handle = required(writer, "the writer is null");
  return begin_operation<T>(
      handle.thread, operation,
      [shared = handle.value, initiate = std::move(initiate)](auto handler) mutable {
        initiate(*shared, std::move(handler));
      },
      nullptr, reads_file || handle.appends ? argument_failures::names : argument_failures::all,
      handle.copy_failure);
}

}  // namespace

ringload_status ringload_writer_create(const char* path, const ringload_writer_options* options,
                                       ringload_writer** result) {
  return guarded([&] {
    required(result, "the output pointer for the writer is null") = nullptr;
    const ringload_writer_options c_options = read_struct(options);
    ringload::writer_options converted = writer_options_of(c_options);
    if (!path) {
      return create_handle(ringload::writer::in_memory(std::move(converted)), c_options, false,
                           result);
    }
    return create_handle(ringload::writer(path, std::move(converted)), c_options, false, result);
  });
}

ringload_status ringload_writer_append(const char* path, const ringload_writer_options* options,
                                       ringload_writer** result) {
  return guarded([&] {
    required(result, "the output pointer for the writer is null") = nullptr;
    const ringload_writer_options c_options = read_struct(options);
    return create_handle(
        ringload::writer::append(&required(path, "the path is null"), writer_options_of(c_options)),
        c_options, true, result);
  });
}

void ringload_writer_release(ringload_writer* writer) { delete writer; }

ringload_status ringload_writer_add_begin(ringload_writer* writer,
                                          const ringload_saved_tensor* tensor,
                                          const ringload_object_options* options,
                                          ringload_operation** operation) {
  return guarded(operation, [&] {
    ringload::tensor_ref ref = tensor_ref_of(writer, tensor);
    return begin_step(writer, operation,
                      [ref = std::move(ref), options = object_options_of(options)](
                          ringload::writer& output, auto handler) mutable {
                        output.add_async(std::move(ref), std::move(options), std::move(handler));
                      });
  });
}

ringload_status ringload_writer_add(ringload_writer* writer, const ringload_saved_tensor* tensor,
                                    const ringload_object_options* options) {
  return begin_and_wait([&](ringload_operation** operation) {
    return ringload_writer_add_begin(writer, tensor, options, operation);
  });
}

ringload_status ringload_writer_declare_begin(ringload_writer* writer,
                                              const ringload_object* object,
                                              ringload_operation** operation) {
  return guarded(operation, [&] {
    return begin_step(writer, operation,
                      [info = object_of(object)](ringload::writer& output, auto handler) mutable {
                        output.declare_async(std::move(info), std::move(handler));
                      });
  });
}

ringload_status ringload_writer_declare(ringload_writer* writer, const ringload_object* object) {
  return begin_and_wait([&](ringload_operation** operation) {
    return ringload_writer_declare_begin(writer, object, operation);
  });
}

ringload_status ringload_writer_add_part_begin(ringload_writer* writer, const char* object,
                                               const ringload_saved_tensor* part,
                                               const ringload_object_options* options,
                                               ringload_operation** operation) {
  return guarded(operation, [&] {
    ringload::tensor_ref ref = tensor_ref_of(writer, part);
    return begin_step(
        writer, operation,
        [object = std::string(&required(object, "the object's name is null")), ref = std::move(ref),
         options = object_options_of(options)](ringload::writer& output, auto handler) mutable {
          output.add_part_async(std::move(object), std::move(ref), std::move(options),
                                std::move(handler));
        });
  });
}

ringload_status ringload_writer_add_part(ringload_writer* writer, const char* object,
                                         const ringload_saved_tensor* part,
                                         const ringload_object_options* options) {
  return begin_and_wait([&](ringload_operation** operation) {
    return ringload_writer_add_part_begin(writer, object, part, options, operation);
  });
}

ringload_status ringload_writer_add_alias_begin(ringload_writer* writer, const char* name,
                                                const char* object,
                                                ringload_operation** operation) {
  return guarded(operation, [&] {
    return begin_step(writer, operation,
                      [second = std::string(&required(name, "the name is null")),
                       first = std::string(&required(object, "the object's name is null"))](
                          ringload::writer& output, auto handler) {
                        output.add_alias_async(second, first, std::move(handler));
                      });
  });
}

ringload_status ringload_writer_add_alias(ringload_writer* writer, const char* name,
                                          const char* object) {
  return begin_and_wait([&](ringload_operation** operation) {
    return ringload_writer_add_alias_begin(writer, name, object, operation);
  });
}

ringload_status ringload_writer_copy_begin(ringload_writer* writer, const char* file,
                                           const ringload_copy_options* options,
                                           ringload_operation** operation) {
  return guarded(operation, [&] {
    const ringload_copy_options c_options = read_struct(options);
    auto initiate = [from = std::string(&required(file, "the path is null")),
                     selects = copy_filter_of(c_options), options = copy_options_of(c_options)](
                        ringload::writer& output, auto handler) mutable {
      output.copy_async(from, std::move(selects), options, std::move(handler));
    };
    return begin_step(writer, operation, std::move(initiate), true);
  });
}

ringload_status ringload_writer_copy(ringload_writer* writer, const char* file,
                                     const ringload_copy_options* options) {
  return begin_and_wait([&](ringload_operation** operation) {
    return ringload_writer_copy_begin(writer, file, options, operation);
  });
}

ringload_status ringload_writer_replace_begin(ringload_writer* writer,
                                              const ringload_saved_tensor* tensor,
                                              ringload_operation** operation) {
  return guarded(operation, [&] {
    ringload::tensor_ref ref = tensor_ref_of(writer, tensor);
    return begin_step(writer, operation,
                      [ref = std::move(ref)](ringload::writer& output, auto handler) mutable {
                        output.replace_async(std::move(ref), std::move(handler));
                      });
  });
}

ringload_status ringload_writer_replace(ringload_writer* writer,
                                        const ringload_saved_tensor* tensor) {
  return begin_and_wait([&](ringload_operation** operation) {
    return ringload_writer_replace_begin(writer, tensor, operation);
  });
}

ringload_status ringload_writer_set_attribute_begin(ringload_writer* writer, const char* key,
                                                    const char* json,
                                                    ringload_operation** operation) {
  return guarded(operation, [&] {
    return begin_step(
        writer, operation,
        [pair = json_attribute_of(key, json)](ringload::writer& output, auto handler) {
          output.set_attribute_async(pair.first, pair.second, std::move(handler));
        });
  });
}

ringload_status ringload_writer_set_attribute(ringload_writer* writer, const char* key,
                                              const char* json) {
  return begin_and_wait([&](ringload_operation** operation) {
    return ringload_writer_set_attribute_begin(writer, key, json, operation);
  });
}

ringload_status ringload_writer_set_typed_attribute_begin(ringload_writer* writer,
                                                          const ringload_attribute* attribute,
                                                          ringload_operation** operation) {
  return guarded(operation, [&] {
    return begin_step(
        writer, operation,
        [pair = typed_attribute_of(attribute)](ringload::writer& output, auto handler) {
          output.set_attribute_async(pair.first, pair.second, std::move(handler));
        });
  });
}

ringload_status ringload_writer_set_typed_attribute(ringload_writer* writer,
                                                    const ringload_attribute* attribute) {
  return begin_and_wait([&](ringload_operation** operation) {
    return ringload_writer_set_typed_attribute_begin(writer, attribute, operation);
  });
}

ringload_status ringload_writer_finish_begin(ringload_writer* writer,
                                             ringload_operation** operation) {
  return guarded(operation, [&] {
    return begin_step<ringload::write_result>(
        writer, operation,
        [](ringload::writer& output, auto handler) { output.finish_async(std::move(handler)); });
  });
}

ringload_status ringload_writer_finish(ringload_writer* writer, uint64_t* bytes) {
  return begin_and_wait(
      [&](ringload_operation** operation) {
        return ringload_writer_finish_begin(writer, operation);
      },
      [&](ringload_operation* ended) {
        ringload_written written = {};
        written.struct_bytes = sizeof written;
        const ringload_status status = ringload_operation_written(ended, &written);
        if (status == RINGLOAD_OK && bytes) *bytes = written.bytes;
        return status;
      });
}

ringload_status ringload_operation_written(const ringload_operation* operation,
                                           ringload_written* into) {
  return guarded([&] {
    operation_state& state = *required(operation, "the operation is null").state;
    return state.with_result<ringload::write_result>([&](const ringload::write_result& result) {
      ringload_written out = {};
      out.bytes = result.bytes;
      out.bytes_direct = result.bytes_direct;
      if (!result.file.empty()) out.file = result.file.data();
      write_struct(into, out);
      return RINGLOAD_OK;
    });
  });
}
