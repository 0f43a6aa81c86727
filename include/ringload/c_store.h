// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_STORE_H
#define RINGLOAD_C_STORE_H

// The part of the C interface of ringload/c.h for checkpoints that are already in memory, or in a
// custom store. See `ringload/byte_source.hpp`.
//
// A custom store consists of functions of the program. A loader calls these functions for each
// checkpoint whose name begins with the prefix of the store.
//
//     ringload_store store = RINGLOAD_STRUCT(ringload_store);
//     store.prefix = "cache://";
//     store.open = open_object;
//     store.read = read_object;
//     ringload_store_extension(&store, &extension);
//     const ringload_extension* extensions[1] = {extension};
//     ringload_loader_create_with(NULL, NULL, extensions, 1, &loader);
//     ringload_open(loader, "cache://models/7b.safetensors", NULL, &checkpoint);

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A call of one of the functions of a store. The handle is valid until the function returns.
typedef struct ringload_store_call ringload_store_call;
/// A read that `begin_read` has started. The handle is valid until ringload_store_read_done() or
/// ringload_store_read_failed() is called for this read.
typedef struct ringload_store_read ringload_store_read;

/// The capacity of the text that `identity` writes, including the 0 byte at its end.
#define RINGLOAD_STORE_IDENTITY_BYTES 256

/// The functions of a store. Several threads of the library call the functions at the same time. No
/// function may throw a C++ exception. No function may wait for an operation of a loader that uses
/// the store, because the operation may need the thread that calls the function. A function that is
/// optional may be null.
///
/// RINGLOAD_OK means that the function has succeeded. If a function returns any other status, the
/// load fails with the same status. However, the load replaces RINGLOAD_PENDING, RINGLOAD_END,
/// RINGLOAD_CANCELLED, RINGLOAD_INTERNAL_ERROR and unknown values by RINGLOAD_SYSTEM_ERROR. A
/// cancelled load ends with RINGLOAD_CANCELLED, even if its reads return another status.
/// ringload_store_fail() adds a reason to the error text.
typedef struct ringload_store {
  size_t struct_bytes;
  void* context;  // The first argument of `open`, `list`, `is_folder` and `release`.
  /// Names that begin with this text belong to the store, such as "cache://".
  const char* prefix;

  /// Opens the object `name`. The name includes the prefix, such as
  /// "cache://models/7b.safetensors". Sets `object`, which is the first argument of `read`,
  /// `begin_read`, `identity` and `close`. Sets `bytes` to the size of the object. Returns
  /// RINGLOAD_NOT_FOUND if the object does not exist. May block. `name` can come from an index
  /// file. A name with a component ".." is refused before this call, also in ringload_open().
  ringload_status (*open)(void* context, const char* name, void** object, uint64_t* bytes,
                          ringload_store_call* call);

  /// Reads `bytes` bytes at `offset` into the memory `into`, and returns the number of bytes in
  /// `bytes_read`. A read of fewer bytes fails the load with RINGLOAD_CHANGED_FILE. May block. The
  /// store has `threads` threads that call this function. Set either `read` or `begin_read`.
  ringload_status (*read)(void* object, uint64_t offset, void* into, uint64_t bytes,
                          uint64_t* bytes_read, ringload_store_call* call);

  /// Starts a read and returns without blocking. The program must call ringload_store_read_done()
  /// or ringload_store_read_failed() exactly once for each read, in any thread, also after a
  /// cancellation. The program may also call these functions inside `begin_read`. The program may
  /// write to `into` until the call of one of these functions. Set either `read` or `begin_read`.
  void (*begin_read)(void* object, uint64_t offset, void* into, uint64_t bytes,
                     ringload_store_read* read);

  /// Writes a text that changes when the object is replaced, such as an ETag. `text` has
  /// RINGLOAD_STORE_IDENTITY_BYTES bytes. Called when the object is opened, when its catalog has
  /// been read, when a load from an open checkpoint begins, and at the end of each load. If the
  /// texts differ, the open or the load fails with RINGLOAD_CHANGED_FILE. May block. Optional.
  ringload_status (*identity)(void* object, char* text, ringload_store_call* call);

  /// Closes an object. Called once for each object that `open` has returned. Optional.
  void (*close)(void* object);

  /// Returns a number other than 0 if `name` is a folder of checkpoint files. May block. Optional:
  /// without this function, the store has no folders.
  int (*is_folder)(void* context, const char* name);

  /// Calls ringload_store_add_name() for each file of the folder. May block. Optional: without this
  /// function, folders cannot be opened.
  ringload_status (*list)(void* context, const char* folder, ringload_store_call* call);

  /// Called once, when no extension, no loader and no checkpoint uses the store any more. All
  /// objects are closed before this call. Optional.
  void (*release)(void* context);

  /// The number of threads that call `read`, at most 64. 0 means 4 threads. `begin_read` needs no
  /// threads.
  uint32_t threads;
} ringload_store;

