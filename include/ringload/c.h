// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_H
#define RINGLOAD_C_H

// The C interface of ringload, for programs in C and in other languages that can call C functions.
// This header belongs to the component `c`.
//
// At its end, this header includes the other headers of the component: `ringload/c_catalog.h`,
// `c_devices.h`, `c_keeper.h`, `c_ranks.h`, `c_save.h`, `c_store.h`, `c_trace.h` and `c_writer.h`.
// Other components add devices, formats and stores. Each of these components has one header:
// `ringload/c_cuda.h`, `c_remote.h` or `c_hdf5.h`.
//
//     ringload_loader_create(NULL, NULL, &loader);
//     ringload_open(loader, "model.safetensors", NULL, &checkpoint);
//     ringload_load(loader, checkpoint, NULL, NULL, &model);
//     ringload_model_find(model, "wte.weight", &tensor);
//     ringload_tensor_view view = RINGLOAD_STRUCT(ringload_tensor_view);
//     ringload_tensor_look(tensor, &view);
//
// Objects are opaque handles. Each kind of handle has a release function. A release function
// accepts null. Models, tensors and checkpoints may be used after their loader is released.
//
// A function that can fail returns a ringload_status. After a failure, ringload_last_error()
// returns the cause as one line of text, with the file, the tensor and the byte offset if known. A
// failed call sets its result handle to null. No function throws an exception or aborts.
//
// Functions that may take long exist in two forms. NAME_begin starts an operation and returns. The
// program can then wait for the operation, poll its file descriptor, or set a callback. NAME
// without _begin starts the operation and waits for its end. An operation that is released before
// its end is cancelled.
//
// Each struct except ringload_s3_keys begins with `struct_bytes`, which the caller sets to the size
// of the struct. Later versions of ringload can then append fields. A field that is 0 has its
// default value. The caller must set all unused bytes of the struct to 0, for example with
// RINGLOAD_STRUCT:
//
//     ringload_load_options options = RINGLOAD_STRUCT(ringload_load_options);
//
// Text is UTF-8 and ends with a 0 byte. Only a key or a text of the metadata can also contain other
// 0 bytes: see ringload_attribute. A returned pointer is valid until the handle that returned
// the pointer is released.
//
// All functions are thread-safe, but a handle must not be used while another thread releases the
// handle. After fork(), the child process must not use handles of its parent.

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
/// Exports a function from a shared library.
#define RINGLOAD_C_EXPORT __attribute__((visibility("default")))
#else
#define RINGLOAD_C_EXPORT
#endif

