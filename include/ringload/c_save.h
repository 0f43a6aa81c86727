// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_SAVE_H
#define RINGLOAD_C_SAVE_H

// Saves, of ringload/c.h: tensors in memory become a checkpoint, safetensors or .zt; and manifests,
// the digests that tensors must have. `ringload/save.hpp` and `verify.hpp` say more.

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

// --- Digests

typedef enum ringload_digest RINGLOAD_OF_INT {
  RINGLOAD_DIGEST_NONE = 0,
  RINGLOAD_DIGEST_CRC32C = 1,  // Detects accidental corruption, not tampering. Built in.
  RINGLOAD_DIGEST_SHA256 = 2   // By the caller's functions, ringload_sha256.
} ringload_digest;

/// A SHA-256 of the caller's, as every library for cryptography has it. Called in threads of
/// ringload, by several at a time, each with a state of its own.
typedef struct ringload_sha256 {
  size_t struct_bytes;
  /// A new state; null fails the load with RINGLOAD_NO_MEMORY.
  void* (*begin)(void* context);
  /// The next bytes, in order.
  void (*update)(void* state, const void* bytes, size_t count);
  /// Into 32 bytes. Called once at most, at the end.
  void (*finish)(void* state, unsigned char* digest);
  /// Of each state once, whether it was finished or not.
  void (*release)(void* state);
  void* context;
} ringload_sha256;

/// A manifest: a line for each tensor of a checkpoint, as `ringload sum --manifest` writes it.
///
///     crc32c 8a9136aa  model.norm.weight
///
/// `sha256` may be null: then a load that meets a SHA-256 fails with RINGLOAD_UNSUPPORTED. Else its
/// functions and its context stay usable as long as the manifest and the loads that it was given
/// to.
RINGLOAD_C_EXPORT ringload_status ringload_manifest_read(const char* path,
                                                         const ringload_sha256* sha256,
                                                         ringload_manifest** made);
/// From text; `place` names it in errors, and may be null.
RINGLOAD_C_EXPORT ringload_status ringload_manifest_parse(const char* text, const char* place,
                                                          const ringload_sha256* sha256,
                                                          ringload_manifest** made);
RINGLOAD_C_EXPORT void ringload_manifest_release(ringload_manifest* manifest);

// --- Saves

/// A tensor to be saved. The memory must stay, and not change, until the operation has ended.
typedef struct ringload_saved_tensor {
  size_t struct_bytes;
  const char* name;  // Null: that of `loaded`.
  const void* data;  // Of the element at index 0 in every dimension.
  const uint64_t* shape;
  const int64_t* strides;  // In elements. Null: dense and row-major.
  size_t rank;
  uint64_t bytes;  // The size of the memory, to be checked. 0: unchecked.
  /// Null, or this tensor is saved: it is kept alive, and the fields above but `name` are ignored.
  const ringload_tensor* loaded;
  /// Null, or the memory is described by this tensor, and the fields above but `name` are ignored.
  /// Its deleter is called once it is no longer needed, also when the call fails.
  struct DLManagedTensorVersioned* from_dlpack;
  ringload_dtype dtype;
  int on_device;  // Not 0: in the memory of the loader's device. 0: of the host.
} ringload_saved_tensor;

typedef struct ringload_save_options {
  size_t struct_bytes;
  const char* const* metadata;  // Keys and values in turn.
  size_t metadata_count;        // Of pairs.
  uint64_t shard_bytes;         // Shards of at most so many bytes, with an index; or
  uint32_t shard_count;         // so many. Both 0: one file.
  uint32_t alignment;           // Of the first tensor in its file. 0: 8.
  ringload_dtype dtype;         // Floating types become this type.
  int in_given_order;           // Not 0: tensors lie in the order given.
  int keep_existing;            // Not 0: what is there under that path is not replaced.
  int no_sync;                  // Not 0: completes before the drive has it all.
  int read_back;                // Not 0: what was written is read and compared.
  ringload_digest digest;       // Of each tensor as saved, for ringload_operation_saved_manifest().
  const ringload_sha256* sha256;  // For RINGLOAD_DIGEST_SHA256; its functions stay callable.
} ringload_save_options;

/// Writes a file, or a folder of shards, that appears under `path` when it is whole.
RINGLOAD_C_EXPORT ringload_status ringload_save_begin(ringload_loader* loader, const char* path,
                                                      const ringload_saved_tensor* tensors,
                                                      size_t count,
                                                      const ringload_save_options* how,
                                                      ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_save(ringload_loader* loader, const char* path,
                                                const ringload_saved_tensor* tensors, size_t count,
                                                const ringload_save_options* how);
/// The paths of the files that a save has written; RINGLOAD_END after the last.
RINGLOAD_C_EXPORT ringload_status ringload_operation_saved_file(const ringload_operation* operation,
                                                                size_t position, const char** path);
/// The digests of a save, or of a writer's finish, that was told to take them, as the text of a
/// manifest.
RINGLOAD_C_EXPORT ringload_status ringload_operation_saved_manifest(ringload_operation* operation,
                                                                    const char** text);

#ifdef __cplusplus
}
#endif

#include <ringload/c_writer.h>

#endif
