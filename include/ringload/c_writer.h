// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_WRITER_H
#define RINGLOAD_C_WRITER_H

// Writes a .zt file, tensor by tensor, with the C interface of ringload/c.h. The file can contain
// compressed tensors, digests, sparse objects and attributes. To save all tensors in one call, or
// to write safetensors, use ringload_save(). See `ringload/writer.hpp`.
//
//     ringload_writer_create("model.zt", NULL, &writer);
//     ringload_writer_add(writer, &tensor, &options);
//     ringload_writer_finish(writer, NULL);
//
// Each call that changes the file is a step. If a step is refused because of a name, an option, a
// type or a shape, the file is unchanged and later steps may succeed. A failure while the file is
// written is permanent: all later steps fail too.
//
// The file becomes visible at its path when the writer has finished. Before this time, and if the
// writer fails, an existing file at this path is unchanged. If only the last flush of the folder
// fails, the new file is already visible. To remove objects from a file, copy all other objects
// into a new file with the same path.

#include <ringload/c_save.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A .zt file that is being written. See `ringload/writer.hpp`.
typedef struct ringload_writer ringload_writer;

/// Options of a writer.
typedef struct ringload_writer_options {
  size_t struct_bytes;
  uint32_t alignment;  // The alignment of tensors: a power of two, 64 to 2 MiB. 0 means 64.
  /// The number of compression threads, at most 16. 0 means the number of processors.
  uint32_t zstd_threads;
  int keep_existing;  // If not 0, an existing file is not replaced.
  int no_sync;        // If not 0, the file is not flushed to the drive before completion.
  /// The algorithm of the digests that ringload_operation_saved_checksums() returns for
  /// ringload_writer_finish_begin(). These digests cover the bytes of the tensors before
  /// compression.
  ringload_digest result_digest;
  /// The functions that RINGLOAD_DIGEST_SHA256 requires. The functions must stay valid until the
  /// writer is released and all its operations have ended.
  const ringload_sha256* sha256;
  /// The device of tensors that set `on_device`. Null means the host. The caller may release the
  /// device at any time.
  const ringload_device* device;
  /// The extensions for a path with "://", such as "s3://bucket/model.zt": see
  /// ringload_remote_extension(). The caller may release the extensions at any time.
  const ringload_extension* const* extensions;
  size_t extension_count;  // The number of extensions.
} ringload_writer_options;

/// Storage options of an object.
///
/// `attributes` contains keys and values in turn: key, value, key, value. Each value is JSON text,
/// such as "\"adam\"", "0.1" or "[1, 2]". JSON can represent neither bytes nor NaN. For these
/// values, use `typed_attributes`. The writer uses the fields `key`, `key_bytes`, `cbor` and
/// `cbor_bytes` of a ringload_attribute. Therefore attributes of a checkpoint can be passed
/// unchanged, except for a key with a 0 byte. Such a key is refused with RINGLOAD_INVALID_ARGUMENT.
/// If a key is repeated in one of the lists or in both lists, the step fails with this status, too.
typedef struct ringload_object_options {
  size_t struct_bytes;
  int32_t zstd_level;      // The level of the zstd compression, 1 to 22. 0 means no compression.
  ringload_digest digest;  // The algorithm of the digest that the file stores.
  const char* type;  // The logical type of the elements. If null, the dtype determines the type.
  /// Keys and JSON texts in turn: key, value, key, value.
  const char* const* attributes;
  size_t attributes_count;  // The number of pairs of key and value.
  /// Attributes whose values are CBOR.
  const ringload_attribute* const* typed_attributes;
  /// The number of typed attributes.
  size_t typed_attributes_count;
} ringload_object_options;

/// An object that consists of several components, such as a sparse matrix or a quantised group. The
/// keys of its attributes must be unique, as in ringload_object_options.
typedef struct ringload_object {
  size_t struct_bytes;
  /// The name of the object.
  const char* name;
  /// "sparse_csr", "sparse_coo", "quantized_group", or any other name except "dense".
  const char* layout;
  /// The shape of the whole object.
  const uint64_t* shape;
  /// The number of dimensions.
  size_t rank;
  /// Keys and JSON texts in turn: key, value, key, value.
  const char* const* attributes;
  size_t attributes_count;  // The number of pairs of key and value.
  /// Attributes whose values are CBOR.
  const ringload_attribute* const* typed_attributes;
  /// The number of typed attributes.
  size_t typed_attributes_count;
} ringload_object;

