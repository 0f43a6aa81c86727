// SPDX-License-Identifier: Apache-2.0

// The writer of the C interface: each call is one step of `ringload::writer`.

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

ringload::writer_options writer_options_of(const ringload_writer_options& given) {
  ringload::writer_options options;
  options.alignment = given.alignment;
  options.zstd_threads = given.zstd_threads;
  options.replace = given.keep_existing == 0;
  options.sync = given.no_sync == 0;
  options.manifest_digest = digest_of(given.manifest_digest);
  options.sha256 = hashers_of(given.sha256);
  return options;
}

using attribute_pairs = std::vector<std::pair<std::string, ringload::attribute>>;

attribute_pairs attributes_of(const char* const* from, std::size_t count) {
  if (count > 0) required(from, "the attributes are null");
  attribute_pairs pairs;
  for (std::size_t i = 0; i < count; ++i) {
    pairs.emplace_back(
        &required(from[2 * i], "an attribute's key is null"),
        ringload::attribute::json(&required(from[2 * i + 1], "an attribute's value is null")));
  }
  return pairs;
}

ringload::object_options object_options_of(const ringload_object_options* from) {
  const ringload_object_options given = received(from);
  ringload::object_options options;
  options.zstd_level = given.zstd_level;
  options.digest = digest_of(given.digest);
  if (given.type) options.type = given.type;
  options.attributes = attributes_of(given.attributes, given.attributes_count);
  return options;
}

ringload::object_info object_of(const ringload_object* from) {
  const ringload_object given = received(&required(from, "the object is null"));
  ringload::object_info info;
  info.name = &required(given.name, "the object's name is null");
  info.layout = &required(given.layout, "the object's layout is null");
  info.shape = shape_of(given.shape, given.rank);
  info.attributes = attributes_of(given.attributes, given.attributes_count);
  return info;
}

// Returns true for the objects to copy. Empty: all objects.
std::function<bool(std::string_view)> chosen_of(const ringload_copy_options& given) {
  if (given.without_count == 0) return {};
  required(given.without, "the names that are left out are null");
  std::set<std::string, std::less<>> without;
  for (std::size_t i = 0; i < given.without_count; ++i) {
    without.insert(&required(given.without[i], "a name that is left out is null"));
  }
  return [without = std::move(without)](std::string_view name) { return !without.contains(name); };
}

ringload::copy_options copy_options_of(const ringload_copy_options& given) {
  ringload::copy_options options;
  if (given.encode_anew != 0) options.zstd_level = given.zstd_level;
  options.digest = digest_of(given.digest);
  return options;
}

// Takes ownership of the DLPack tensor, even if the call throws. So callers must call it first.
ringload::tensor_ref view_of(const ringload_writer* handle, const ringload_saved_tensor* from) {
  const ringload::device on = handle ? handle->on : ringload::host();
  return std::move(refs_of(&required(from, "the tensor is null"), 1, on).front());
}

ringload_status hand_out(ringload::writer writer, const ringload_writer_options& given,
                         ringload_writer** result) {
  *result = new ringload_writer{std::make_shared<completion_thread>(),
                                std::make_shared<ringload::writer>(std::move(writer)),
                                given.device ? given.device->value : ringload::host()};
  return RINGLOAD_OK;
}

// Calls `initiate` with the writer and the handler in the completion thread.
template <class T = std::uint64_t, class Initiate>
ringload_status begin_step(ringload_writer* writer, ringload_operation** begun, Initiate initiate) {
  const ringload_writer& handle = required(writer, "the writer is null");
  return begin_operation<T>(handle.thread, begun,
                            [shared = handle.value, initiate = std::move(initiate)](
                                auto handler) mutable { initiate(*shared, std::move(handler)); });
}

}  // namespace

ringload_status ringload_writer_create(const char* path, const ringload_writer_options* options,
                                       ringload_writer** result) {
  return guarded([&] {
    required(result, "the place for the writer is null") = nullptr;
    const ringload_writer_options given = received(options);
    ringload::writer_options converted = writer_options_of(given);
    if (!path) return hand_out(ringload::writer::in_memory(std::move(converted)), given, result);
    return hand_out(ringload::writer(path, std::move(converted)), given, result);
  });
}

ringload_status ringload_writer_append(const char* path, const ringload_writer_options* options,
                                       ringload_writer** result) {
  return guarded([&] {
    required(result, "the place for the writer is null") = nullptr;
    const ringload_writer_options given = received(options);
    return hand_out(
        ringload::writer::append(&required(path, "the path is null"), writer_options_of(given)),
        given, result);
  });
}

void ringload_writer_release(ringload_writer* writer) { delete writer; }

ringload_status ringload_writer_add_begin(ringload_writer* writer,
                                          const ringload_saved_tensor* tensor,
                                          const ringload_object_options* options,
                                          ringload_operation** begun) {
  return guarded([&] {
    ringload::tensor_ref ref = view_of(writer, tensor);
    return begin_step(writer, begun,
                      [ref = std::move(ref), options = object_options_of(options)](
                          ringload::writer& to, auto handler) mutable {
                        to.add_async(std::move(ref), std::move(options), std::move(handler));
                      });
  });
}

ringload_status ringload_writer_add(ringload_writer* writer, const ringload_saved_tensor* tensor,
                                    const ringload_object_options* options) {
  return begin_and_wait([&](ringload_operation** begun) {
    return ringload_writer_add_begin(writer, tensor, options, begun);
  });
}

