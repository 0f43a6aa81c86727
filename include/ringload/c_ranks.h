// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_RANKS_H
#define RINGLOAD_C_RANKS_H

// Several ranks (processes or threads of one group) load one checkpoint together, with the C
// interface of ringload/c.h. Each rank reads a part of the bytes. Then the ranks exchange the bytes
// that they need, unless RINGLOAD_READING_OWN is chosen. See `ringload/group_load.hpp`.
//
// All ranks must make the same calls in the same order. A rank must also make a call whose result
// is empty on this rank. If a call differs between ranks, the call fails with RINGLOAD_MISMATCH on
// all ranks. If the arguments are the same on all ranks but invalid, the call fails with the same
// error on all ranks. After these two kinds of failure, the group can still be used.
//
// A rank whose load options are invalid gets the error of its options instead of RINGLOAD_MISMATCH,
// for example RINGLOAD_INVALID_ARGUMENT. This rank first waits for the same call of the other
// ranks, up to the time limit of the group.
//
// Any other failure of one rank ends the group, even if all ranks fail with the same error. An
// example is a source that cannot be opened. The cancellation or the release of a call before its
// end also ends the group. After the group has ended, calls of the other ranks fail with
// RINGLOAD_SYSTEM_ERROR. The error text contains the reason.

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A group, as seen by one rank. Only one load at a time may use the group.
typedef struct ringload_group ringload_group;
/// A load by a group, as seen by one rank. The load and its calls keep the loader alive.
typedef struct ringload_group_loading ringload_group_loading;

/// Creates a group of `ranks` threads of this process. `ranks` is 1 to 127. `result` must point to
/// an array of `ranks` elements. The function writes one handle for each rank to this array. If the
/// function fails, all elements are null.
///
/// `milliseconds` is the time limit of the group. 0 means 5 minutes. A later call of the group
/// fails if another rank does not answer within this time. If another rank fails or ends, the call
/// fails earlier.
RINGLOAD_C_EXPORT ringload_status ringload_thread_groups(uint32_t ranks, uint32_t milliseconds,
                                                         ringload_group** result);
/// Creates a group of processes that meet at `address`. If `address` is a path, the ranks are
/// processes of the same user on this machine. Rank 0 creates a Unix socket at the path, and
/// removes the socket when all ranks are connected. The path must not exist before.
///
/// If `address` is `tcp://host:port` or `tcp://host:port/token`, the ranks are processes on one or
/// several machines. Rank 0 listens at the host and port, and refuses ranks with another token. The
/// connections are neither encrypted nor authenticated, so the network must be trusted.
/// `ringload/group.hpp` describes the details.
///
/// Waits until all ranks are connected. Returns RINGLOAD_SYSTEM_ERROR if a rank does not connect
/// within `milliseconds`, which is also the time limit of the group: see ringload_thread_groups().
RINGLOAD_C_EXPORT ringload_status ringload_join_group(const char* address, uint32_t rank,
                                                      uint32_t ranks, uint32_t milliseconds,
                                                      ringload_group** joined);
/// Releases the group. The rank leaves the group when all loads of this rank are released too.
RINGLOAD_C_EXPORT void ringload_group_release(ringload_group* group);
/// Returns the index of this rank. Returns 0 for a null handle.
RINGLOAD_C_EXPORT uint32_t ringload_group_rank(const ringload_group* group);
/// Returns the number of ranks.
RINGLOAD_C_EXPORT uint32_t ringload_group_size(const ringload_group* group);

/// How the ranks of a group divide the reads of a checkpoint.
typedef enum ringload_group_reading RINGLOAD_OF_INT {
  /// When the load starts, each rank reads an equal part of the checkpoint.
  RINGLOAD_READING_DIVIDED = 0,
  /// Each rank reads the bytes of a tensor when the rank requests the tensor. The ranks exchange no
  /// bytes.
  RINGLOAD_READING_OWN = 1
} ringload_group_reading;

