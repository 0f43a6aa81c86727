// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_SAVE_H
#define RINGLOAD_C_SAVE_H

// Writes tensors from memory to a safetensors or .zt checkpoint, with the C interface of
// ringload/c.h. Also reads checksum lists. A checksum list contains the digest that each tensor
// must have. See `ringload/save.hpp` and `verify.hpp`.

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

// --- Digests

/// The algorithm of a digest.
typedef enum ringload_digest RINGLOAD_OF_INT {
  RINGLOAD_DIGEST_NONE = 0,
  /// Detects accidental corruption, but not tampering. Always available.
  RINGLOAD_DIGEST_CRC32C = 1,
  RINGLOAD_DIGEST_SHA256 = 2  // Requires functions of the caller: ringload_sha256.
} ringload_digest;

/// An implementation of SHA-256 by the caller, from any cryptographic library. Several threads of
/// ringload call the functions at the same time, but only one thread at a time uses a state.
struct ringload_sha256 {
  size_t struct_bytes;
  /// Returns a new state. If `begin` returns null, the operation fails with RINGLOAD_NO_MEMORY.
  void* (*begin)(void* context);
  /// Adds the next bytes to a state, in order.
  void (*update)(void* state, const void* bytes, size_t count);
  /// Writes the digest of 32 bytes to `digest`. Called at most once for each state, at the end.
  void (*finish)(void* state, unsigned char* digest);
  /// Releases a state. Called once for each state, even if `finish` was not called.
  void (*release)(void* state);
  void* context;  // The argument of `begin`.
};

/// Reads a checksum list from a file. The file has one line for each tensor of a checkpoint.
/// `ringload sum --checksums` writes a checksum list.
///
///     crc32c 8a9136aa  model.norm.weight
///
/// If `sha256` is null, a load that must verify a SHA-256 digest fails with RINGLOAD_UNSUPPORTED.
/// If `sha256` is not null, its functions and its context must stay valid until the checksum list
/// and all loads that use the list are released.
RINGLOAD_C_EXPORT ringload_status ringload_checksum_list_read(const char* path,
                                                              const ringload_sha256* sha256,
                                                              ringload_checksum_list** result);
/// Parses the text of a checksum list. `place` is the name of the list in error texts, and may be
/// null.
RINGLOAD_C_EXPORT ringload_status ringload_checksum_list_parse(const char* text, const char* place,
                                                               const ringload_sha256* sha256,
                                                               ringload_checksum_list** result);
/// Releases a checksum list. Loads that have begun with the list are not affected.
RINGLOAD_C_EXPORT void ringload_checksum_list_release(ringload_checksum_list* list);

// --- Saves

/// A tensor that will be saved. The memory must stay valid and unchanged until the operation has
/// ended.
typedef struct ringload_saved_tensor {
  size_t struct_bytes;
  const char* name;  // The name in the checkpoint. Null means the name of `loaded`.
  const void* data;  // The element whose index is 0 in every dimension.
  /// The sizes of the dimensions, outermost first.
  const uint64_t* shape;
  const int64_t* strides;  // The strides in elements. Null means dense and row-major.
  /// The number of dimensions.
  size_t rank;
  /// The size of the memory. If the tensor needs more bytes, the save fails. 0 means no check.
  uint64_t bytes;
  /// A loaded tensor, or null. If set and `from_dlpack` is null, this tensor is saved and kept
  /// alive, and all other fields except `name` are ignored.
  const ringload_tensor* loaded;
  /// A DLPack tensor that describes the memory, or null. If set, all other fields except `name` and
  /// `device` are ignored. The deleter is called when the DLPack tensor is no longer needed, even
  /// if the call fails.
  struct DLManagedTensorVersioned* from_dlpack;
  /// The type of the elements in memory.
  ringload_dtype dtype;
  int on_device;  // Not 0 means memory of the loader's first device. 0 means host memory.
  /// The device of the memory. If null, `on_device` chooses the memory.
  const ringload_device* device;
} ringload_saved_tensor;

/// Options of a save. `ringload/save.hpp` describes each field.
typedef struct ringload_save_options {
  size_t struct_bytes;
  const char* const* metadata;  // Keys and values in turn: key, value, key, value.
  size_t metadata_count;        // The number of pairs of key and value.
  /// The maximum number of bytes of one shard, unless a single tensor is larger. If several shards
  /// are necessary, the save writes the shards and an index.
  uint64_t shard_bytes;
  /// The number of shards. If this number and `shard_bytes` are 0, the save writes one file.
  uint32_t shard_count;
  /// In safetensors, the alignment of the first tensor in each file. 0 means 8. In .zt, the
  /// alignment of every tensor. In .zt, a value below 64 means 64.
  uint32_t alignment;
  ringload_dtype dtype;  // If not RINGLOAD_AS_STORED, floating-point tensors get this type.
  int in_given_order;    // If not 0, a safetensors file has the tensors in input order.
  int keep_existing;     // If not 0, an existing target is not replaced.
  int no_sync;           // If not 0, the output is not flushed to the drive before completion.
  int read_back;         // If not 0, the written bytes are read back and compared.
  /// The algorithm of the digests that ringload_operation_saved_checksums() returns.
  ringload_digest digest;
  /// The functions that RINGLOAD_DIGEST_SHA256 requires. The functions must stay valid until the
  /// operation has ended.
  const ringload_sha256* sha256;
} ringload_save_options;

/// Saves tensors as one file, or as a folder of shards. If two tensors have the same name, the call
/// fails with RINGLOAD_INVALID_ARGUMENT. The output becomes visible at `path` when the output is
/// complete.
RINGLOAD_C_EXPORT ringload_status ringload_save_begin(ringload_loader* loader, const char* path,
                                                      const ringload_saved_tensor* tensors,
                                                      size_t count,
                                                      const ringload_save_options* options,
                                                      ringload_operation** operation);
/// Saves as ringload_save_begin() does, and waits until the output is visible.
RINGLOAD_C_EXPORT ringload_status ringload_save(ringload_loader* loader, const char* path,
                                                const ringload_saved_tensor* tensors, size_t count,
                                                const ringload_save_options* options);
/// Returns the path of the saved file at `position`. Returns RINGLOAD_END if `position` is after
/// the last file.
RINGLOAD_C_EXPORT ringload_status ringload_operation_saved_file(const ringload_operation* operation,
                                                                size_t position, const char** path);
/// Returns the digests of a completed save or of a finished writer, as the text of a checksum list.
/// The options of the save or of the writer must set the algorithm of the digests.
RINGLOAD_C_EXPORT ringload_status ringload_operation_saved_checksums(ringload_operation* operation,
                                                                     const char** text);

#ifdef __cplusplus
}
#endif

#include <ringload/c_writer.h>

#endif
