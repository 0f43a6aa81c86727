// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_SAVE_H
#define RINGLOAD_C_SAVE_H

// Saves for ringload/c.h: saves tensors in memory as a checkpoint, safetensors or .zt. Manifests:
// the digests that tensors must have. See `ringload/save.hpp` and `verify.hpp`.

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

// --- Digests

typedef enum ringload_digest RINGLOAD_OF_INT {
  RINGLOAD_DIGEST_NONE = 0,
  RINGLOAD_DIGEST_CRC32C = 1,  // Detects accidental corruption, not tampering. Built in.
  RINGLOAD_DIGEST_SHA256 = 2   // Requires functions of the caller: ringload_sha256.
} ringload_digest;

/// A SHA-256 implementation of the caller, from any cryptographic library. Called in threads of
/// ringload, by several threads concurrently, each with its own state.
typedef struct ringload_sha256 {
  size_t struct_bytes;
  /// Returns a new state; null fails the load with RINGLOAD_NO_MEMORY.
  void* (*begin)(void* context);
  /// Adds the next bytes, in order.
  void (*update)(void* state, const void* bytes, size_t count);
  /// Writes the digest of 32 bytes. Called at most once, at the end.
  void (*finish)(void* state, unsigned char* digest);
  /// Called once for each state, finished or not.
  void (*release)(void* state);
  void* context;
} ringload_sha256;

/// Reads a manifest: one line for each tensor of a checkpoint, as `ringload sum --manifest` writes
/// it.
///
///     crc32c 8a9136aa  model.norm.weight
///
/// `sha256` may be null. Then a load with a SHA-256 digest fails with RINGLOAD_UNSUPPORTED.
/// Otherwise its functions and its context must stay usable as long as the manifest and the loads
/// that use the manifest.
RINGLOAD_C_EXPORT ringload_status ringload_manifest_read(const char* path,
                                                         const ringload_sha256* sha256,
                                                         ringload_manifest** result);
/// Parses a manifest. `place` is the name in errors, and may be null.
RINGLOAD_C_EXPORT ringload_status ringload_manifest_parse(const char* text, const char* place,
                                                          const ringload_sha256* sha256,
                                                          ringload_manifest** result);
RINGLOAD_C_EXPORT void ringload_manifest_release(ringload_manifest* manifest);

// --- Saves

/// A tensor to be saved. Its memory must stay valid and unchanged until the operation has ended.
typedef struct ringload_saved_tensor {
  size_t struct_bytes;
  const char* name;  // Null: the name of `loaded`.
  const void* data;  // The element at index 0 in every dimension.
  const uint64_t* shape;
  const int64_t* strides;  // In elements. Null: dense and row-major.
  size_t rank;
  uint64_t bytes;  // The size of the memory for a check. 0: unchecked.
  /// A tensor to be saved and kept alive, or null. If set, the fields above except `name` are
  /// ignored.
  const ringload_tensor* loaded;
  /// A tensor that describes the memory, or null. If set, the fields above except `name` are
  /// ignored. The deleter is called when the tensor is no longer needed, also if the call fails.
  struct DLManagedTensorVersioned* from_dlpack;
  ringload_dtype dtype;
  int on_device;  // Not 0: memory of the loader's device. 0: host memory.
} ringload_saved_tensor;

typedef struct ringload_save_options {
  size_t struct_bytes;
  const char* const* metadata;  // Alternating keys and values.
  size_t metadata_count;        // Number of pairs.
  uint64_t shard_bytes;         // Maximum bytes of a shard; writes an index.
  uint32_t shard_count;         // Number of shards. Both 0: one file.
  uint32_t alignment;           // Alignment of the first tensor in its file. 0: 8.
  ringload_dtype dtype;         // Floating types are converted to this type.
  int in_given_order;           // Not 0: tensors are written in input order.
  int keep_existing;            // Not 0: an existing target is not replaced.
  int no_sync;                  // Not 0: completes without a flush to the drive.
  int read_back;                // Not 0: written bytes are read back and compared.
  ringload_digest digest;  // Digests of the saved tensors, for ringload_operation_saved_manifest().
  const ringload_sha256* sha256;  // For RINGLOAD_DIGEST_SHA256; its functions must stay callable.
} ringload_save_options;

/// Writes a file or a folder of shards, which appears under `path` when it is complete.
RINGLOAD_C_EXPORT ringload_status ringload_save_begin(ringload_loader* loader, const char* path,
                                                      const ringload_saved_tensor* tensors,
                                                      size_t count,
                                                      const ringload_save_options* options,
                                                      ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_save(ringload_loader* loader, const char* path,
                                                const ringload_saved_tensor* tensors, size_t count,
                                                const ringload_save_options* options);
/// Returns the paths of the files of a save; RINGLOAD_END after the last path.
RINGLOAD_C_EXPORT ringload_status ringload_operation_saved_file(const ringload_operation* operation,
                                                                size_t position, const char** path);
/// Returns the digests of a save, or of a writer's finish, as the text of a manifest. The save or
/// writer must have been created with a digest option.
RINGLOAD_C_EXPORT ringload_status ringload_operation_saved_manifest(ringload_operation* operation,
                                                                    const char** text);

#ifdef __cplusplus
}
#endif

#include <ringload/c_writer.h>

#endif