ringload_status ringload_writer_declare_begin(ringload_writer* writer,
                                              const ringload_object* object,
                                              ringload_operation** begun) {
  return guarded([&] {
    return begin_step(writer, begun,
                      [info = object_of(object)](ringload::writer& to, auto handler) mutable {
                        to.declare_async(std::move(info), std::move(handler));
                      });
  });
}

ringload_status ringload_writer_declare(ringload_writer* writer, const ringload_object* object) {
  return begin_and_wait([&](ringload_operation** begun) {
    return ringload_writer_declare_begin(writer, object, begun);
  });
}

ringload_status ringload_writer_add_part_begin(ringload_writer* writer, const char* object,
                                               const ringload_saved_tensor* part,
                                               const ringload_object_options* options,
                                               ringload_operation** begun) {
  return guarded([&] {
    ringload::tensor_ref ref = view_of(writer, part);
    return begin_step(
        writer, begun,
        [object = std::string(&required(object, "the object's name is null")), ref = std::move(ref),
         options = object_options_of(options)](ringload::writer& to, auto handler) mutable {
          to.add_part_async(std::move(object), std::move(ref), std::move(options),
                            std::move(handler));
        });
  });
}

ringload_status ringload_writer_add_part(ringload_writer* writer, const char* object,
                                         const ringload_saved_tensor* part,
                                         const ringload_object_options* options) {
  return begin_and_wait([&](ringload_operation** begun) {
    return ringload_writer_add_part_begin(writer, object, part, options, begun);
  });
}

ringload_status ringload_writer_add_alias_begin(ringload_writer* writer, const char* name,
                                                const char* object, ringload_operation** begun) {
  return guarded([&] {
    return begin_step(writer, begun,
                      [second = std::string(&required(name, "the name is null")),
                       first = std::string(&required(object, "the object's name is null"))](
                          ringload::writer& to, auto handler) {
                        to.add_alias_async(second, first, std::move(handler));
                      });
  });
}

ringload_status ringload_writer_add_alias(ringload_writer* writer, const char* name,
                                          const char* object) {
  return begin_and_wait([&](ringload_operation** begun) {
    return ringload_writer_add_alias_begin(writer, name, object, begun);
  });
}

ringload_status ringload_writer_copy_begin(ringload_writer* writer, const char* file,
                                           const ringload_copy_options* options,
                                           ringload_operation** begun) {
  return guarded([&] {
    const ringload_copy_options given = received(options);
    return begin_step(
        writer, begun,
        [from = std::string(&required(file, "the path is null")), chosen = chosen_of(given),
         options = copy_options_of(given)](ringload::writer& to, auto handler) mutable {
          to.copy_async(from, std::move(chosen), options, std::move(handler));
        });
  });
}

ringload_status ringload_writer_copy(ringload_writer* writer, const char* file,
                                     const ringload_copy_options* options) {
  return begin_and_wait([&](ringload_operation** begun) {
    return ringload_writer_copy_begin(writer, file, options, begun);
  });
}

ringload_status ringload_writer_replace_begin(ringload_writer* writer,
                                              const ringload_saved_tensor* tensor,
                                              ringload_operation** begun) {
  return guarded([&] {
    ringload::tensor_ref ref = view_of(writer, tensor);
    return begin_step(writer, begun,
                      [ref = std::move(ref)](ringload::writer& to, auto handler) mutable {
                        to.replace_async(std::move(ref), std::move(handler));
                      });
  });
}

ringload_status ringload_writer_replace(ringload_writer* writer,
                                        const ringload_saved_tensor* tensor) {
  return begin_and_wait([&](ringload_operation** begun) {
    return ringload_writer_replace_begin(writer, tensor, begun);
  });
}

ringload_status ringload_writer_set_attribute_begin(ringload_writer* writer, const char* key,
                                                    const char* json, ringload_operation** begun) {
  return guarded([&] {
    return begin_step(writer, begun,
                      [name = std::string(&required(key, "the key is null")),
                       value = ringload::attribute::json(&required(json, "the value is null"))](
                          ringload::writer& to, auto handler) {
                        to.set_attribute_async(name, value, std::move(handler));
                      });
  });
}

ringload_status ringload_writer_set_attribute(ringload_writer* writer, const char* key,
                                              const char* json) {
  return begin_and_wait([&](ringload_operation** begun) {
    return ringload_writer_set_attribute_begin(writer, key, json, begun);
  });
}

ringload_status ringload_writer_finish_begin(ringload_writer* writer, ringload_operation** begun) {
  return guarded([&] {
    return begin_step<ringload::write_result>(
        writer, begun,
        [](ringload::writer& to, auto handler) { to.finish_async(std::move(handler)); });
  });
}

ringload_status ringload_writer_finish(ringload_writer* writer, uint64_t* bytes) {
  return begin_and_wait(
      [&](ringload_operation** begun) { return ringload_writer_finish_begin(writer, begun); },
      [&](ringload_operation* ended) {
        ringload_written done = {};
        done.struct_bytes = sizeof done;
        const ringload_status status = ringload_operation_written(ended, &done);
        if (status == RINGLOAD_OK && bytes) *bytes = done.bytes;
        return status;
      });
}

ringload_status ringload_operation_written(const ringload_operation* operation,
                                           ringload_written* into) {
  return guarded([&] {
    operation_state& state = *required(operation, "the operation is null").state;
    return state.with_result<ringload::write_result>([&](const ringload::write_result& done) {
      ringload_written out = {};
      out.bytes = done.bytes;
      out.bytes_direct = done.bytes_direct;
      if (!done.file.empty()) out.file = done.file.data();
      give(into, out);
      return RINGLOAD_OK;
    });
  });
}