#ifdef __cplusplus
/// Returns a struct of the type `type_name`. `struct_bytes` is set, and all other bytes are 0.
#define RINGLOAD_STRUCT(type_name) (ringload_sized_struct<type_name>())
/// Internal: returns a struct whose bytes are 0, except for `struct_bytes`. Designated initialisers
/// are not used, because they require C++20 and cause warnings about missing initialisers.
template <class T>
inline T ringload_sized_struct() {
  T result = T();
  result.struct_bytes = sizeof(T);
  return result;
}
/// The underlying type of the enums. Because the type is fixed, a C++ enum may hold values without
/// a name, such as values of later versions.
#define RINGLOAD_OF_INT : int
extern "C" {
#else
#define RINGLOAD_STRUCT(type_name) ((type_name){.struct_bytes = sizeof(type_name)})
#define RINGLOAD_OF_INT
#endif

/// A device whose memory can hold tensors: the host or a GPU.
typedef struct ringload_device ringload_device;
/// An optional feature of a loader: a format or a store.
typedef struct ringload_extension ringload_extension;
/// Threads and buffers that load checkpoints. See `ringload/loader.hpp`.
typedef struct ringload_loader ringload_loader;
/// An open checkpoint. The files are closed when the handle and all loads of the checkpoint are
/// released.
typedef struct ringload_checkpoint ringload_checkpoint;
/// Rules that select tensors, ranges and devices.
typedef struct ringload_selection ringload_selection;
/// The digests that the tensors of a checkpoint must have. See `ringload/c_save.h`.
typedef struct ringload_checksum_list ringload_checksum_list;
/// An operation that was started. After its end, the handle provides the result.
typedef struct ringload_operation ringload_operation;
/// A load in progress that returns each tensor as soon as the tensor is loaded.
typedef struct ringload_loading ringload_loading;
/// A load in progress whose tensors share a limited amount of memory.
typedef struct ringload_tensor_stream ringload_tensor_stream;
/// All tensors of a completed load.
typedef struct ringload_model ringload_model;
/// One loaded tensor. The handle keeps the memory of the tensor alive.
typedef struct ringload_tensor ringload_tensor;
/// A function that receives the steps of a load. See `ringload/c_trace.h`.
typedef struct ringload_trace ringload_trace;
/// Functions that compute SHA-256. See `ringload/c_save.h`.
typedef struct ringload_sha256 ringload_sha256;

/// The result of a call. The values never change. Later versions may add values.
typedef enum ringload_status RINGLOAD_OF_INT {
  RINGLOAD_OK = 0,
  RINGLOAD_PENDING = 1,    // The operation has not ended yet.
  RINGLOAD_END = 2,        // No entry or tensor is left.
  RINGLOAD_CANCELLED = 3,  // The operation was cancelled, or its loader was released.
  /// A handle is null, a value is unknown, or a range is invalid. Also returned if a save or a
  /// writer cannot write what the arguments describe, for example because a name is repeated.
  RINGLOAD_INVALID_ARGUMENT = 4,
  RINGLOAD_NOT_FOUND = 5,  // The source or the tensor does not exist.
  /// A file violates its format, bytes do not match a digest, or a source is not one complete
  /// checkpoint.
  RINGLOAD_INVALID_FILE = 6,
  /// The file or the request is valid, but requires a feature that ringload or this build does not
  /// have.
  RINGLOAD_UNSUPPORTED = 7,
  /// The host or the device does not have enough memory, or a limit is too low.
  RINGLOAD_NO_MEMORY = 8,
  /// A file was truncated, changed or replaced after the checkpoint was opened.
  RINGLOAD_CHANGED_FILE = 9,
  RINGLOAD_UNAVAILABLE = 10,  // The requested device, io_uring or direct reads are not available.
  /// Tensors do not match their destinations, or ranks made different calls.
  RINGLOAD_MISMATCH = 11,
  /// A request to the system, to a server or to another rank failed, for example because a
  /// permission is missing.
  RINGLOAD_SYSTEM_ERROR = 12,
  RINGLOAD_INTERNAL_ERROR = 13  // Any other failure, including bugs of ringload.
} ringload_status;

/// Returns the text of the last failed call of this thread, or "" if no call has failed. The
/// pointer is valid until the next call of this thread.
RINGLOAD_C_EXPORT const char* ringload_last_error(void);
/// Returns the place of the last failed call: the file, and the tensor or the byte in the file.
/// Returns "" if the failure has no place. The pointer is valid until the next call of this thread.
RINGLOAD_C_EXPORT const char* ringload_last_error_place(void);
/// Returns the `ringload::errc` name of the last failed call, such as "truncated_file". Returns ""
/// if the error code is not a code of ringload.
RINGLOAD_C_EXPORT const char* ringload_last_error_name(void);
/// Returns the errno value of the last failed call, or 0 if the system reported no error.
RINGLOAD_C_EXPORT int ringload_last_errno(void);
/// Returns the name of a status for logs, such as "invalid_file". Returns "unknown" for any other
/// value.
RINGLOAD_C_EXPORT const char* ringload_status_name(ringload_status status);
/// Returns the version of the library, such as "0.1.0".
RINGLOAD_C_EXPORT const char* ringload_version(void);

/// The version of this header as a number: 0.1.2 is 102, and 1.0.0 is 10,000.
#define RINGLOAD_C_VERSION 100
/// The version of the binary interface. Adding functions, or appending fields to structs, does not
/// change this version.
#define RINGLOAD_C_ABI_VERSION 1
/// Returns the RINGLOAD_C_ABI_VERSION of the library. If the value differs from
/// RINGLOAD_C_ABI_VERSION of this header, compile the program again.
RINGLOAD_C_EXPORT uint32_t ringload_abi_version(void);

/// The element types. The values never change.
typedef enum ringload_dtype RINGLOAD_OF_INT {
  RINGLOAD_AS_STORED = 0,  // Only for options: no conversion, or no dtype. No tensor has this type.
  RINGLOAD_BOOL = 1,
  RINGLOAD_F4 = 2,
  RINGLOAD_F6_E2M3 = 3,
  RINGLOAD_F6_E3M2 = 4,
  RINGLOAD_U8 = 5,
  RINGLOAD_I8 = 6,
  RINGLOAD_F8_E5M2 = 7,
  RINGLOAD_F8_E4M3 = 8,
  RINGLOAD_F8_E8M0 = 9,
  RINGLOAD_F8_E4M3FNUZ = 10,
  RINGLOAD_F8_E5M2FNUZ = 11,
  RINGLOAD_I16 = 12,
  RINGLOAD_U16 = 13,
  RINGLOAD_F16 = 14,
  RINGLOAD_BF16 = 15,
  RINGLOAD_I32 = 16,
  RINGLOAD_U32 = 17,
  RINGLOAD_F32 = 18,
  RINGLOAD_C64 = 19,
  RINGLOAD_F64 = 20,
  RINGLOAD_I64 = 21,
  RINGLOAD_U64 = 22,
  RINGLOAD_C128 = 23
} ringload_dtype;

/// Returns the name of the type in safetensors, such as "BF16". Returns "" for an invalid type.
RINGLOAD_C_EXPORT const char* ringload_dtype_name(ringload_dtype type);
/// Returns the width of one element in bits. Returns 0 for an invalid type.
RINGLOAD_C_EXPORT uint32_t ringload_dtype_bits(ringload_dtype type);

// --- Loaders

/// The kinds of devices.
typedef enum ringload_device_kind RINGLOAD_OF_INT {
  RINGLOAD_HOST = 0,
  RINGLOAD_CUDA = 1
} ringload_device_kind;

/// Releases a device of ringload_host_device(), ringload_cuda_device() or any other function.
RINGLOAD_C_EXPORT void ringload_device_release(ringload_device* device);

/// How a loader reads files.
typedef enum ringload_engine RINGLOAD_OF_INT {
  RINGLOAD_ENGINE_AUTOMATIC = 0,  // Uses io_uring if possible, and otherwise threads.
  RINGLOAD_ENGINE_RING = 1,
  RINGLOAD_ENGINE_THREADS = 2
} ringload_engine;

/// The page size of host memory: `ringload::huge_pages` describes each value.
typedef enum ringload_pages RINGLOAD_OF_INT {
  RINGLOAD_PAGES_TRANSPARENT = 0,
  RINGLOAD_PAGES_RESERVED = 1,
  RINGLOAD_PAGES_NONE = 2
} ringload_pages;

/// Whether GPUDirect Storage is used: `ringload::gpu_direct` describes each value.
typedef enum ringload_gpu_direct RINGLOAD_OF_INT {
  RINGLOAD_GPU_DIRECT_OFF = 0,
  RINGLOAD_GPU_DIRECT_AUTOMATIC = 1,
  RINGLOAD_GPU_DIRECT_REQUIRED = 2
} ringload_gpu_direct;

/// Limits of a loader. `ringload/options.hpp` describes each field.
typedef struct ringload_loader_options {
  size_t struct_bytes;
  uint64_t slot_bytes;  // The size of one pinned buffer (slot): a power of two, 64 KiB to 64 MiB.
  /// The limit for the bytes of reads in flight on one drive. If 0, the loader tunes the limit.
  uint64_t bytes_in_flight;
  uint64_t arena_bytes_max;  // The memory limit for the tensors of one load. 0 means no limit.
  /// The maximum number of bytes of freed tensor memory that each device keeps for later loads.
  uint64_t cached_bytes;
  /// The number of slots. 0 means 16 for the host, or 32 for each GPU, but at most 128.
  /// `loader_options::slots` in `ringload/options.hpp` describes the exceptions.
  uint32_t slots;
  /// The number of threads that copy bytes from the page cache. 0 means 3 for the host, and 3 or
  /// more for GPUs.
  uint32_t copy_threads;
  /// The number of threads that read if io_uring is not used. 0 means 8.
  uint32_t reader_threads;
  /// How the loader reads files.
  ringload_engine engine;
  /// The page size of host memory.
  ringload_pages pages;
  ringload_gpu_direct gpu_direct;  // Whether to use GPUDirect Storage.
  /// If not 0, a GPU copies replicated tensors only from host memory, not from another GPU.
  int no_peer_copies;
  /// The limit for the bytes per second that all loads of the loader read. 0 means no limit.
  uint64_t bytes_per_second_max;
  /// How long a cancelled or failed load waits for its reads, see `loader_options::stop_time_max`
  /// in `ringload/options.hpp`. 0 means 5,000.
  uint32_t stop_milliseconds_max;
} ringload_loader_options;

/// Creates a loader. `device` is copied, and null means the host. If `limits` is null, all options
/// have their default values.
RINGLOAD_C_EXPORT ringload_status ringload_loader_create(const ringload_device* device,
                                                         const ringload_loader_options* limits,
                                                         ringload_loader** result);
/// Creates a loader with extensions. The functions of `ringload/c_remote.h`, `c_hdf5.h` and
/// `c_store.h` create extensions. The extensions may be released before the loader.
RINGLOAD_C_EXPORT ringload_status ringload_loader_create_with(
    const ringload_device* device, const ringload_loader_options* limits,
    const ringload_extension* const* extensions, size_t count, ringload_loader** result);
/// Releases an extension. Loaders that use the extension are not affected.
RINGLOAD_C_EXPORT void ringload_extension_release(ringload_extension* extension);
/// Cancels all operations and waits until neither the kernel nor a device writes to a buffer or a
/// destination. Pending operations end with RINGLOAD_CANCELLED. If a drive does not complete a read
/// within 30 seconds, the call stops waiting. A call inside a callback does not wait.
RINGLOAD_C_EXPORT void ringload_loader_release(ringload_loader* loader);

/// Statistics of a load or of a loader. In statistics of a loader, the fields that describe a
/// single load are 0. `ringload/stats.hpp` describes each field.
typedef struct ringload_stats {
  size_t struct_bytes;
  uint64_t bytes;           // Bytes of the tensors that are loaded.
  uint64_t bytes_total;     // Bytes of all tensors of the load.
  uint64_t tensors;         // The number of tensors that are loaded.
  uint64_t tensors_total;   // The number of all tensors of the load.
  uint64_t bytes_arrived;   // Bytes that have arrived, for a progress bar. At most `bytes_total`.
  uint64_t bytes_direct;    // Bytes that were read with O_DIRECT.
  uint64_t bytes_buffered;  // Bytes that were read through the page cache.
  /// The number of reads of files.
  uint64_t reads;
  uint64_t pinned_bytes_peak;  // The total size of all allocated slots.
  double seconds;              // The time from the start of the load to its end, or to the present.
  double seconds_to_first_tensor;  // The time until the first tensor was loaded.
  double seconds_opening;          // The time until the reads were planned.
  ringload_engine engine;          // RINGLOAD_ENGINE_RING or RINGLOAD_ENGINE_THREADS.
  uint64_t bytes_gpu_direct;       // Bytes of `bytes_direct` that were read by GPUDirect Storage.
  uint64_t header_bytes;           // Bytes that were read to find the tensors, of all files.
  uint64_t threads;                // The number of threads that the loader has started.
  double seconds_device_wait;      // The time of copies from slots, as a sum over all slots.
} ringload_stats;

/// Statistics of one file. Reads of the file's header are not counted.
typedef struct ringload_file_stats {
  size_t struct_bytes;
  /// The path that was opened.
  const char* path;
  uint64_t bytes;       // The size of the file.
  uint64_t bytes_read;  // The number of bytes read, including the padding of aligned reads.
  /// The time from the start of the load to the first read of the file.
  double seconds_to_first_read;
  /// The time from the start of the first read to the end of the latest completed read.
  double seconds_reading;
  double seconds_device_wait;  // The time of copies from slots, as a sum over all slots.
} ringload_file_stats;

/// Writes the statistics of a loader to `into`. Only the fields within `into->struct_bytes` are
/// written.
RINGLOAD_C_EXPORT ringload_status ringload_loader_stats(const ringload_loader* loader,
                                                        ringload_stats* into);

// --- Operations

/// Waits until the operation has ended, but for at most `milliseconds`. A negative number means no
/// limit. Returns the status of the operation, or RINGLOAD_PENDING if the operation has not ended.
/// A callback must not wait. If the operation has not ended, a call inside a callback returns
/// RINGLOAD_INVALID_ARGUMENT, unless `milliseconds` is 0.
RINGLOAD_C_EXPORT ringload_status ringload_operation_wait(ringload_operation* operation,
                                                          int64_t milliseconds);
/// Returns the status of the operation, or RINGLOAD_PENDING if the operation has not ended.
RINGLOAD_C_EXPORT ringload_status ringload_operation_status(const ringload_operation* operation);
/// Returns a file descriptor for poll, epoll or an event loop. The descriptor becomes readable when
/// the operation ends, and stays readable. The operation owns the descriptor: the caller must not
/// read from the descriptor, and must not close the descriptor.
RINGLOAD_C_EXPORT ringload_status ringload_operation_descriptor(ringload_operation* operation,
                                                                int* descriptor);
/// Sets the callback `then` of an operation. `then` is called once, when the operation has ended.
/// If the operation has already ended, `then` is called too. An operation that has not ended can
/// have one callback. A thread of the loader runs the callbacks, one at a time. Exception: if
/// memory is exhausted, another thread of the library may call `then` with RINGLOAD_NO_MEMORY, at
/// any time. `then` may release the operation.
///
/// `then` is also called if the operation is released before its end. ringload_operation_wait() can
/// return before `then` is called. Therefore `context` must stay valid until `then` is called.
RINGLOAD_C_EXPORT ringload_status ringload_operation_on_end(ringload_operation* operation,
                                                            void (*then)(void* context,
                                                                         ringload_status status),
                                                            void* context);
/// An executor runs functions in a thread of the caller, such as the thread of an event loop.
typedef struct ringload_executor {
  size_t struct_bytes;
  /// Must cause exactly one call of `function(argument)`, in any thread, before or after `post`
  /// returns. A thread of the loader calls `post`. Therefore `post` must not wait.
  void (*post)(void* context, void (*function)(void* argument), void* argument);
  void* context;  // The first argument of `post`.
} ringload_executor;

/// Sets the callback of an operation, as ringload_operation_on_end() does. `executor` determines
/// the thread in which `then` is called. In this thread, `then` may wait for other operations.
/// Inside `then`, ringload_last_error() returns the failure of the operation. The executor is
/// copied. The context of the executor must stay valid until `then` is called.
RINGLOAD_C_EXPORT ringload_status
ringload_operation_on_end_in(ringload_operation* operation, const ringload_executor* executor,
                             void (*then)(void* context, ringload_status status), void* context);
/// Requests the cancellation of an operation. The operation ends with RINGLOAD_CANCELLED, unless
/// the operation was already complete. If the operation only waits for a tensor of a load, the load
/// itself is not cancelled.
RINGLOAD_C_EXPORT void ringload_operation_cancel(ringload_operation* operation);
/// Releases an operation. An operation that has not ended is cancelled.
RINGLOAD_C_EXPORT void ringload_operation_release(ringload_operation* operation);

// The next functions return the result of an operation that ended with RINGLOAD_OK. The caller must
// release the result, which is a handle. If the operation did not end with RINGLOAD_OK, the
// functions return the status of the operation. If the operation has another kind of result, the
// functions return RINGLOAD_INVALID_ARGUMENT.

/// Returns the checkpoint that ringload_open_begin() or ringload_open_memory_begin() opened.
RINGLOAD_C_EXPORT ringload_status ringload_operation_checkpoint(ringload_operation* operation,
                                                                ringload_checkpoint** result);
/// Returns the model of a load. May be called several times for one operation.
RINGLOAD_C_EXPORT ringload_status ringload_operation_model(ringload_operation* operation,
                                                           ringload_model** result);
/// Returns the tensor of an operation. Returns RINGLOAD_END if no further tensor is left.
RINGLOAD_C_EXPORT ringload_status ringload_operation_tensor(ringload_operation* operation,
                                                            ringload_tensor** result);
/// Returns the load that ringload_start_begin() started. May be called once for each operation.
RINGLOAD_C_EXPORT ringload_status ringload_operation_loading(ringload_operation* operation,
                                                             ringload_loading** result);
/// Returns the stream that ringload_stream_begin() started. May be called once for each operation.
RINGLOAD_C_EXPORT ringload_status ringload_operation_tensor_stream(ringload_operation* operation,
                                                                   ringload_tensor_stream** result);

// --- Checkpoints

/// Options for opening a checkpoint.
typedef struct ringload_open_options {
  size_t struct_bytes;
  /// If not 0, files are validated as with `strictness::reference` of `ringload/catalog.hpp`.
  int as_reference;
  int independent_files;  // If not 0, opens each file of a folder as an independent file.
  /// The 8-bit dtype of NumPy arrays of type "V1". The type "V1" states only the width of an
  /// element. If 0, opening a file with an array of type "V1" fails with RINGLOAD_UNSUPPORTED.
  ringload_dtype unnamed_one_byte;
  /// The 16-bit dtype of NumPy arrays of type "V2".
  ringload_dtype unnamed_two_bytes;
} ringload_open_options;

/// Opens a checkpoint and reads its catalog. Any number of loads can use the opened checkpoint. If
/// `count` is 1, the source is a file, a folder, an index, `owner/model[@revision]` in the local
/// Hugging Face cache, or a name in the store of an extension. If `count` is larger, the sources
/// are files that together form one checkpoint. `options` may be null.
RINGLOAD_C_EXPORT ringload_status ringload_open_begin(ringload_loader* loader,
                                                      const char* const* sources, size_t count,
                                                      const ringload_open_options* options,
                                                      ringload_operation** operation);
/// Opens one source, and waits until the catalog is read.
RINGLOAD_C_EXPORT ringload_status ringload_open(ringload_loader* loader, const char* source,
                                                const ringload_open_options* options,
                                                ringload_checkpoint** opened);
/// Closes the files, unless a load or another handle still uses them.
RINGLOAD_C_EXPORT void ringload_checkpoint_release(ringload_checkpoint* checkpoint);

/// The description of a tensor in a checkpoint.
typedef struct ringload_tensor_info {
  size_t struct_bytes;
  /// The name of the tensor. May be "".
  const char* name;
  const uint64_t* shape;  // The sizes of the dimensions, outermost first.
  /// The number of dimensions. 0 means a scalar.
  size_t rank;
  uint64_t bytes;  // The size of the loaded tensor, which is dense, row-major and little-endian.
  /// The path of the file. In a callback that chooses tensors, the path is "".
  const char* file;
  const char* type;  // The logical type, such as "q4_k". "" means that `dtype` is the type.
  /// The type of the elements in the file.
  ringload_dtype dtype;
  uint32_t file_position;  // The position of the file: see ringload_checkpoint_file().
  uint64_t offset;         // The offset of the first stored byte in the file.
  uint64_t stored_bytes;  // The number of bytes that a load reads. Several tensors may share bytes.
  /// How the file encodes the tensor, such as "zstd" or "shuffle+big_endian". If "", the bytes in
  /// the file are the bytes of the tensor. `ringload/catalog.hpp` lists the possible words.
  const char* encoding;
  /// The digest of the stored bytes, such as "crc32c 9eba690a". "" means that the file has no
  /// digest of the tensor.
  const char* digest;
  const uint64_t* original_shape;  // The shape in elements of `type`.
  size_t original_rank;            // The number of dimensions of `original_shape`.
} ringload_tensor_info;

/// Returns the number of tensors. The tensors are sorted by file, and by offset in the file. The
/// position of a tensor is its index in this order.
RINGLOAD_C_EXPORT size_t ringload_checkpoint_size(const ringload_checkpoint* checkpoint);
/// Describes the tensor at a position. Returns RINGLOAD_END if the position is after the last
/// tensor.
RINGLOAD_C_EXPORT ringload_status ringload_checkpoint_tensor(const ringload_checkpoint* checkpoint,
                                                             size_t position,
                                                             ringload_tensor_info* into);
/// Writes the position of the tensor `name` to `position`. Returns RINGLOAD_NOT_FOUND if the
/// checkpoint does not have the tensor.
RINGLOAD_C_EXPORT ringload_status ringload_checkpoint_find(const ringload_checkpoint* checkpoint,
                                                           const char* name, size_t* position);
/// Returns the metadata entry at a position. Returns RINGLOAD_END if the position is after the last
/// entry. A value that is not a text is returned as JSON text. A key or a text can contain a 0
/// byte. Only ringload_checkpoint_attribute() returns the length of such a key or text.
RINGLOAD_C_EXPORT ringload_status ringload_checkpoint_metadata(
    const ringload_checkpoint* checkpoint, size_t position, const char** key, const char** value);

/// One attribute. The pointers are valid until the checkpoint is released.
typedef struct ringload_attribute {
  size_t struct_bytes;
  /// The name of the attribute.
  const char* key;
  const char* text;  // The value if the value is a text. Otherwise the value as JSON text.
  const void* cbor;  // The value as CBOR (RFC 8949).
  /// The number of bytes at `cbor`.
  size_t cbor_bytes;
  int is_text;  // If not 0, the value is a text.
  /// The number of bytes of `key`, without the 0 byte at its end. A key from a file can contain
  /// other 0 bytes. A writer refuses such a key. A program that changes `key` before it passes the
  /// attribute to a writer must also set `key_bytes` to 0 or to the length of the new key.
  size_t key_bytes;
  /// The number of bytes of `text`, without the 0 byte at its end. A text from a file can contain
  /// other 0 bytes.
  size_t text_bytes;
} ringload_attribute;

/// Returns one attribute of the files, with its type. The attributes of the files are the metadata
/// of the checkpoint. Returns RINGLOAD_END if the position is after the last attribute.
RINGLOAD_C_EXPORT ringload_status ringload_checkpoint_attribute(
    const ringload_checkpoint* checkpoint, size_t position, ringload_attribute* into);
/// Returns an attribute of the tensor at the position `tensor`. Returns RINGLOAD_END if a position
/// is after the last tensor or attribute. ringload_checkpoint_object_attribute() returns attributes
/// of sparse objects and of groups.
RINGLOAD_C_EXPORT ringload_status
ringload_checkpoint_tensor_attribute(const ringload_checkpoint* checkpoint, size_t tensor,
                                     size_t position, ringload_attribute* into);

// --- Selections of tensors and of their ranges. See `ringload/selection.hpp`.

/// Creates a selection of all tensors.
RINGLOAD_C_EXPORT ringload_status ringload_selection_create(ringload_selection** result);
/// Releases a selection. Loads that have begun with the selection are not affected.
RINGLOAD_C_EXPORT void ringload_selection_release(ringload_selection* selection);
/// Adds the tensor `name` to the selected tensors. The first call of this function, of
/// ringload_selection_matching() or of ringload_selection_where() replaces the selection of all
/// tensors.
RINGLOAD_C_EXPORT ringload_status ringload_selection_name(ringload_selection* selection,
                                                          const char* name);
/// Adds the tensors whose names match `glob`. In a glob, `*` matches any text, `?` matches one
/// byte, and `[a-c]` matches a byte of the set.
RINGLOAD_C_EXPORT ringload_status ringload_selection_matching(ringload_selection* selection,
                                                              const char* glob);
/// Adds the tensors for which `is_wanted` returns a number other than 0. `is_wanted` is called once
/// for each tensor of the checkpoint, before the first read of a load. `is_wanted` may also be
/// called for an object that cannot be loaded. In this case, only `name` and `file_position` are
/// set. Several threads may call `is_wanted` at the same time if several loads use the selection.
/// `tensor` is valid during the call only. `is_wanted` must not call the library. `context` must
/// stay valid until the selection is released and all its loads have ended.
RINGLOAD_C_EXPORT ringload_status ringload_selection_where(
    ringload_selection* selection,
    int (*is_wanted)(void* context, const ringload_tensor_info* tensor), void* context);
/// Removes the tensors that match `glob` from the selected tensors.
RINGLOAD_C_EXPORT ringload_status ringload_selection_except(ringload_selection* selection,
                                                            const char* glob);
/// Selects the tensor `name`, restricted to the indices [first, first + count) of the dimension
/// `dim`. The selection of other tensors does not change.
RINGLOAD_C_EXPORT ringload_status ringload_selection_slice(ringload_selection* selection,
                                                           const char* name, uint32_t dim,
                                                           uint64_t first, uint64_t count);
/// Restricts each selected tensor that matches `glob` to the range of `rank` along `dim`. A range
/// has ceil(size / ranks) indices, so the ranges of the last ranks may be shorter or empty.
RINGLOAD_C_EXPORT ringload_status ringload_selection_shard(ringload_selection* selection,
                                                           const char* glob, uint32_t dim,
                                                           uint64_t rank, uint64_t ranks);
/// Replaces the tensors `names` by one tensor `name`, which concatenates their selected ranges
/// along `dim`. `names` must not be empty. A tensor of `names` is still loaded separately if its
/// name, a glob, a callback or a slice selects the tensor.
RINGLOAD_C_EXPORT ringload_status ringload_selection_fused(ringload_selection* selection,
                                                           const char* name,
                                                           const char* const* names, size_t count,
                                                           uint32_t dim);
/// Keeps only the routed experts of the rank `rank`: see `selection::experts`. `experts` is the
/// number of experts. If `experts` is 0, the number is the largest index of an expert in the
/// checkpoint plus 1.
RINGLOAD_C_EXPORT ringload_status ringload_selection_experts(ringload_selection* selection,
                                                             uint64_t rank, uint64_t ranks,
                                                             uint64_t experts);
/// Ignores names and globs that match no tensor, and ringload_selection_experts() if the checkpoint
/// has no expert. Without this call, the load fails with RINGLOAD_NOT_FOUND, or with
/// RINGLOAD_INVALID_ARGUMENT if no expert exists.
RINGLOAD_C_EXPORT ringload_status ringload_selection_allow_missing(ringload_selection* selection);

// --- Loads

/// Whether reads use the page cache: `ringload::read_route` describes each value.
typedef enum ringload_route RINGLOAD_OF_INT {
  RINGLOAD_ROUTE_AUTOMATIC = 0,
  RINGLOAD_ROUTE_DIRECT = 1,
  RINGLOAD_ROUTE_BUFFERED = 2
} ringload_route;

/// The unit of allocation: tensors in the same unit share one allocation. An allocation is freed
/// when its last tensor is released.
typedef enum ringload_allocation RINGLOAD_OF_INT {
  RINGLOAD_PER_LOAD = 0,
  RINGLOAD_PER_FILE = 1,
  RINGLOAD_PER_TENSOR = 2
} ringload_allocation;

/// Whether tensors are compared with the digests that their files store. Only .zt files store
/// digests.
typedef enum ringload_embedded_digests RINGLOAD_OF_INT {
  RINGLOAD_DIGESTS_IGNORED = 0,
  RINGLOAD_DIGESTS_IF_PRESENT = 1,
  RINGLOAD_DIGESTS_REQUIRED = 2
} ringload_embedded_digests;

/// Options of a load. `ringload/options.hpp` describes each field.
typedef struct ringload_load_options {
  size_t struct_bytes;
  /// If the value is RINGLOAD_F32, RINGLOAD_F16 or RINGLOAD_BF16, floating-point tensors and most
  /// GGUF tensors with block types are converted to this type.
  ringload_dtype dtype;
  /// Whether reads use the page cache.
  ringload_route route;
  /// The unit of allocation.
  ringload_allocation allocation;
  /// If not 0, tensors are mapped from their files into host memory, read-only by default.
  int mapped;
  /// If not 0, a tensor that cannot be mapped is read into memory. If 0, the load fails. Requires
  /// `mapped`.
  int load_unmappable;
  /// Whether the load verifies digests that files store.
  ringload_embedded_digests embedded_digests;
  /// The digests that the tensors must have, or null. A wrong digest ends the load with
  /// RINGLOAD_INVALID_FILE. The caller may release the list after the call that begins the load.
  const ringload_checksum_list* checksums;
  /// The function that is called for each step of the load, or null: see `ringload/c_trace.h`.
  const ringload_trace* trace;
  /// If not 0, a program may write to mapped tensors. The first write to a page copies the page.
  /// Requires `mapped`.
  int copy_on_write;
  /// If not 0, a mapped tensor counts as loaded only when its pages are in memory. Requires
  /// `mapped`.
  int populate;
  /// Decides whether a tensor is converted to `dtype`: a number other than 0 means yes. If null,
  /// all convertible tensors are converted. Called for each convertible tensor before the tensor is
  /// read. The function may be called several times for one tensor, and must return the same value
  /// each time. `tensor` is valid during the call only. The function must not call the library.
  int (*converts)(void* context, const ringload_tensor_info* tensor);
  /// The first argument of `converts`. Must stay valid until the load has ended.
  void* converts_context;
  /// The functions for the SHA-256 digests that files store, or null. If null, a load that must
  /// verify a SHA-256 digest fails with RINGLOAD_UNSUPPORTED. The struct is copied. The functions
  /// and their context must stay valid until the load has ended.
  const ringload_sha256* sha256;
  /// The minimum alignment of the address of each tensor: a power of two up to 4,096, and up to 256
  /// for a GPU. 0 means 1.
  uint32_t tensor_alignment;
} ringload_load_options;

/// Loads the tensors that `selection` selects in the checkpoint `from`. If `selection` is null,
/// loads all tensors. `options` may be null. A load that fails returns no tensors.
RINGLOAD_C_EXPORT ringload_status ringload_load_begin(ringload_loader* loader,
                                                      const ringload_checkpoint* from,
                                                      const ringload_selection* selection,
                                                      const ringload_load_options* options,
                                                      ringload_operation** operation);
/// Loads as ringload_load_begin() does, and waits for the model.
RINGLOAD_C_EXPORT ringload_status ringload_load(ringload_loader* loader,
                                                const ringload_checkpoint* from,
                                                const ringload_selection* selection,
                                                const ringload_load_options* options,
                                                ringload_model** loaded);

/// Starts a load. The operation ends when the memory is allocated, before the tensors are loaded.
/// Afterwards, ringload_loading_tensor() and ringload_loading_next() return each tensor as soon as
/// the tensor is loaded.
RINGLOAD_C_EXPORT ringload_status ringload_start_begin(ringload_loader* loader,
                                                       const ringload_checkpoint* from,
                                                       const ringload_selection* selection,
                                                       const ringload_load_options* options,
                                                       ringload_operation** operation);
/// Starts a load as ringload_start_begin() does, and waits until the memory is allocated.
RINGLOAD_C_EXPORT ringload_status ringload_start(ringload_loader* loader,
                                                 const ringload_checkpoint* from,
                                                 const ringload_selection* selection,
                                                 const ringload_load_options* options,
                                                 ringload_loading** started);
/// Releases a load. If not all tensors are loaded, the load is cancelled.
RINGLOAD_C_EXPORT void ringload_loading_release(ringload_loading* loading);
/// Writes the present statistics of the load to `into`.
RINGLOAD_C_EXPORT ringload_status ringload_loading_progress(const ringload_loading* loading,
                                                            ringload_stats* into);

/// Returns the statistics of the file at a position. Returns RINGLOAD_END if the position is after
/// the last file.
RINGLOAD_C_EXPORT ringload_status ringload_loading_file_progress(const ringload_loading* loading,
                                                                 size_t position,
                                                                 ringload_file_stats* into);

/// Waits until the tensor `name` is loaded. The reads of this tensor get priority.
RINGLOAD_C_EXPORT ringload_status ringload_loading_tensor_begin(ringload_loading* loading,
                                                                const char* name,
                                                                ringload_operation** operation);
/// Waits for the tensor `name` as ringload_loading_tensor_begin() does.
RINGLOAD_C_EXPORT ringload_status ringload_loading_tensor(ringload_loading* loading,
                                                          const char* name,
                                                          ringload_tensor** loaded);
/// Returns the next tensor, in the order in which the tensors are loaded. Each tensor is returned
/// once. After the last tensor, returns RINGLOAD_END.
RINGLOAD_C_EXPORT ringload_status ringload_loading_next_begin(ringload_loading* loading,
                                                              ringload_operation** operation);
/// Waits for the next tensor as ringload_loading_next_begin() does.
RINGLOAD_C_EXPORT ringload_status ringload_loading_next(ringload_loading* loading,
                                                        ringload_tensor** loaded);
/// Waits until all tensors are loaded. The result is a model.
RINGLOAD_C_EXPORT ringload_status ringload_loading_finish_begin(ringload_loading* loading,
                                                                ringload_operation** operation);
/// Waits for the model as ringload_loading_finish_begin() does.
RINGLOAD_C_EXPORT ringload_status ringload_loading_finish(ringload_loading* loading,
                                                          ringload_model** loaded);

/// Starts a load that returns the tensors one after another, in the order of the checkpoint.
/// `window_bytes` limits the memory of the tensors that the caller and the stream hold at the same
/// time.
RINGLOAD_C_EXPORT ringload_status ringload_stream_begin(ringload_loader* loader,
                                                        const ringload_checkpoint* from,
                                                        uint64_t window_bytes,
                                                        const ringload_selection* selection,
                                                        const ringload_load_options* options,
                                                        ringload_operation** operation);
/// Starts a stream as ringload_stream_begin() does, and waits until its reads are planned.
RINGLOAD_C_EXPORT ringload_status ringload_stream(ringload_loader* loader,
                                                  const ringload_checkpoint* from,
                                                  uint64_t window_bytes,
                                                  const ringload_selection* selection,
                                                  const ringload_load_options* options,
                                                  ringload_tensor_stream** started);
/// Releases a stream. If not all tensors are loaded, the load is cancelled.
RINGLOAD_C_EXPORT void ringload_tensor_stream_release(ringload_tensor_stream* stream);
/// Writes the present statistics of the load to `into`.
RINGLOAD_C_EXPORT ringload_status
ringload_tensor_stream_progress(const ringload_tensor_stream* stream, ringload_stats* into);
/// Returns the statistics of the file at a position. Returns RINGLOAD_END if the position is after
/// the last file.
RINGLOAD_C_EXPORT ringload_status ringload_tensor_stream_file_progress(
    const ringload_tensor_stream* stream, size_t position, ringload_file_stats* into);
/// Returns the next tensor. Each tensor is returned once. After the last tensor, returns
/// RINGLOAD_END. If the tensors that the caller holds fill the window, the operation ends with
/// RINGLOAD_NO_MEMORY. After the caller has released tensors, the next call may succeed.
RINGLOAD_C_EXPORT ringload_status ringload_tensor_stream_next_begin(ringload_tensor_stream* stream,
                                                                    ringload_operation** operation);
/// Waits for the next tensor as ringload_tensor_stream_next_begin() does.
RINGLOAD_C_EXPORT ringload_status ringload_tensor_stream_next(ringload_tensor_stream* stream,
                                                              ringload_tensor** loaded);

// --- Models and tensors

/// Releases a model. Tensors that the caller still holds remain valid.
RINGLOAD_C_EXPORT void ringload_model_release(ringload_model* model);
/// Returns the number of tensors of a model.
RINGLOAD_C_EXPORT size_t ringload_model_size(const ringload_model* model);
/// Returns the tensor at a position. The handle keeps the allocation of the tensor alive. Returns
/// RINGLOAD_END if the position is after the last tensor.
RINGLOAD_C_EXPORT ringload_status ringload_model_tensor(const ringload_model* model,
                                                        size_t position, ringload_tensor** tensor);
/// Returns a handle to the tensor `name`. Returns RINGLOAD_NOT_FOUND if the model does not have the
/// tensor.
RINGLOAD_C_EXPORT ringload_status ringload_model_find(const ringload_model* model, const char* name,
                                                      ringload_tensor** tensor);
/// Writes the statistics of the completed load to `into`.
RINGLOAD_C_EXPORT ringload_status ringload_model_stats(const ringload_model* model,
                                                       ringload_stats* into);
/// Returns the statistics of the file at a position. Returns RINGLOAD_END if the position is after
/// the last file.
RINGLOAD_C_EXPORT ringload_status ringload_model_file_stats(const ringload_model* model,
                                                            size_t position,
                                                            ringload_file_stats* into);

/// The memory and the description of a loaded tensor. The memory is dense and row-major. The
/// pointers are valid until the tensor handle is released.
typedef struct ringload_tensor_view {
  size_t struct_bytes;
  /// The name of the tensor. May be "".
  const char* name;
  void* data;  // The address of the first byte. Never null.
  /// The number of bytes at `data`.
  uint64_t bytes;
  /// The sizes of the dimensions, outermost first.
  const uint64_t* shape;
  /// The number of dimensions. 0 means a scalar.
  size_t rank;
  /// The type of the elements in memory.
  ringload_dtype dtype;
  /// The kind of memory at `data`.
  ringload_device_kind device;
  /// The index among the devices of the same kind.
  int32_t device_index;
  uint32_t device_position;  // The position of the device in the loader's list of devices.
  int read_only;             // If not 0, a program must not write to the memory.
} ringload_tensor_view;

/// Releases a tensor. The memory is freed when all tensors of the same allocation are released.
RINGLOAD_C_EXPORT void ringload_tensor_release(ringload_tensor* tensor);
/// Describes a tensor and its memory.
RINGLOAD_C_EXPORT ringload_status ringload_tensor_look(const ringload_tensor* tensor,
                                                       ringload_tensor_view* into);

struct DLManagedTensorVersioned;
struct DLManagedTensor;
/// Exports a tensor without a copy, as DLPack. The consumer must call the deleter of `*exported`.
/// The memory stays valid until the deleter is called.
RINGLOAD_C_EXPORT ringload_status ringload_tensor_to_dlpack(
    const ringload_tensor* tensor, struct DLManagedTensorVersioned** exported);
/// Exports a tensor for consumers that support DLPack 0.x only.
RINGLOAD_C_EXPORT ringload_status
ringload_tensor_to_legacy_dlpack(const ringload_tensor* tensor, struct DLManagedTensor** exported);

// --- Fills: loads into caller memory

/// Memory of the caller for one tensor.
typedef struct ringload_destination {
  size_t struct_bytes;
  /// The name of the tensor that the memory receives.
  const char* name;
  void* data;  // The element whose index is 0 in every dimension.
  /// The sizes of the dimensions, outermost first.
  const uint64_t* shape;
  const int64_t* strides;  // The strides in elements. Null means dense and row-major.
  /// The number of dimensions.
  size_t rank;
  /// The size of the memory. If the tensor needs more bytes, the fill fails. 0 means no check.
  uint64_t bytes;
  /// A DLPack tensor that describes the memory, or null. If set, all other fields except `name` and
  /// `device` are ignored. The deleter is called when the DLPack tensor is no longer needed, even
  /// if the call fails.
  struct DLManagedTensorVersioned* from_dlpack;
  /// The type of the elements in memory.
  ringload_dtype dtype;
  int on_device;  // Not 0 means memory of the loader's first device. 0 means host memory.
  /// The device of the memory. If null, `on_device` chooses the memory.
  const ringload_device* device;
} ringload_destination;

/// Rules for tensors and destinations that do not match. `ringload/fill.hpp` describes each field.
typedef struct ringload_fill_options {
  size_t struct_bytes;
  /// If not 0, a destination without a tensor is unchanged, and RINGLOAD_FILL_MISSING lists its
  /// name.
  int allow_missing;
  /// If not 0, the fill fails with RINGLOAD_MISMATCH if a tensor has no destination.
  int refuse_unexpected;
  int convert;    // If not 0, a tensor of another dtype is converted.
  int broadcast;  // If not 0, a tensor of another shape is broadcast.
} ringload_fill_options;

/// Loads tensors into memory of the caller. All checks are complete before the first byte is
/// written. `rules`, `selection` and `options` may be null. Memory that is not described by DLPack
/// must stay valid until the operation has ended.
RINGLOAD_C_EXPORT ringload_status ringload_fill_begin(
    ringload_loader* loader, const ringload_checkpoint* from, const ringload_destination* into,
    size_t count, const ringload_fill_options* rules, const ringload_selection* selection,
    const ringload_load_options* options, ringload_operation** operation);
/// Fills memory as ringload_fill_begin() does, and waits until the memory is complete.
RINGLOAD_C_EXPORT ringload_status ringload_fill(ringload_loader* loader,
                                                const ringload_checkpoint* from,
                                                const ringload_destination* into, size_t count,
                                                const ringload_fill_options* rules,
                                                const ringload_selection* selection,
                                                const ringload_load_options* options);

/// The lists of names that a fill returns.
typedef enum ringload_fill_list RINGLOAD_OF_INT {
  RINGLOAD_FILL_MISSING = 0,     // Destinations without a tensor.
  RINGLOAD_FILL_UNEXPECTED = 1,  // Tensors without a destination.
  RINGLOAD_FILL_WHOLE = 2,       // After a failure: the destinations that are complete.
  /// After a failure: the destinations that may contain old bytes, new bytes, or both.
  RINGLOAD_FILL_TORN = 3
} ringload_fill_list;

/// Returns the name at the position `position` of the list `list` of a fill. Returns RINGLOAD_END
/// if the position is after the last name. If the fill failed before the first byte was written,
/// the lists WHOLE and TORN are empty.
RINGLOAD_C_EXPORT ringload_status ringload_operation_fill_name(const ringload_operation* operation,
                                                               ringload_fill_list list,
                                                               size_t position, const char** name);

#ifdef __cplusplus
}
#endif

#include <ringload/c_catalog.h>
#include <ringload/c_devices.h>
#include <ringload/c_keeper.h>
#include <ringload/c_ranks.h>
#include <ringload/c_save.h>
#include <ringload/c_store.h>
#include <ringload/c_trace.h>

#endif
