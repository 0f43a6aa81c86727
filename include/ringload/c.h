// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_H
#define RINGLOAD_C_H

// ringload for C, and for every language that can call C: the component `c`.
//
// This header includes the complete C interface: it includes its chapters at its end. Further
// components add devices and formats, each with one function: `ringload/c_cuda.h`, `c_remote.h` and
// `c_hdf5.h`.
//
// Objects are opaque handles. Each has its own release function, which accepts null. Handles of
// models, tensors and checkpoints share their object, and may outlive the loader.
//
// A function that can fail returns a ringload_status. After a failure, ringload_last_error()
// returns the cause in one line that names file, tensor and byte, and result handles are set to
// null. No function throws an exception or aborts.
//
// Functions that take time are operations: NAME_begin starts the operation. A program can wait for
// its end, poll a file descriptor, or set a callback. NAME without _begin starts the operation and
// waits. Releasing an operation that has not ended cancels it.
//
// Structs begin with `struct_bytes`, the size of the struct in the caller's version, so that later
// versions can append fields. A field of 0 is the default. Set the struct to 0 and `struct_bytes`
// to sizeof, or use RINGLOAD_STRUCT:
//
//     ringload_load_options options = RINGLOAD_STRUCT(ringload_load_options);
//
// Text is UTF-8 and ends with a 0 byte. A returned pointer is valid as long as the handle that
// returned it.
//
// Functions may be called from any thread. A handle must not be used while it is released. After
// fork() a child must not use handles of its parent.

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define RINGLOAD_C_EXPORT __attribute__((visibility("default")))
#else
#define RINGLOAD_C_EXPORT
#endif

