// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_H
#define RINGLOAD_C_H

// ringload for C, and for every language that can call C: the component `c`.
//
// This header is all of it: the others that it includes at its end are chapters of it. Further
// components add devices and formats, each by one function: `ringload/c_cuda.h`, `c_remote.h` and
// `c_hdf5.h`.
//
// Objects are opaque handles, each released by its own function, which takes null. Handles of
// models, tensors and checkpoints share what they stand for, and may outlive the loader.
//
// A function that can fail returns a ringload_status; ringload_last_error() then says why, in one
// line that names file, tensor and byte; handles that it would have given are set to null. No
// exception leaves a function, and none aborts.
//
// Whatever takes time is an operation: NAME_begin starts it, and its end can be waited for, polled
// by a file descriptor, or told to a callback. NAME alone begins it and waits. Releasing an
// operation that has not ended cancels it.
//
// Structs begin with `struct_bytes`, their size as the caller was compiled, so that fields can be
// added at their ends. A field of 0 is the default. Set the struct to 0 and `struct_bytes` to
// sizeof, or use RINGLOAD_STRUCT:
//
//     ringload_load_options how = RINGLOAD_STRUCT(ringload_load_options);
//
// Text is UTF-8 and ends with a 0 byte. A pointer that is given out is valid as long as the handle
// it came from.
//
// Functions may be called from any thread; a handle must not be used while it is released. After
// fork() a child may use no handle of its parent's.

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define RINGLOAD_C_EXPORT __attribute__((visibility("default")))
#else
#define RINGLOAD_C_EXPORT
#endif

#ifdef __cplusplus
#define RINGLOAD_STRUCT(type_name) (type_name{.struct_bytes = sizeof(type_name)})
#define RINGLOAD_OF_INT : int  // So that a value that is none of the list is not undefined.
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

/// How a call ended. The values are fixed for good; later versions may add some.
typedef enum ringload_status RINGLOAD_OF_INT {
  RINGLOAD_OK = 0,
  RINGLOAD_PENDING = 1,           // The operation has not ended yet.
  RINGLOAD_END = 2,               // There is nothing more: no next tensor, no such position.
  RINGLOAD_CANCELLED = 3,         // The operation was cancelled, or its loader is gone.
  RINGLOAD_INVALID_ARGUMENT = 4,  // Of this call: a null handle, an unknown value, a bad range.
  RINGLOAD_NOT_FOUND = 5,         // No such source, or no such tensor.
  RINGLOAD_INVALID_FILE = 6,      // A file breaks the rules of its format.
  RINGLOAD_UNSUPPORTED = 7,       // A valid file, or a wish, that this build cannot serve.
  RINGLOAD_NO_MEMORY = 8,         // None left, of the host or the device, or within the limits.
  RINGLOAD_CHANGED_FILE = 9,      // Truncated, written or replaced since it was opened.
  RINGLOAD_UNAVAILABLE = 10,      // The device, io_uring or direct reads, ordered and not there.
  RINGLOAD_MISMATCH = 11,         // A fill's tensors and destinations, or ranks, do not agree.
  RINGLOAD_SYSTEM_ERROR = 12,     // The system or a server refused something: a permission.
  RINGLOAD_INTERNAL_ERROR = 13    // Anything else, a fault of ringload's included.
} ringload_status;

/// Why the last call of this thread failed that did; "" if none has. Valid until the next call.
RINGLOAD_C_EXPORT const char* ringload_last_error(void);
/// "invalid_file", for logs; "unknown" for any other number.
RINGLOAD_C_EXPORT const char* ringload_status_name(ringload_status status);
/// The version of the library: "0.1.0".
RINGLOAD_C_EXPORT const char* ringload_version(void);