/// Starts a load by all ranks of the group. The operation ends when all ranks have read their
/// parts. With RINGLOAD_READING_OWN, the operation ends when all ranks have opened the source. The
/// device of `loader` must be the device of the group: the GPU of a group of ringload_nccl_group(),
/// and the host for any other group. With RINGLOAD_READING_OWN, any device can be used. `source` is
/// a file, a folder, an index or `owner/model`. The source must have the same tensors on all ranks.
/// `options` may be null.
RINGLOAD_C_EXPORT ringload_status ringload_group_load_begin(ringload_loader* loader,
                                                            ringload_group* group,
                                                            const char* source,
                                                            ringload_group_reading reading,
                                                            const ringload_load_options* options,
                                                            ringload_operation** operation);
/// Starts a load as ringload_group_load_begin() does, and waits for its end.
RINGLOAD_C_EXPORT ringload_status ringload_group_load(ringload_loader* loader,
                                                      ringload_group* group, const char* source,
                                                      ringload_group_reading reading,
                                                      const ringload_load_options* options,
                                                      ringload_group_loading** loaded);
/// Returns the load that ringload_group_load_begin() started. May be called once for each
/// operation.
RINGLOAD_C_EXPORT ringload_status ringload_operation_group_loading(ringload_operation* operation,
                                                                   ringload_group_loading** result);
/// Releases the handle. Calls that have not ended keep the load alive.
RINGLOAD_C_EXPORT void ringload_group_loading_release(ringload_group_loading* loading);
/// Returns statistics of the reads of this rank.
RINGLOAD_C_EXPORT ringload_status
ringload_group_loading_stats(const ringload_group_loading* loading, ringload_stats* into);

/// Starts a call whose result is the whole tensor on every rank, in the memory of the loader's
/// device.
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_tensor_begin(
    ringload_group_loading* loading, const char* name, ringload_operation** operation);
/// Makes a call as ringload_group_loading_tensor_begin() does, and waits for the end of the call.
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_tensor(ringload_group_loading* loading,
                                                                const char* name,
                                                                ringload_tensor** loaded);
/// Starts a call that divides the tensor along `dim`. The result on each rank is the range of this
/// rank. A range has ceil(size / ranks) indices, so the ranges of the last ranks may be shorter or
/// empty.
RINGLOAD_C_EXPORT ringload_status
ringload_group_loading_shard_begin(ringload_group_loading* loading, const char* name, uint32_t dim,
                                   ringload_operation** operation);
/// Makes a call as ringload_group_loading_shard_begin() does, and waits for the end of the call.
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_shard(ringload_group_loading* loading,
                                                               const char* name, uint32_t dim,
                                                               ringload_tensor** loaded);
/// Starts a call whose result on each rank is one tensor `name`. This tensor concatenates the
/// rank's ranges of the tensors `names` along `dim`.
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_fused_begin(
    ringload_group_loading* loading, const char* name, const char* const* names, size_t count,
    uint32_t dim, ringload_operation** operation);
/// Makes a call as ringload_group_loading_fused_begin() does, and waits for the end of the call.
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_fused(ringload_group_loading* loading,
                                                               const char* name,
                                                               const char* const* names,
                                                               size_t count, uint32_t dim,
                                                               ringload_tensor** loaded);
/// Starts a call whose result on the rank `to` is the whole tensor. On all other ranks, the
/// operation ends with RINGLOAD_END.
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_push_begin(ringload_group_loading* loading,
                                                                    const char* name, uint32_t to,
                                                                    ringload_operation** operation);
/// Makes a call as ringload_group_loading_push_begin() does, and waits for the end of the call.
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_push(ringload_group_loading* loading,
                                                              const char* name, uint32_t to,
                                                              ringload_tensor** loaded);
/// Starts a call whose result on every rank is a model. The model has the `count` tensors `names`,
/// whole, in the memory of the loader's device. If `names` is null and `count` is 0, the model has
/// all tensors. One call for many tensors is faster than a call for each tensor.
RINGLOAD_C_EXPORT ringload_status
ringload_group_loading_model_begin(ringload_group_loading* loading, const char* const* names,
                                   size_t count, ringload_operation** operation);
/// Makes a call as ringload_group_loading_model_begin() does, and waits for the end of the call.
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_model(ringload_group_loading* loading,
                                                               const char* const* names,
                                                               size_t count,
                                                               ringload_model** loaded);

#ifdef __cplusplus
}
#endif

#endif