#ifdef __cplusplus
#define RINGLOAD_STRUCT(type_name) (type_name{.struct_bytes = sizeof(type_name)})
#define RINGLOAD_OF_INT : int  // Unlisted values are not undefined behaviour.
extern "C" {
#else
#define RINGLOAD_STRUCT(type_name) ((type_name){.struct_bytes = sizeof(type_name)})
#define RINGLOAD_OF_INT
#endif

typedef struct ringload_device ringload_device;
typedef struct ringload_extension ringload_extension;
typedef struct ringload_loader ringload_loader;
typedef struct ringload_checkpoint ringload_checkpoint;
typedef struct ringload_selection ringload_selection;
typedef struct ringload_manifest ringload_manifest;
typedef struct ringload_operation ringload_operation;
typedef struct ringload_loading ringload_loading;
typedef struct ringload_model ringload_model;
typedef struct ringload_tensor ringload_tensor;

/// The result of a call. The values never change; later versions may add values.
typedef enum ringload_status RINGLOAD_OF_INT {
  RINGLOAD_OK = 0,
  RINGLOAD_PENDING = 1,           // The operation has not ended yet.
  RINGLOAD_END = 2,               // There is no next tensor, or no such position.
  RINGLOAD_CANCELLED = 3,         // The operation was cancelled, or its loader was released.
  RINGLOAD_INVALID_ARGUMENT = 4,  // A null handle, an unknown value, or an invalid range.
  RINGLOAD_NOT_FOUND = 5,         // The source or the tensor does not exist.
  RINGLOAD_INVALID_FILE = 6,      // A file violates its format.
  RINGLOAD_UNSUPPORTED = 7,       // A valid file or request that this build does not support.
  RINGLOAD_NO_MEMORY = 8,     // No memory is left on the host or the device, or within the limits.
  RINGLOAD_CHANGED_FILE = 9,  // The file was truncated, written or replaced since it was opened.
  RINGLOAD_UNAVAILABLE = 10,  // The requested device, io_uring or direct reads are not available.
  RINGLOAD_MISMATCH = 11,     // Tensors and destinations of a fill, or ranks, do not agree.
  /// The system or a server refused a request, such as for lack of permission.
  RINGLOAD_SYSTEM_ERROR = 12,
  RINGLOAD_INTERNAL_ERROR = 13  // Any other failure, including errors in ringload.
} ringload_status;

/// Returns the cause of the last failed call of this thread; "" if no call has failed. Valid until
/// the next call.
RINGLOAD_C_EXPORT const char* ringload_last_error(void);
/// Returns the name of a status, such as "invalid_file", for logs; "unknown" for any other number.
RINGLOAD_C_EXPORT const char* ringload_status_name(ringload_status status);
/// Returns the version of the library: "0.1.0".
RINGLOAD_C_EXPORT const char* ringload_version(void);

/// The element types. The values never change.
typedef enum ringload_dtype RINGLOAD_OF_INT {
  RINGLOAD_AS_STORED = 0,  // For loads: the type in the file. No tensor has this type.
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

/// Returns the name in safetensors, such as "BF16"; "" for an invalid type.
RINGLOAD_C_EXPORT const char* ringload_dtype_name(ringload_dtype type);
/// Returns the width of one element in bits; 0 for an invalid type.
RINGLOAD_C_EXPORT uint32_t ringload_dtype_bits(ringload_dtype type);

// --- Loaders

typedef enum ringload_device_kind RINGLOAD_OF_INT {
  RINGLOAD_HOST = 0,
  RINGLOAD_CUDA = 1
} ringload_device_kind;

/// Releases a device, including devices of `ringload/c_cuda.h`.
RINGLOAD_C_EXPORT void ringload_device_release(ringload_device* device);

typedef enum ringload_engine RINGLOAD_OF_INT {
  RINGLOAD_ENGINE_AUTOMATIC = 0,  // io_uring if it works, else threads.
  RINGLOAD_ENGINE_RING = 1,
  RINGLOAD_ENGINE_THREADS = 2
} ringload_engine;

typedef enum ringload_pages RINGLOAD_OF_INT {
  RINGLOAD_PAGES_TRANSPARENT = 0,
  RINGLOAD_PAGES_RESERVED = 1,
  RINGLOAD_PAGES_NONE = 2
} ringload_pages;

/// The limits of a loader. `ringload/options.hpp` describes each field.
typedef struct ringload_loader_options {
  size_t struct_bytes;
  uint64_t slot_bytes;       // Size of one pinned buffer: a power of two, 64 KiB to 64 MiB.
  uint64_t bytes_in_flight;  // 0: tuned while loading.
  uint64_t arena_bytes_max;  // Limit for the tensors of one load. 0: no limit.
  uint64_t cached_bytes;     // Freed tensor memory that is kept for the next loads.
  uint32_t slots;
  uint32_t copy_threads;
  uint32_t reader_threads;
  ringload_engine engine;
  ringload_pages pages;
} ringload_loader_options;

/// Creates a loader. `device` null: the host; otherwise the device is copied. `limits` null: the
/// defaults.
RINGLOAD_C_EXPORT ringload_status ringload_loader_create(const ringload_device* device,
                                                         const ringload_loader_options* limits,
                                                         ringload_loader** result);
/// Creates a loader with extensions, those of `ringload/c_remote.h` and `c_hdf5.h`. The loader
/// shares the extensions, so they may be released before the loader.
RINGLOAD_C_EXPORT ringload_status ringload_loader_create_with(
    const ringload_device* device, const ringload_loader_options* limits,
    const ringload_extension* const* extensions, size_t count, ringload_loader** result);
RINGLOAD_C_EXPORT void ringload_extension_release(ringload_extension* extension);
/// Cancels the operations in flight and waits until neither the kernel nor the device writes to a
/// buffer or destination. Pending operations end with RINGLOAD_CANCELLED. In a callback the
/// function does not wait.
RINGLOAD_C_EXPORT void ringload_loader_release(ringload_loader* loader);

/// Statistics of a load or of a loader. For a loader, the fields of a single load are 0. See
/// `ringload/stats.hpp`.
typedef struct ringload_stats {
  size_t struct_bytes;
  uint64_t bytes, bytes_total;  // Bytes of loaded tensors, and of all tensors.
  uint64_t tensors, tensors_total;
  uint64_t bytes_arrived;   // For a progress bar out of bytes_total.
  uint64_t bytes_direct;    // Bytes read past the page cache.
  uint64_t bytes_buffered;  // Bytes read through the page cache.
  uint64_t reads;
  uint64_t pinned_bytes_peak;  // Peak of the loader.
  double seconds, seconds_to_first_tensor, seconds_opening;
  ringload_engine engine;  // The engine in use: RING or THREADS.
} ringload_stats;

/// Statistics of one file. Reads of the catalog do not count.
typedef struct ringload_file_stats {
  size_t struct_bytes;
  const char* path;
  uint64_t bytes;       // Size of the file.
  uint64_t bytes_read;  // Includes the padding of aligned reads.
  double seconds_to_first_read;
  double seconds_reading;  // From the start of the first read to the latest completed read.
} ringload_file_stats;

/// Fills in the statistics, as many fields as `into->struct_bytes` includes.
RINGLOAD_C_EXPORT ringload_status ringload_loader_stats(const ringload_loader* loader,
                                                        ringload_stats* into);

// --- Operations

/// Waits until the operation has ended, at most for this number of milliseconds; without limit if
/// negative. Returns RINGLOAD_PENDING or the final status. A callback must not wait: there the
/// function returns RINGLOAD_INVALID_ARGUMENT if the operation has not ended.
RINGLOAD_C_EXPORT ringload_status ringload_operation_wait(ringload_operation* operation,
                                                          int64_t milliseconds);
/// Returns RINGLOAD_PENDING or the final status.
RINGLOAD_C_EXPORT ringload_status ringload_operation_status(const ringload_operation* operation);
/// Returns a descriptor that becomes readable when the operation ends and stays readable, for poll,
/// epoll or an event loop. The descriptor belongs to the operation: do not read from it and do not
/// close it.
RINGLOAD_C_EXPORT ringload_status ringload_operation_descriptor(ringload_operation* operation,
                                                                int* descriptor);
/// Calls `then` once, when the operation ends, or soon if it has ended already. The callback runs
/// in a thread of the loader, one callback at a time. Each operation may have at most one callback.
/// `then` may release the operation.
RINGLOAD_C_EXPORT ringload_status ringload_operation_on_end(ringload_operation* operation,
                                                            void (*then)(void* context,
                                                                         ringload_status status),
                                                            void* context);
/// Requests cancellation. The operation then ends with RINGLOAD_CANCELLED, or with success if it
/// was complete already. Cancelling an awaited tensor does not cancel its load.
RINGLOAD_C_EXPORT void ringload_operation_cancel(ringload_operation* operation);
RINGLOAD_C_EXPORT void ringload_operation_release(ringload_operation* operation);

// These functions return the result of an operation that ended with RINGLOAD_OK, as a handle that
// the caller must release. Otherwise they return the operation's status. For another kind of
// operation they return RINGLOAD_INVALID_ARGUMENT.
RINGLOAD_C_EXPORT ringload_status ringload_operation_checkpoint(ringload_operation* operation,
                                                                ringload_checkpoint** result);
RINGLOAD_C_EXPORT ringload_status ringload_operation_model(ringload_operation* operation,
                                                           ringload_model** result);
RINGLOAD_C_EXPORT ringload_status ringload_operation_tensor(ringload_operation* operation,
                                                            ringload_tensor** result);
/// May be called once for each operation.
RINGLOAD_C_EXPORT ringload_status ringload_operation_loading(ringload_operation* operation,
                                                             ringload_loading** result);

// --- Checkpoints

typedef struct ringload_open_options {
  size_t struct_bytes;
  int as_reference;       // Not 0: accepts what the format's reference implementation accepts.
  int independent_files;  // Not 0: each file of a folder is an independent checkpoint.
} ringload_open_options;

/// Opens files and reads their catalog, for any number of loads. `sources` is one file, folder,
/// index or `owner/model[@revision]` in the local Hugging Face cache; or several files, which form
/// one checkpoint. `options` may be null.
RINGLOAD_C_EXPORT ringload_status ringload_open_begin(ringload_loader* loader,
                                                      const char* const* sources, size_t count,
                                                      const ringload_open_options* options,
                                                      ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_open(ringload_loader* loader, const char* source,
                                                const ringload_open_options* options,
                                                ringload_checkpoint** opened);
RINGLOAD_C_EXPORT void ringload_checkpoint_release(ringload_checkpoint* checkpoint);

/// A tensor of the catalog.
typedef struct ringload_tensor_info {
  size_t struct_bytes;
  const char* name;
  const uint64_t* shape;  // Row-major, outermost first.
  size_t rank;
  uint64_t bytes;  // Size after loading: dense, row-major, little-endian.
  const char* file;
  const char* type;  // The type if dtype is not sufficient, such as "q4_k"; else "".
  ringload_dtype dtype;
} ringload_tensor_info;

/// Returns the number of tensors. Positions are in the order of (file, offset).
RINGLOAD_C_EXPORT size_t ringload_checkpoint_size(const ringload_checkpoint* checkpoint);
/// Describes the tensor at a position; RINGLOAD_END after the last position.
RINGLOAD_C_EXPORT ringload_status ringload_checkpoint_tensor(const ringload_checkpoint* checkpoint,
                                                             size_t position,
                                                             ringload_tensor_info* into);
/// Returns the position of a name, or RINGLOAD_NOT_FOUND.
RINGLOAD_C_EXPORT ringload_status ringload_checkpoint_find(const ringload_checkpoint* checkpoint,
                                                           const char* name, size_t* position);
/// Returns metadata of the files, by position; RINGLOAD_END after the last entry. A value that is
/// not a text is converted to JSON text.
RINGLOAD_C_EXPORT ringload_status ringload_checkpoint_metadata(
    const ringload_checkpoint* checkpoint, size_t position, const char** key, const char** value);

/// An attribute with its type. Its pointers are valid as long as the checkpoint.
typedef struct ringload_attribute {
  size_t struct_bytes;
  const char* key;
  const char* text;  // The text, or JSON text if the value is not a text.
  const void* cbor;  // The value as CBOR (RFC 8949).
  size_t cbor_bytes;
  int is_text;  // Not 0: the value is a text.
} ringload_attribute;

/// Return attributes of the files, which are their metadata, and attributes of one tensor;
/// RINGLOAD_END after the last attribute.
RINGLOAD_C_EXPORT ringload_status ringload_checkpoint_attribute(
    const ringload_checkpoint* checkpoint, size_t position, ringload_attribute* into);
RINGLOAD_C_EXPORT ringload_status
ringload_checkpoint_tensor_attribute(const ringload_checkpoint* checkpoint, size_t tensor,
                                     size_t position, ringload_attribute* into);

// --- Selections: which tensors, and which range of each. See `ringload/selection.hpp`.

RINGLOAD_C_EXPORT ringload_status ringload_selection_create(ringload_selection** result);
RINGLOAD_C_EXPORT void ringload_selection_release(ringload_selection* selection);
RINGLOAD_C_EXPORT ringload_status ringload_selection_name(ringload_selection* selection,
                                                          const char* name);
RINGLOAD_C_EXPORT ringload_status ringload_selection_matching(ringload_selection* selection,
                                                              const char* glob);
RINGLOAD_C_EXPORT ringload_status ringload_selection_except(ringload_selection* selection,
                                                            const char* glob);
RINGLOAD_C_EXPORT ringload_status ringload_selection_slice(ringload_selection* selection,
                                                           const char* name, uint32_t dim,
                                                           uint64_t first, uint64_t count);
RINGLOAD_C_EXPORT ringload_status ringload_selection_shard(ringload_selection* selection,
                                                           const char* glob, uint32_t dim,
                                                           uint64_t rank, uint64_t ranks);
RINGLOAD_C_EXPORT ringload_status ringload_selection_fused(ringload_selection* selection,
                                                           const char* name,
                                                           const char* const* names, size_t count,
                                                           uint32_t dim);
/// `experts` 0: one more than the largest number in the checkpoint.
RINGLOAD_C_EXPORT ringload_status ringload_selection_experts(ringload_selection* selection,
                                                             uint64_t rank, uint64_t ranks,
                                                             uint64_t experts);
RINGLOAD_C_EXPORT ringload_status ringload_selection_allow_missing(ringload_selection* selection);

// --- Loads

typedef enum ringload_route RINGLOAD_OF_INT {
  RINGLOAD_ROUTE_AUTOMATIC = 0,
  RINGLOAD_ROUTE_DIRECT = 1,
  RINGLOAD_ROUTE_BUFFERED = 2
} ringload_route;

/// Which tensors share an allocation, which is freed as a whole.
typedef enum ringload_allocation RINGLOAD_OF_INT {
  RINGLOAD_PER_LOAD = 0,
  RINGLOAD_PER_FILE = 1,
  RINGLOAD_PER_TENSOR = 2
} ringload_allocation;

/// Whether tensors are checked against digests in their files, which .zt files have.
typedef enum ringload_embedded_digests RINGLOAD_OF_INT {
  RINGLOAD_DIGESTS_IGNORED = 0,
  RINGLOAD_DIGESTS_IF_PRESENT = 1,
  RINGLOAD_DIGESTS_REQUIRED = 2
} ringload_embedded_digests;

/// The options of a load. `ringload/options.hpp` describes each field.
typedef struct ringload_load_options {
  size_t struct_bytes;
  uint64_t window_bytes;  // Requires ringload_start.
  ringload_dtype dtype;   // Floating types are converted to F32, F16 or BF16.
  ringload_route route;
  ringload_allocation allocation;
  int mapped;           // Not 0: tensors are mapped from their files, read-only, on the host.
  int load_unmappable;  // Not 0: tensors that cannot be mapped are loaded. 0: they are refused.
  ringload_embedded_digests embedded_digests;
  /// The digests that the tensors must have, or null. A wrong digest is RINGLOAD_INVALID_FILE. Only
  /// the call that begins the load reads this pointer.
  const ringload_manifest* manifest;
} ringload_load_options;

/// Loads the tensors that `wanted` selects; null: all tensors. `options` may be null. A failed load
/// returns no tensors.
RINGLOAD_C_EXPORT ringload_status ringload_load_begin(ringload_loader* loader,
                                                      const ringload_checkpoint* from,
                                                      const ringload_selection* wanted,
                                                      const ringload_load_options* options,
                                                      ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_load(ringload_loader* loader,
                                                const ringload_checkpoint* from,
                                                const ringload_selection* wanted,
                                                const ringload_load_options* options,
                                                ringload_model** loaded);

/// Ends as soon as the memory is allocated. The load then returns tensors as they are loaded.
RINGLOAD_C_EXPORT ringload_status ringload_start_begin(ringload_loader* loader,
                                                       const ringload_checkpoint* from,
                                                       const ringload_selection* wanted,
                                                       const ringload_load_options* options,
                                                       ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_start(ringload_loader* loader,
                                                 const ringload_checkpoint* from,
                                                 const ringload_selection* wanted,
                                                 const ringload_load_options* options,
                                                 ringload_loading** started);
/// Releases the load, and cancels it unless all tensors are loaded.
RINGLOAD_C_EXPORT void ringload_loading_release(ringload_loading* loading);
RINGLOAD_C_EXPORT ringload_status ringload_loading_progress(const ringload_loading* loading,
                                                            ringload_stats* into);

/// Returns the statistics of each file, by position; RINGLOAD_END after the last file.
RINGLOAD_C_EXPORT ringload_status ringload_loading_file_progress(const ringload_loading* loading,
                                                                 size_t position,
                                                                 ringload_file_stats* into);

/// Waits for one tensor, and prioritizes its reads.
RINGLOAD_C_EXPORT ringload_status ringload_loading_tensor_begin(ringload_loading* loading,
                                                                const char* name,
                                                                ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_loading_tensor(ringload_loading* loading,
                                                          const char* name,
                                                          ringload_tensor** loaded);
/// Returns each tensor once, in the order of loading, then RINGLOAD_END.
RINGLOAD_C_EXPORT ringload_status ringload_loading_next_begin(ringload_loading* loading,
                                                              ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_loading_next(ringload_loading* loading,
                                                        ringload_tensor** loaded);
/// Waits for all tensors. The result is a model.
RINGLOAD_C_EXPORT ringload_status ringload_loading_finish_begin(ringload_loading* loading,
                                                                ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_loading_finish(ringload_loading* loading,
                                                          ringload_model** loaded);

// --- Models and tensors

RINGLOAD_C_EXPORT void ringload_model_release(ringload_model* model);
RINGLOAD_C_EXPORT size_t ringload_model_size(const ringload_model* model);
/// Returns a tensor handle, which keeps the memory of its load; RINGLOAD_END after the last
/// position.
RINGLOAD_C_EXPORT ringload_status ringload_model_tensor(const ringload_model* model,
                                                        size_t position, ringload_tensor** tensor);
/// Returns the tensor of this name, or RINGLOAD_NOT_FOUND.
RINGLOAD_C_EXPORT ringload_status ringload_model_find(const ringload_model* model, const char* name,
                                                      ringload_tensor** tensor);
RINGLOAD_C_EXPORT ringload_status ringload_model_stats(const ringload_model* model,
                                                       ringload_stats* into);
/// Returns the statistics of each file, by position; RINGLOAD_END after the last file.
RINGLOAD_C_EXPORT ringload_status ringload_model_file_stats(const ringload_model* model,
                                                            size_t position,
                                                            ringload_file_stats* into);

/// A loaded tensor: dense and row-major. Its pointers are valid as long as its handle.
typedef struct ringload_tensor_view {
  size_t struct_bytes;
  const char* name;
  void* data;  // Never null.
  uint64_t bytes;
  const uint64_t* shape;
  size_t rank;
  ringload_dtype dtype;
  ringload_device_kind device;
  int32_t device_index;
} ringload_tensor_view;

RINGLOAD_C_EXPORT void ringload_tensor_release(ringload_tensor* tensor);
RINGLOAD_C_EXPORT ringload_status ringload_tensor_look(const ringload_tensor* tensor,
                                                       ringload_tensor_view* into);

struct DLManagedTensorVersioned;
struct DLManagedTensor;
/// Exports a tensor without a copy. The consumer must call its deleter. Until then the memory stays
/// valid.
RINGLOAD_C_EXPORT ringload_status ringload_tensor_to_dlpack(
    const ringload_tensor* tensor, struct DLManagedTensorVersioned** exported);
/// Exports a tensor for consumers that only support DLPack 0.x.
RINGLOAD_C_EXPORT ringload_status
ringload_tensor_to_legacy_dlpack(const ringload_tensor* tensor, struct DLManagedTensor** exported);

// --- Fills: loads into caller memory

typedef struct ringload_destination {
  size_t struct_bytes;
  const char* name;
  void* data;  // The element at index 0 in every dimension.
  const uint64_t* shape;
  const int64_t* strides;  // In elements. Null: dense and row-major.
  size_t rank;
  uint64_t bytes;  // The size of the memory for a check. 0: unchecked.
  /// A tensor that describes the memory, or null. If set, the fields above except `name` are
  /// ignored. The deleter is called when the tensor is no longer needed, also if the call fails.
  struct DLManagedTensorVersioned* from_dlpack;
  ringload_dtype dtype;
  int on_device;  // Not 0: memory of the loader's device. 0: host memory.
} ringload_destination;

typedef struct ringload_fill_options {
  size_t struct_bytes;
  int allow_missing;      // Not 0: destinations without a tensor are listed and left unchanged.
  int refuse_unexpected;  // Not 0: tensors without a destination are RINGLOAD_MISMATCH.
  int convert;            // Not 0: other dtypes are converted.
  int broadcast;          // Not 0: other shapes are broadcast.
} ringload_fill_options;

/// Fills caller memory. All checks precede the first write. `rules`, `wanted` and `options` may be
/// null. Memory that is not described by DLPack must stay valid until the operation has ended.
RINGLOAD_C_EXPORT ringload_status ringload_fill_begin(
    ringload_loader* loader, const ringload_checkpoint* from, const ringload_destination* into,
    size_t count, const ringload_fill_options* rules, const ringload_selection* wanted,
    const ringload_load_options* options, ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_fill(ringload_loader* loader,
                                                const ringload_checkpoint* from,
                                                const ringload_destination* into, size_t count,
                                                const ringload_fill_options* rules,
                                                const ringload_selection* wanted,
                                                const ringload_load_options* options);

typedef enum ringload_fill_list RINGLOAD_OF_INT {
  RINGLOAD_FILL_MISSING = 0,     // Destinations without a tensor.
  RINGLOAD_FILL_UNEXPECTED = 1,  // Tensors without a destination.
  RINGLOAD_FILL_WHOLE = 2,       // After a failure: complete destinations.
  /// After a failure: destinations that may contain old bytes, new bytes, or both.
  RINGLOAD_FILL_TORN = 3
} ringload_fill_list;

/// Returns the names in one of the lists of a fill, by position; RINGLOAD_END after the last name.
/// If a fill fails before the first write, the lists of whole and torn destinations are empty.
RINGLOAD_C_EXPORT ringload_status ringload_operation_fill_name(const ringload_operation* operation,
                                                               ringload_fill_list list,
                                                               size_t position, const char** name);

#ifdef __cplusplus
}
#endif

#include <ringload/c_keeper.h>
#include <ringload/c_ranks.h>
#include <ringload/c_save.h>

#endif
