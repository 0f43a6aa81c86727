// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_WRITER_H
#define RINGLOAD_C_WRITER_H

// A .zt file written tensor by tensor, of ringload/c.h: compressed, with digests, sparse objects
// and attributes. For all tensors at once, and for safetensors, there is ringload_save().
// `ringload/writer.hpp` says more.
//
//     ringload_writer_create("model.zt", NULL, &writer);
//     ringload_writer_add(writer, &tensor, &storing);
//     ringload_writer_finish(writer, NULL);
//
// A step that is refused before it has changed the file, because of a name or a setting, fails
// alone, and the next may succeed. Any other failure is for good.
//
// The file appears under its path when the writer has finished. Until then, whatever happens, what
// was there before is there still. To remove objects, copy the others into a new file of that path.

#include <ringload/c_save.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ringload_writer ringload_writer;

typedef struct ringload_writer_options {
  size_t struct_bytes;
  uint32_t alignment;     // Of tensors: a power of two up to 2 MiB. 0: 64.
  uint32_t zstd_threads;  // At most 16. 0: as many as there are processors.
  int keep_existing;      // Not 0: a file that is there is not replaced.
  int no_sync;            // Not 0: completes before the drive has it all.
  /// Of all tensors' own bytes, for ringload_operation_saved_manifest() of the finish.
  ringload_digest manifest_digest;
  const ringload_sha256* sha256;  // For RINGLOAD_DIGEST_SHA256; its functions stay callable.
  /// Where tensors lie that have `on_device` set. Null: the host. Released whenever you like.
  const ringload_device* device;
} ringload_writer_options;

/// How an object is stored. Attributes are keys and values in turn, each value as JSON: "\"adam\"",
/// "0.1", "[1, 2]".
typedef struct ringload_object_options {
  size_t struct_bytes;
  int32_t zstd_level;      // 1 to 22. 0: raw.
  ringload_digest digest;  // Of the stored bytes, kept in the file.
  const char* type;        // A logical type of the elements. Null: by the dtype.
  const char* const* attributes;
  size_t attributes_count;  // Of pairs.
} ringload_object_options;

/// An object of several components: a sparse matrix, a quantised group.
typedef struct ringload_object {
  size_t struct_bytes;
  const char* name;
  const char* layout;  // "sparse_csr", "sparse_coo", "quantized_group", or any other but "dense".
  const uint64_t* shape;
  size_t rank;
  const char* const* attributes;
  size_t attributes_count;  // Of pairs.
} ringload_object;

/// What becomes of objects that are copied from another .zt file.
typedef struct ringload_copy_options {
  size_t struct_bytes;
  const char* const* without;  // The objects that are left out.
  size_t without_count;
  int encode_anew;         // Not 0: by `zstd_level`. 0: stored bytes are copied as they are.
  int32_t zstd_level;      // 0: raw.
  ringload_digest digest;  // RINGLOAD_DIGEST_NONE: of the kind they have, if they have one.
} ringload_copy_options;

/// A new file. `path` null: in memory, to be taken from the finish. `how` may be null. Blocks on
/// the file system.
RINGLOAD_C_EXPORT ringload_status ringload_writer_create(const char* path,
                                                         const ringload_writer_options* how,
                                                         ringload_writer** made);
/// A file that has all that `path` has, and what is added; it takes the place of that one when it
/// is whole. If that is no .zt file of version 1.1 or 1.2, the first operation says so.
RINGLOAD_C_EXPORT ringload_status ringload_writer_append(const char* path,
                                                         const ringload_writer_options* how,
                                                         ringload_writer** made);
/// Without a finish that has ended nothing is left of the file; operations that have not ended
/// fail.
RINGLOAD_C_EXPORT void ringload_writer_release(ringload_writer* writer);

// Steps are carried out in the order of these calls, in a thread of the writer's, and may be begun
// before others have ended. Memory of tensors must stay, and not change, until their step has
// ended. A step that fails or is cancelled ends the writer: all that follow fail too.

/// Adds a dense tensor. `how` may be null: raw.
RINGLOAD_C_EXPORT ringload_status ringload_writer_add_begin(ringload_writer* writer,
                                                            const ringload_saved_tensor* tensor,
                                                            const ringload_object_options* how,
                                                            ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_writer_add(ringload_writer* writer,
                                                      const ringload_saved_tensor* tensor,
                                                      const ringload_object_options* how);

/// Announces an object of several components, which are then added in any order.
RINGLOAD_C_EXPORT ringload_status ringload_writer_declare_begin(ringload_writer* writer,
                                                                const ringload_object* object,
                                                                ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_writer_declare(ringload_writer* writer,
                                                          const ringload_object* object);

/// Adds a component, which has the tensor's name, and no attributes. Whether the components of an
/// object fit each other is checked at the finish.
RINGLOAD_C_EXPORT ringload_status ringload_writer_add_part_begin(ringload_writer* writer,
                                                                 const char* object,
                                                                 const ringload_saved_tensor* part,
                                                                 const ringload_object_options* how,
                                                                 ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_writer_add_part(ringload_writer* writer,
                                                           const char* object,
                                                           const ringload_saved_tensor* part,
                                                           const ringload_object_options* how);

/// A second name for an object that is there: its bytes are not written again.
RINGLOAD_C_EXPORT ringload_status ringload_writer_add_alias_begin(ringload_writer* writer,
                                                                  const char* name, const char* of,
                                                                  ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_writer_add_alias(ringload_writer* writer,
                                                            const char* name, const char* of);

/// Adds the objects of another .zt file, with their types and attributes, and that file's own
/// attributes but for keys that are there. `how` may be null: all, as they are stored.
RINGLOAD_C_EXPORT ringload_status ringload_writer_copy_begin(ringload_writer* writer,
                                                             const char* file,
                                                             const ringload_copy_options* how,
                                                             ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_writer_copy(ringload_writer* writer, const char* file,
                                                       const ringload_copy_options* how);

/// Replaces the elements of a dense tensor of this name that is stored raw; RINGLOAD_MISMATCH for
/// another dtype or shape.
RINGLOAD_C_EXPORT ringload_status ringload_writer_replace_begin(ringload_writer* writer,
                                                                const ringload_saved_tensor* by,
                                                                ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_writer_replace(ringload_writer* writer,
                                                          const ringload_saved_tensor* by);

/// Sets an attribute of the file; its value is JSON.
RINGLOAD_C_EXPORT ringload_status ringload_writer_set_attribute_begin(ringload_writer* writer,
                                                                      const char* key,
                                                                      const char* json,
                                                                      ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_writer_set_attribute(ringload_writer* writer,
                                                                const char* key, const char* json);

/// Writes what is pending and the end of the file, and publishes it. ringload_writer_finish() gives
/// the size of the file; `bytes` may be null. What was written in memory is had by
/// ringload_operation_written() alone.
RINGLOAD_C_EXPORT ringload_status ringload_writer_finish_begin(ringload_writer* writer,
                                                               ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_writer_finish(ringload_writer* writer, uint64_t* bytes);

/// The result of a finish.
typedef struct ringload_written {
  size_t struct_bytes;
  uint64_t bytes;         // Of the file.
  uint64_t bytes_direct;  // Written past the page cache.
  const void* file;       // The file itself, where it is in memory; else null.
} ringload_written;

RINGLOAD_C_EXPORT ringload_status ringload_operation_written(const ringload_operation* operation,
                                                             ringload_written* into);

#ifdef __cplusplus
}
#endif

#endif