/// Options for copying objects from another .zt file.
typedef struct ringload_copy_options {
  size_t struct_bytes;
  const char* const* without;  // The names of the objects that are not copied.
  /// The number of names.
  size_t without_count;
  /// If not 0, encodes the bytes again with `zstd_level`. If 0, copies the stored bytes.
  int encode_anew;
  int32_t zstd_level;  // The level of the zstd compression. 0 means no compression.
  /// The algorithm of the new digest. With RINGLOAD_DIGEST_NONE, each digest keeps its algorithm,
  /// and an object without a digest stays without a digest.
  ringload_digest digest;
} ringload_copy_options;

/// Creates a writer for a new file. If `path` is null, the file is in memory: see
/// ringload_operation_written(). `options` may be null. Blocks during file system operations.
RINGLOAD_C_EXPORT ringload_status ringload_writer_create(const char* path,
                                                         const ringload_writer_options* options,
                                                         ringload_writer** result);
/// Creates a writer that adds objects to the file `path`. The writer changes a copy of the file.
/// ringload_writer_finish() replaces `path` by the copy. If `path` is not a .zt file of version 1.1
/// or 1.2, all steps fail. `options` may be null.
RINGLOAD_C_EXPORT ringload_status ringload_writer_append(const char* path,
                                                         const ringload_writer_options* options,
                                                         ringload_writer** result);
/// Releases the writer. If ringload_writer_finish() has not completed, the new file is removed, and
/// pending operations fail.
RINGLOAD_C_EXPORT void ringload_writer_release(ringload_writer* writer);

// Each of the next functions adds a step. The steps run in the order of the calls, in a thread of
// the writer. A step may be started before earlier steps have ended. The memory of a tensor must
// stay valid and unchanged until its step has ended. If a step is cancelled, or fails after a
// change of the file, all later steps fail too.
//
// If a step adds a name that exists already or is not UTF-8, the step fails with
// RINGLOAD_INVALID_ARGUMENT. If a step reads a damaged file, the step fails with
// RINGLOAD_INVALID_FILE.

/// Adds a dense tensor. If `options` is null, the tensor is stored without compression.
RINGLOAD_C_EXPORT ringload_status ringload_writer_add_begin(ringload_writer* writer,
                                                            const ringload_saved_tensor* tensor,
                                                            const ringload_object_options* options,
                                                            ringload_operation** operation);
/// Adds a tensor as ringload_writer_add_begin() does, and waits for the step.
RINGLOAD_C_EXPORT ringload_status ringload_writer_add(ringload_writer* writer,
                                                      const ringload_saved_tensor* tensor,
                                                      const ringload_object_options* options);

/// Declares an object that consists of several components. Afterwards, add the components in any
/// order.
RINGLOAD_C_EXPORT ringload_status ringload_writer_declare_begin(ringload_writer* writer,
                                                                const ringload_object* object,
                                                                ringload_operation** operation);
/// Declares an object as ringload_writer_declare_begin() does, and waits for the step.
RINGLOAD_C_EXPORT ringload_status ringload_writer_declare(ringload_writer* writer,
                                                          const ringload_object* object);

/// Adds a component to a declared object. The name of the component is the name of `part`. The
/// component must not have attributes. ringload_writer_finish() checks whether the components of
/// sparse_csr and sparse_coo objects match the object.
RINGLOAD_C_EXPORT ringload_status ringload_writer_add_part_begin(
    ringload_writer* writer, const char* object, const ringload_saved_tensor* part,
    const ringload_object_options* options, ringload_operation** operation);
/// Adds a component as ringload_writer_add_part_begin() does, and waits for the step.
RINGLOAD_C_EXPORT ringload_status ringload_writer_add_part(ringload_writer* writer,
                                                           const char* object,
                                                           const ringload_saved_tensor* part,
                                                           const ringload_object_options* options);

