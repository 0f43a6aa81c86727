// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_CATALOG_H
#define RINGLOAD_C_CATALOG_H

// Functions that describe the files of a checkpoint, the objects that consist of several tensors,
// the objects that cannot be loaded, and the warnings. Other functions describe dtypes. See
// `ringload/catalog.hpp` and `dtype.hpp`. The function that describes a tensor is
// ringload_checkpoint_tensor() of ringload/c.h.
//
// All pointers are valid until the checkpoint is released.

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

/// One file of a checkpoint. A digest in a file belongs to one tensor, not to the file: see
/// ringload_tensor_info::digest.
typedef struct ringload_file_info {
  size_t struct_bytes;
  const char* path;    // The path that was opened.
  const char* format;  // "safetensors", "gguf", "npy", "pytorch", ...
  uint64_t bytes;      // The size at the time of opening.
  /// Bytes that were read to find the tensors: see file_info::header_bytes of `catalog.hpp`.
  uint64_t header_bytes;
} ringload_file_info;

/// Describes the file at a position. Returns RINGLOAD_END if the position is after the last file.
RINGLOAD_C_EXPORT ringload_status ringload_checkpoint_file(const ringload_checkpoint* checkpoint,
                                                           size_t position,
                                                           ringload_file_info* into);

/// An object that is stored as several tensors, such as a sparse matrix or a quantised group.
typedef struct ringload_object_info {
  size_t struct_bytes;
  /// The name of the object, without the names of its parts.
  const char* name;
  const char* layout;     // "sparse_csr", "sparse_coo", or another name of the format.
  const char* type;       // The type of the object. "" means the dtype of the object's values.
  const uint64_t* shape;  // The shape of the whole object, such as the shape of a sparse matrix.
  /// The number of dimensions of `shape`.
  size_t rank;
  size_t parts;            // The number of tensors that form the object.
  uint32_t file_position;  // The position of the file: see ringload_checkpoint_file().
} ringload_object_info;

/// Describes the object at a position. Returns RINGLOAD_END if the position is after the last
/// object.
RINGLOAD_C_EXPORT ringload_status ringload_checkpoint_object(const ringload_checkpoint* checkpoint,
                                                             size_t position,
                                                             ringload_object_info* into);
/// Returns one part of the object at the position `object`. `name` receives the name of the part
/// within the object, such as "indices". `tensor` receives the position of the tensor in the
/// checkpoint, and may be null. Returns RINGLOAD_END if a position is after the last object or the
/// last part. If the tensor cannot be loaded, the function sets `name`, and returns the status that
/// a load of the tensor would return.
RINGLOAD_C_EXPORT ringload_status
ringload_checkpoint_object_part(const ringload_checkpoint* checkpoint, size_t object, size_t part,
                                const char** name, size_t* tensor);
/// Returns one attribute of the object at the position `object`. Returns RINGLOAD_END if a position
/// is after the last object or the last attribute.
RINGLOAD_C_EXPORT ringload_status
ringload_checkpoint_object_attribute(const ringload_checkpoint* checkpoint, size_t object,
                                     size_t position, ringload_attribute* into);

/// An object that cannot be loaded. A load that selects this object fails, unless `is_left_out`
/// is set.
typedef struct ringload_unreadable_info {
  size_t struct_bytes;
  /// The name of the object in the file.
  const char* name;
  const char* place;       // The file, the object, and the position of its description in the file.
  const char* reason;      // The invalid value, and the expected value.
  const char* error_name;  // The name of the error, as in ringload_last_error_name().
  ringload_status status;  // The status of a load that selects the object.
  /// If not 0, a load omits the object. The load then fails only if its selection contains the
  /// exact name of the object, or a glob that matches the object but no tensor.
  int is_left_out;
  uint32_t file_position;  // The position of the file: see ringload_checkpoint_file().
} ringload_unreadable_info;

/// Describes the object at a position in the list of objects that cannot be loaded. Returns
/// RINGLOAD_END if the position is after the last object.
RINGLOAD_C_EXPORT ringload_status ringload_checkpoint_unreadable(
    const ringload_checkpoint* checkpoint, size_t position, ringload_unreadable_info* into);

/// Returns the warning at a position: one sentence. A warning does not fail a load. Returns
/// RINGLOAD_END if the position is after the last warning.
RINGLOAD_C_EXPORT ringload_status ringload_checkpoint_note(const ringload_checkpoint* checkpoint,
                                                           size_t position, const char** text);

/// Returns the type with this name in safetensors, such as "BF16". Returns RINGLOAD_AS_STORED if no
/// type has this name, or if `name` is null.
RINGLOAD_C_EXPORT ringload_dtype ringload_dtype_named(const char* name);
/// Returns the alignment of one element in bytes: 1, 2, 4, 8 or 16. Returns 0 for an invalid type.
RINGLOAD_C_EXPORT uint32_t ringload_dtype_alignment(ringload_dtype type);
/// Returns 1 if a load can convert tensors of the type `from` to the type `to`, else 0. An invalid
/// type cannot be converted.
RINGLOAD_C_EXPORT int ringload_dtype_is_convertible(ringload_dtype from, ringload_dtype to);

#ifdef __cplusplus
}
#endif

#endif