/// The element types. The values are fixed for good.
typedef enum ringload_dtype RINGLOAD_OF_INT {
  RINGLOAD_AS_STORED = 0,  // Of a load: as the file has it. No tensor is of this type.
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

/// "BF16", as safetensors names it; "" for what is no type.
RINGLOAD_C_EXPORT const char* ringload_dtype_name(ringload_dtype type);
/// The width of one element in bits; 0 for what is no type.
RINGLOAD_C_EXPORT uint32_t ringload_dtype_bits(ringload_dtype type);

// --- Loaders

typedef enum ringload_device_kind RINGLOAD_OF_INT {
  RINGLOAD_HOST = 0,
  RINGLOAD_CUDA = 1
} ringload_device_kind;

/// Those of `ringload/c_cuda.h` are released by this, too.
RINGLOAD_C_EXPORT void ringload_device_release(ringload_device* device);

typedef enum ringload_engine RINGLOAD_OF_INT {
  RINGLOAD_ENGINE_AUTOMATIC = 0,  // io_uring where it works, else threads.
  RINGLOAD_ENGINE_RING = 1,
  RINGLOAD_ENGINE_THREADS = 2
} ringload_engine;

typedef enum ringload_pages RINGLOAD_OF_INT {
  RINGLOAD_PAGES_TRANSPARENT = 0,
  RINGLOAD_PAGES_RESERVED = 1,
  RINGLOAD_PAGES_NONE = 2
} ringload_pages;

/// What a loader may use. `ringload/options.hpp` says more of each.
typedef struct ringload_loader_options {
  size_t struct_bytes;
  uint64_t slot_bytes;       // Of one pinned buffer: a power of two, 64 KiB to 64 MiB.
  uint64_t bytes_in_flight;  // 0: tuned while loading.
  uint64_t arena_bytes_max;  // Of the tensors of one load. 0: no bound.
  uint64_t cached_bytes;     // Of freed tensor memory that is kept for the next loads.
  uint32_t slots;
  uint32_t copy_threads;
  uint32_t reader_threads;
  ringload_engine engine;
  ringload_pages pages;
} ringload_loader_options;

/// `on` null: the host; else it is copied. `within` null: the defaults.
RINGLOAD_C_EXPORT ringload_status ringload_loader_create(const ringload_device* on,
                                                         const ringload_loader_options* within,
                                                         ringload_loader** made);
/// The same of one that reads what extensions add: those of `ringload/c_remote.h` and `c_hdf5.h`,
/// which are shared and may be released before.
RINGLOAD_C_EXPORT ringload_status ringload_loader_create_with(
    const ringload_device* on, const ringload_loader_options* within,
    const ringload_extension* const* extensions, size_t count, ringload_loader** made);
RINGLOAD_C_EXPORT void ringload_extension_release(ringload_extension* extension);
/// Cancels what is in flight and waits until neither the kernel nor the device writes to a buffer
/// or destination any more; pending operations end with RINGLOAD_CANCELLED. In a callback it does
/// not wait.
RINGLOAD_C_EXPORT void ringload_loader_release(ringload_loader* loader);

/// Figures of a load, or of a loader, whose fields about one load are 0. `ringload/stats.hpp`.
typedef struct ringload_stats {
  size_t struct_bytes;
  uint64_t bytes, bytes_total;  // Of tensors that are loaded, and of all.
  uint64_t tensors, tensors_total;
  uint64_t bytes_arrived;   // For a progress bar, out of bytes_total.
  uint64_t bytes_direct;    // Read past the page cache.
  uint64_t bytes_buffered;  // Read through it.
  uint64_t reads;
  uint64_t pinned_bytes_peak;  // Of the loader.
  double seconds, seconds_to_first_tensor, seconds_opening;
  ringload_engine engine;  // What reads: RING or THREADS.
} ringload_stats;

/// What has come of one file; what was read to know the catalog does not count.
typedef struct ringload_file_stats {
  size_t struct_bytes;
  const char* path;
  uint64_t bytes;       // Of the file.
  uint64_t bytes_read;  // With the padding of aligned reads.
  double seconds_to_first_read;
  double seconds_reading;  // From that start to the last bytes that have come.
} ringload_file_stats;

/// These fill in as many fields as `into->struct_bytes` says there are.
RINGLOAD_C_EXPORT ringload_status ringload_loader_stats(const ringload_loader* loader,
                                                        ringload_stats* into);

// --- Operations

/// Waits until it has ended, at most so many milliseconds; for as long as it takes if negative.
/// Returns RINGLOAD_PENDING, or how it ended. In a callback, which must not wait for what only ends
/// after it, RINGLOAD_INVALID_ARGUMENT if it has not ended.
RINGLOAD_C_EXPORT ringload_status ringload_operation_wait(ringload_operation* operation,
                                                          int64_t milliseconds);
/// RINGLOAD_PENDING, or how it ended.
RINGLOAD_C_EXPORT ringload_status ringload_operation_status(const ringload_operation* operation);
/// A descriptor that becomes readable when the operation ends and stays so: for poll, epoll, an
/// event loop. It is the operation's; do not read from it or close it.
RINGLOAD_C_EXPORT ringload_status ringload_operation_descriptor(ringload_operation* operation,
                                                                int* descriptor);
/// Calls `then` once, when the operation ends or soon if it has: in a thread of the loader's that
/// calls one after the other. At most one callback for an operation. `then` may release the
/// operation.
RINGLOAD_C_EXPORT ringload_status ringload_operation_on_end(ringload_operation* operation,
                                                            void (*then)(void* context,
                                                                         ringload_status status),
                                                            void* context);
/// Asks for its end, which comes as any other: as RINGLOAD_CANCELLED, or as success if that was
/// first. Cancelling an awaited tensor does not cancel its load.
RINGLOAD_C_EXPORT void ringload_operation_cancel(ringload_operation* operation);
RINGLOAD_C_EXPORT void ringload_operation_release(ringload_operation* operation);

// The result of one that ended with RINGLOAD_OK, as a handle of the caller's; else its status. A
// function for another kind of operation gives RINGLOAD_INVALID_ARGUMENT.
RINGLOAD_C_EXPORT ringload_status ringload_operation_checkpoint(ringload_operation* operation,
                                                                ringload_checkpoint** result);
RINGLOAD_C_EXPORT ringload_status ringload_operation_model(ringload_operation* operation,
                                                           ringload_model** result);
RINGLOAD_C_EXPORT ringload_status ringload_operation_tensor(ringload_operation* operation,
                                                            ringload_tensor** result);
/// Once for an operation.
RINGLOAD_C_EXPORT ringload_status ringload_operation_loading(ringload_operation* operation,
                                                             ringload_loading** result);

// --- Checkpoints

typedef struct ringload_open_options {
  size_t struct_bytes;
  int as_reference;       // Not 0: accept what the format's reference implementation accepts.
  int independent_files;  // Not 0: a folder's files are each taken for themselves.
} ringload_open_options;

/// Opens files and reads what they hold, for any number of loads. `sources`: one file, folder,
/// index or `owner/model[@revision]` in the local Hugging Face cache; or several files, which are
/// one checkpoint. `how` may be null.
RINGLOAD_C_EXPORT ringload_status ringload_open_begin(ringload_loader* loader,
                                                      const char* const* sources, size_t count,
                                                      const ringload_open_options* how,
                                                      ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_open(ringload_loader* loader, const char* source,
                                                const ringload_open_options* how,
                                                ringload_checkpoint** opened);
RINGLOAD_C_EXPORT void ringload_checkpoint_release(ringload_checkpoint* checkpoint);

/// A tensor as the file describes it.
typedef struct ringload_tensor_info {
  size_t struct_bytes;
  const char* name;
  const uint64_t* shape;  // Row-major, outermost first.
  size_t rank;
  uint64_t bytes;  // When loaded: dense, row-major, little-endian.
  const char* file;
  const char* type;  // Where dtype is not enough, such as "q4_k"; else "".
  ringload_dtype dtype;
} ringload_tensor_info;

/// Tensors by position: in the order of (file, offset).
RINGLOAD_C_EXPORT size_t ringload_checkpoint_size(const ringload_checkpoint* checkpoint);
/// RINGLOAD_END from the last position on.
RINGLOAD_C_EXPORT ringload_status ringload_checkpoint_tensor(const ringload_checkpoint* checkpoint,
                                                             size_t position,
                                                             ringload_tensor_info* into);
/// The position of a name, or RINGLOAD_NOT_FOUND.
RINGLOAD_C_EXPORT ringload_status ringload_checkpoint_find(const ringload_checkpoint* checkpoint,
                                                           const char* name, size_t* position);
/// Metadata of the files, by position; RINGLOAD_END after the last. A value that is no text is JSON
/// text.
RINGLOAD_C_EXPORT ringload_status ringload_checkpoint_metadata(
    const ringload_checkpoint* checkpoint, size_t position, const char** key, const char** value);

/// An attribute with its type. What it points to is valid as long as the checkpoint.
typedef struct ringload_attribute {
  size_t struct_bytes;
  const char* key;
  const char* text;  // If the value is no text: JSON text.
  const void* cbor;  // The value, as CBOR (RFC 8949) has it.
  size_t cbor_bytes;
  int is_text;  // Not 0: the value is a text.
} ringload_attribute;

/// Attributes of the files, which are their metadata, and of one tensor; RINGLOAD_END after the
/// last.
RINGLOAD_C_EXPORT ringload_status ringload_checkpoint_attribute(
    const ringload_checkpoint* checkpoint, size_t position, ringload_attribute* into);
RINGLOAD_C_EXPORT ringload_status
ringload_checkpoint_tensor_attribute(const ringload_checkpoint* checkpoint, size_t tensor,
                                     size_t position, ringload_attribute* into);

// --- Selections: which tensors, and which range of each. `ringload/selection.hpp` says more.

RINGLOAD_C_EXPORT ringload_status ringload_selection_create(ringload_selection** made);
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
                                                           const char* as, const char* const* names,
                                                           size_t count, uint32_t dim);
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

/// What tensors lie in together, and is given back together.
typedef enum ringload_allocation RINGLOAD_OF_INT {
  RINGLOAD_PER_LOAD = 0,
  RINGLOAD_PER_FILE = 1,
  RINGLOAD_PER_TENSOR = 2
} ringload_allocation;

/// Whether tensors are checked against digests that their files hold, as .zt files do.
typedef enum ringload_embedded_digests RINGLOAD_OF_INT {
  RINGLOAD_DIGESTS_IGNORED = 0,
  RINGLOAD_DIGESTS_IF_PRESENT = 1,
  RINGLOAD_DIGESTS_REQUIRED = 2
} ringload_embedded_digests;

/// `ringload/options.hpp` says more of each.
typedef struct ringload_load_options {
  size_t struct_bytes;
  uint64_t window_bytes;  // With ringload_start only.
  ringload_dtype dtype;   // Floating types become F32, F16 or BF16.
  ringload_route route;
  ringload_allocation allocation;
  int mapped;           // Not 0: tensors are read-only views of their files, on the host.
  int load_unmappable;  // Not 0: what cannot be a view is loaded, and not refused.
  ringload_embedded_digests embedded_digests;
  /// Null, or the digests that the tensors must have: RINGLOAD_INVALID_FILE if one has not. Only
  /// looked at by the call that begins the load.
  const ringload_manifest* manifest;
} ringload_load_options;

/// Loads what `wanted` chooses: null, everything. `how` may be null. All or nothing.
RINGLOAD_C_EXPORT ringload_status ringload_load_begin(ringload_loader* loader,
                                                      const ringload_checkpoint* from,
                                                      const ringload_selection* wanted,
                                                      const ringload_load_options* how,
                                                      ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_load(ringload_loader* loader,
                                                const ringload_checkpoint* from,
                                                const ringload_selection* wanted,
                                                const ringload_load_options* how,
                                                ringload_model** loaded);

/// Ends as soon as the memory is taken; the tensors are then given as they land.
RINGLOAD_C_EXPORT ringload_status ringload_start_begin(ringload_loader* loader,
                                                       const ringload_checkpoint* from,
                                                       const ringload_selection* wanted,
                                                       const ringload_load_options* how,
                                                       ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_start(ringload_loader* loader,
                                                 const ringload_checkpoint* from,
                                                 const ringload_selection* wanted,
                                                 const ringload_load_options* how,
                                                 ringload_loading** started);
/// Cancels the load, unless all is loaded.
RINGLOAD_C_EXPORT void ringload_loading_release(ringload_loading* loading);
RINGLOAD_C_EXPORT ringload_status ringload_loading_progress(const ringload_loading* loading,
                                                            ringload_stats* into);

/// The same of each file, by position; RINGLOAD_END after the last.
RINGLOAD_C_EXPORT ringload_status ringload_loading_file_progress(const ringload_loading* loading,
                                                                 size_t position,
                                                                 ringload_file_stats* into);

/// One tensor, whose reads then go first.
RINGLOAD_C_EXPORT ringload_status ringload_loading_tensor_begin(ringload_loading* loading,
                                                                const char* name,
                                                                ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_loading_tensor(ringload_loading* loading,
                                                          const char* name,
                                                          ringload_tensor** loaded);
/// Each tensor once, as it is loaded, then RINGLOAD_END.
RINGLOAD_C_EXPORT ringload_status ringload_loading_next_begin(ringload_loading* loading,
                                                              ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_loading_next(ringload_loading* loading,
                                                        ringload_tensor** loaded);
/// All of them, as a model.
RINGLOAD_C_EXPORT ringload_status ringload_loading_finish_begin(ringload_loading* loading,
                                                                ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_loading_finish(ringload_loading* loading,
                                                          ringload_model** loaded);

// --- Models and tensors

RINGLOAD_C_EXPORT void ringload_model_release(ringload_model* model);
RINGLOAD_C_EXPORT size_t ringload_model_size(const ringload_model* model);
/// A handle that keeps the memory of its load; RINGLOAD_END from the last position on.
RINGLOAD_C_EXPORT ringload_status ringload_model_tensor(const ringload_model* model,
                                                        size_t position, ringload_tensor** tensor);
/// By name, or RINGLOAD_NOT_FOUND.
RINGLOAD_C_EXPORT ringload_status ringload_model_find(const ringload_model* model, const char* name,
                                                      ringload_tensor** tensor);
RINGLOAD_C_EXPORT ringload_status ringload_model_stats(const ringload_model* model,
                                                       ringload_stats* into);
/// The same of each file, by position; RINGLOAD_END after the last.
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
/// Without a copy; whoever ends up with it calls its deleter, and until then the memory stays.
RINGLOAD_C_EXPORT ringload_status ringload_tensor_to_dlpack(
    const ringload_tensor* tensor, struct DLManagedTensorVersioned** exported);
/// For consumers that know DLPack 0.x only.
RINGLOAD_C_EXPORT ringload_status
ringload_tensor_to_legacy_dlpack(const ringload_tensor* tensor, struct DLManagedTensor** exported);

// --- Fills: into memory of the caller's

typedef struct ringload_destination {
  size_t struct_bytes;
  const char* name;
  void* data;  // Of the element at index 0 in every dimension.
  const uint64_t* shape;
  const int64_t* strides;  // In elements. Null: dense and row-major.
  size_t rank;
  uint64_t bytes;  // The size of the memory, to be checked. 0: unchecked.
  /// Null, or the memory is described by this tensor, and the fields above but `name` are ignored.
  /// Its deleter is called once it is no longer needed, also when the call fails.
  struct DLManagedTensorVersioned* from_dlpack;
  ringload_dtype dtype;
  int on_device;  // Not 0: in the memory of the loader's device. 0: of the host.
} ringload_destination;

typedef struct ringload_fill_options {
  size_t struct_bytes;
  int allow_missing;      // Not 0: destinations without a tensor are listed, and left as they are.
  int refuse_unexpected;  // Not 0: tensors without a destination are RINGLOAD_MISMATCH.
  int convert;            // Not 0: another dtype is converted.
  int broadcast;          // Not 0: another shape is broadcast.
} ringload_fill_options;

/// Everything is checked before the first byte is written. `how`, `wanted` and `options` may be
/// null; memory that is not described by DLPack must stay until the operation has ended.
RINGLOAD_C_EXPORT ringload_status ringload_fill_begin(
    ringload_loader* loader, const ringload_checkpoint* from, const ringload_destination* into,
    size_t count, const ringload_fill_options* how, const ringload_selection* wanted,
    const ringload_load_options* options, ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_fill(ringload_loader* loader,
                                                const ringload_checkpoint* from,
                                                const ringload_destination* into, size_t count,
                                                const ringload_fill_options* how,
                                                const ringload_selection* wanted,
                                                const ringload_load_options* options);

typedef enum ringload_fill_list RINGLOAD_OF_INT {
  RINGLOAD_FILL_MISSING = 0,     // Destinations without a tensor.
  RINGLOAD_FILL_UNEXPECTED = 1,  // Tensors without a destination.
  RINGLOAD_FILL_WHOLE = 2,       // After a failure: destinations that are complete,
  RINGLOAD_FILL_TORN = 3         // and those that may hold old bytes, new ones, or both.
} ringload_fill_list;

/// The names in one of a fill's lists, by position; RINGLOAD_END after the last. A fill that failed
/// before it wrote anything has neither whole nor torn ones.
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