/// Creates an extension for ringload_loader_create_with(). The struct is copied. Returns
/// RINGLOAD_INVALID_ARGUMENT if a required function or the prefix is missing. If the call fails,
/// `release` is not called.
RINGLOAD_C_EXPORT ringload_status ringload_store_extension(const ringload_store* store,
                                                           ringload_extension** result);

/// Sets the reason of a failure, and returns `status`. The reason is copied, and becomes a part of
/// the error text. The reason must not contain credentials.
///
///     return ringload_store_fail(call, RINGLOAD_NOT_FOUND, "the cache has no such model");
RINGLOAD_C_EXPORT ringload_status ringload_store_fail(ringload_store_call* call,
                                                      ringload_status status, const char* reason);
/// Returns 1 if the result of `call` is no longer needed, because the load was cancelled or has
/// failed. In this case, the function of the store should return soon, with any status.
RINGLOAD_C_EXPORT int ringload_store_is_cancelled(const ringload_store_call* call);
/// Adds the name of a file, without the folder, to the result of `list`. Returns
/// RINGLOAD_INVALID_ARGUMENT if `call` is not a call of `list`.
RINGLOAD_C_EXPORT ringload_status ringload_store_add_name(ringload_store_call* call,
                                                          const char* name);

/// Ends a read that has succeeded. A read of fewer bytes than requested fails the load with
/// RINGLOAD_CHANGED_FILE.
RINGLOAD_C_EXPORT void ringload_store_read_done(ringload_store_read* read, uint64_t bytes_read);
/// Ends a read that has failed. `reason` is copied, and may be null.
RINGLOAD_C_EXPORT void ringload_store_read_failed(ringload_store_read* read, ringload_status status,
                                                  const char* reason);
/// Returns 1 if the bytes of `read` are no longer needed. In this case, the program should end the
/// read soon.
RINGLOAD_C_EXPORT int ringload_store_read_is_cancelled(const ringload_store_read* read);

/// Opens a checkpoint file in memory. `name` appears in error texts and in the catalog. The suffix
/// of `name`, such as ".safetensors", determines the format. `release` is called once with
/// `context` when the bytes are no longer needed, also if the call fails. If `release` is null, the
/// caller must keep the bytes until the checkpoint, its loads and its operations are released.
/// `options` may be null. The result of the operation is a checkpoint: see
/// ringload_operation_checkpoint().
RINGLOAD_C_EXPORT ringload_status
ringload_open_memory_begin(ringload_loader* loader, const void* bytes, size_t count,
                           const char* name, void (*release)(void* context), void* context,
                           const ringload_open_options* options, ringload_operation** operation);
/// Opens a file in memory as ringload_open_memory_begin() does, and waits until the catalog is
/// read.
RINGLOAD_C_EXPORT ringload_status ringload_open_memory(ringload_loader* loader, const void* bytes,
                                                       size_t count, const char* name,
                                                       void (*release)(void* context),
                                                       void* context,
                                                       const ringload_open_options* options,
                                                       ringload_checkpoint** opened);

#ifdef __cplusplus
}
#endif

#endif
