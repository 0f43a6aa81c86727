// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_WRITER_H
#define RINGLOAD_C_WRITER_H

// Writes a .zt file tensor by tensor, for ringload/c.h: with compression, digests, sparse objects
// and attributes. ringload_save() saves all tensors at once, and writes safetensors. See
// `ringload/writer.hpp`.
//
//     ringload_writer_create("model.zt", NULL, &writer);
//     ringload_writer_add(writer, &tensor, &storing);
//     ringload_writer_finish(writer, NULL);
//
// If a step is refused because of a name or an option before it changes the file, only this step
// fails, and the next step may succeed. Every other failure is permanent.
//
// The file appears under its path when the writer has finished. Until then an existing file is
// unchanged, even if the writer fails. To remove objects, copy the other objects into a new file of
// the same path.

#include <ringload/c_save.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ringload_writer ringload_writer;

typedef struct ringload_writer_options {
  size_t struct_bytes;
  uint32_t alignment;     // Alignment of tensors: a power of two up to 2 MiB. 0: 64.
  uint32_t zstd_threads;  // At most 16. 0: the number of processors.
  int keep_existing;      // Not 0: an existing file is not replaced.
  int no_sync;            // Not 0: completes without a flush to the drive.
  /// Digests of all tensors' bytes, for ringload_operation_saved_manifest() of the finish.
  ringload_digest manifest_digest;
  const ringload_sha256* sha256;  // For RINGLOAD_DIGEST_SHA256; its functions must stay callable.
  /// The device of tensors with `on_device`. Null: the host. May be released at any time.
  const ringload_device* device;
} ringload_writer_options;

/// Storage options of an object. Attributes are alternating keys and values. Each value is JSON:
/// "\"adam\"", "0.1", "[1, 2]".
typedef struct ringload_object_options {
  size_t struct_bytes;
  int32_t zstd_level;      // 1 to 22. 0: raw.
  ringload_digest digest;  // Kind of digest of the stored bytes, kept in the file.
  const char* type;        // A logical type of the elements. Null: derived from the dtype.
  const char* const* attributes;
  size_t attributes_count;  // Number of pairs.
} ringload_object_options;

/// An object of several components: a sparse matrix, a quantised group.
typedef struct ringload_object {
  size_t struct_bytes;
  const char* name;
  const char* layout;  // "sparse_csr", "sparse_coo", "quantized_group", or any other but "dense".
  const uint64_t* shape;
  size_t rank;
  const char* const* attributes;
  size_t attributes_count;  // Number of pairs.
} ringload_object;

/// Options for copying objects from another .zt file.
typedef struct ringload_copy_options {
  size_t struct_bytes;
  const char* const* without;  // Names of objects to leave out.
  size_t without_count;
  int encode_anew;     // Not 0: encodes again with `zstd_level`. 0: copies the stored bytes.
  int32_t zstd_level;  // 0: raw.
  /// RINGLOAD_DIGEST_NONE: the kind of the existing digest, if there is one.
  ringload_digest digest;
} ringload_copy_options;

/// Creates a file. `path` null: a file in memory, returned by the finish. `options` may be null.
/// Blocks on the file system.
RINGLOAD_C_EXPORT ringload_status ringload_writer_create(const char* path,
                                                         const ringload_writer_options* options,
                                                         ringload_writer** result);
/// Adds to the file `path`: creates a copy with the existing objects, which replaces `path` when it
/// is complete. If `path` is not a .zt file of version 1.1 or 1.2, the first operation fails.
RINGLOAD_C_EXPORT ringload_status ringload_writer_append(const char* path,
                                                         const ringload_writer_options* options,
                                                         ringload_writer** result);
/// Releases the writer. If no finish has completed, no file remains, and pending
/// operations fail.
RINGLOAD_C_EXPORT void ringload_writer_release(ringload_writer* writer);

// Steps run in the order of these calls, in a thread of the writer. A step may be started before
// earlier steps have ended. Memory of tensors must stay valid and unchanged until their step has
// ended. If a step is cancelled, or fails after it has changed the file, all later steps fail too.

/// Adds a dense tensor. `options` null: stored raw.
RINGLOAD_C_EXPORT ringload_status ringload_writer_add_begin(ringload_writer* writer,
                                                            const ringload_saved_tensor* tensor,
                                                            const ringload_object_options* options,
                                                            ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_writer_add(ringload_writer* writer,
                                                      const ringload_saved_tensor* tensor,
                                                      const ringload_object_options* options);

/// Declares an object of several components, which are then added in any order.
RINGLOAD_C_EXPORT ringload_status ringload_writer_declare_begin(ringload_writer* writer,
                                                                const ringload_object* object,
                                                                ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_writer_declare(ringload_writer* writer,
                                                          const ringload_object* object);

/// Adds a component, named after the tensor and without attributes. The finish checks whether the
/// components of an object match.
RINGLOAD_C_EXPORT ringload_status ringload_writer_add_part_begin(
    ringload_writer* writer, const char* object, const ringload_saved_tensor* part,
    const ringload_object_options* options, ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_writer_add_part(ringload_writer* writer,
                                                           const char* object,
                                                           const ringload_saved_tensor* part,
                                                           const ringload_object_options* options);

/// Adds a second name for an existing object. Its bytes are not written again.
RINGLOAD_C_EXPORT ringload_status ringload_writer_add_alias_begin(ringload_writer* writer,
                                                                  const char* name,
                                                                  const char* target,
                                                                  ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_writer_add_alias(ringload_writer* writer,
                                                            const char* name, const char* target);

/// Adds the objects of another .zt file, with their types and attributes, and the attributes of
/// that file except for existing keys. `options` null: all objects, with their stored bytes.
RINGLOAD_C_EXPORT ringload_status ringload_writer_copy_begin(ringload_writer* writer,
                                                             const char* file,
                                                             const ringload_copy_options* options,
                                                             ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_writer_copy(ringload_writer* writer, const char* file,
                                                       const ringload_copy_options* options);

/// Replaces the elements of a dense tensor of this name that is stored raw. RINGLOAD_MISMATCH for
/// another dtype or shape.
RINGLOAD_C_EXPORT ringload_status ringload_writer_replace_begin(ringload_writer* writer,
                                                                const ringload_saved_tensor* tensor,
                                                                ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_writer_replace(ringload_writer* writer,
                                                          const ringload_saved_tensor* tensor);

/// Sets an attribute of the file. Its value is JSON.
RINGLOAD_C_EXPORT ringload_status ringload_writer_set_attribute_begin(
    ringload_writer* writer, const char* key, const char* json, ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_writer_set_attribute(ringload_writer* writer,
                                                                const char* key, const char* json);

/// Writes pending data and the end of the file, and publishes the file. ringload_writer_finish()
/// returns the size of the file; `bytes` may be null. A file in memory is only returned by
/// ringload_operation_written().
RINGLOAD_C_EXPORT ringload_status ringload_writer_finish_begin(ringload_writer* writer,
                                                               ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_writer_finish(ringload_writer* writer, uint64_t* bytes);

/// The result of a finish.
typedef struct ringload_written {
  size_t struct_bytes;
  uint64_t bytes;         // Size of the file.
  uint64_t bytes_direct;  // Written past the page cache.
  const void* file;       // The file in memory; else null.
} ringload_written;

RINGLOAD_C_EXPORT ringload_status ringload_operation_written(const ringload_operation* operation,
                                                             ringload_written* into);

#ifdef __cplusplus
}
#endif

#endif