/// Adds a second name for an existing object. The bytes of the object are not written again.
RINGLOAD_C_EXPORT ringload_status ringload_writer_add_alias_begin(ringload_writer* writer,
                                                                  const char* name,
                                                                  const char* target,
                                                                  ringload_operation** operation);
/// Adds a name as ringload_writer_add_alias_begin() does, and waits for the step.
RINGLOAD_C_EXPORT ringload_status ringload_writer_add_alias(ringload_writer* writer,
                                                            const char* name, const char* target);

/// Adds the objects of the .zt file `file`, with their types and attributes. The attributes of the
/// file itself are added too, except for keys that exist already. If `options` is null, the stored
/// bytes of all objects are copied.
RINGLOAD_C_EXPORT ringload_status ringload_writer_copy_begin(ringload_writer* writer,
                                                             const char* file,
                                                             const ringload_copy_options* options,
                                                             ringload_operation** operation);
/// Copies objects as ringload_writer_copy_begin() does, and waits for the step.
RINGLOAD_C_EXPORT ringload_status ringload_writer_copy(ringload_writer* writer, const char* file,
                                                       const ringload_copy_options* options);

/// Replaces the elements of a dense tensor that is stored without compression. The step fails with
/// RINGLOAD_MISMATCH if the dtype or the shape differs. The step fails with RINGLOAD_UNSUPPORTED if
/// the tensor has an alias, or if another tensor shares its bytes.
RINGLOAD_C_EXPORT ringload_status ringload_writer_replace_begin(ringload_writer* writer,
                                                                const ringload_saved_tensor* tensor,
                                                                ringload_operation** operation);
/// Replaces elements as ringload_writer_replace_begin() does, and waits for the step.
RINGLOAD_C_EXPORT ringload_status ringload_writer_replace(ringload_writer* writer,
                                                          const ringload_saved_tensor* tensor);

/// Sets an attribute of the file. The value is JSON text.
RINGLOAD_C_EXPORT ringload_status ringload_writer_set_attribute_begin(
    ringload_writer* writer, const char* key, const char* json, ringload_operation** operation);
/// Sets an attribute as ringload_writer_set_attribute_begin() does, and waits for the step.
RINGLOAD_C_EXPORT ringload_status ringload_writer_set_attribute(ringload_writer* writer,
                                                                const char* key, const char* json);
/// Sets an attribute of the file. The value is the CBOR of `attribute`.
RINGLOAD_C_EXPORT ringload_status ringload_writer_set_typed_attribute_begin(
    ringload_writer* writer, const ringload_attribute* attribute, ringload_operation** operation);
/// Sets an attribute as ringload_writer_set_typed_attribute_begin() does, and waits for the step.
RINGLOAD_C_EXPORT ringload_status
ringload_writer_set_typed_attribute(ringload_writer* writer, const ringload_attribute* attribute);

/// Writes the pending data and the end of the file, and then makes the file visible at its path.
/// ringload_operation_written() returns the result, such as a file in memory.
RINGLOAD_C_EXPORT ringload_status ringload_writer_finish_begin(ringload_writer* writer,
                                                               ringload_operation** operation);
/// Finishes as ringload_writer_finish_begin() does, and waits until the file is visible. `bytes`
/// receives the size of the file, and may be null. This function does not return a file in memory.
RINGLOAD_C_EXPORT ringload_status ringload_writer_finish(ringload_writer* writer, uint64_t* bytes);

/// The result of ringload_writer_finish_begin().
typedef struct ringload_written {
  size_t struct_bytes;
  uint64_t bytes;         // The size of the file.
  uint64_t bytes_direct;  // The number of bytes that were written with O_DIRECT.
  const void* file;       // The contents of a file in memory, or null.
} ringload_written;

/// Writes the result of ringload_writer_finish_begin() to `into`.
RINGLOAD_C_EXPORT ringload_status ringload_operation_written(const ringload_operation* operation,
                                                             ringload_written* into);

#ifdef __cplusplus
}
#endif

#endif
