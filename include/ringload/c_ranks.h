// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_RANKS_H
#define RINGLOAD_C_RANKS_H

// Ranks that load one checkpoint together, for ringload/c.h: each rank reads its part of the bytes,
// then the ranks exchange the bytes that they need. See `ringload/group_load.hpp`.
//
// All ranks must make the same calls in the same order, even calls that return nothing to a rank.
// If a call differs between ranks, it is RINGLOAD_MISMATCH on all ranks. If a call is wrong on all
// ranks, it fails on all ranks. Neither failure changes anything. Any other failure on one rank
// ends the group, and so does cancelling or releasing a call before its end. The other ranks then
// get RINGLOAD_SYSTEM_ERROR and the reason.

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A group as one rank uses it. Only one load at a time may use it.
typedef struct ringload_group ringload_group;
/// A load as one rank uses it. It keeps the loader alive, and so do its calls.
typedef struct ringload_group_loading ringload_group_loading;

/// Creates groups of `ranks` threads of this process, 1 to 127. `milliseconds` is the time limit
/// for a rank that has neither failed nor ended; 0: 5 minutes.
RINGLOAD_C_EXPORT ringload_status ringload_thread_groups(uint32_t ranks, uint32_t milliseconds,
                                                         ringload_group** result);
/// Creates a group of processes of this machine and this user, which connect through a Unix socket.
/// Rank 0 creates the socket at a path that must not exist, and removes it when all ranks are
/// connected. The function waits for all ranks, with the time limit `milliseconds` as above.
/// RINGLOAD_SYSTEM_ERROR: a rank did not connect in time.
RINGLOAD_C_EXPORT ringload_status ringload_join_group(const char* socket, uint32_t rank,
                                                      uint32_t ranks, uint32_t milliseconds,
                                                      ringload_group** joined);
/// Releases the group. The rank leaves the group when its loads are released too.
RINGLOAD_C_EXPORT void ringload_group_release(ringload_group* group);
/// Returns the rank; 0 for null.
RINGLOAD_C_EXPORT uint32_t ringload_group_rank(const ringload_group* group);
RINGLOAD_C_EXPORT uint32_t ringload_group_size(const ringload_group* group);

typedef enum ringload_group_reading RINGLOAD_OF_INT {
  RINGLOAD_READING_DIVIDED = 0,  // Each rank reads an equal part of the bytes at once.
  RINGLOAD_READING_OWN = 1       // Each rank reads the bytes of its requests when it makes them.
} ringload_group_reading;

/// Ends when all ranks have read their parts. `loader` must be a loader for the host. `source` is a
/// file, a folder, an index or `owner/model`, with the same tensors on all ranks. `options` may be
/// null.
RINGLOAD_C_EXPORT ringload_status ringload_group_load_begin(ringload_loader* loader,
                                                            ringload_group* group,
                                                            const char* source,
                                                            ringload_group_reading reading,
                                                            const ringload_load_options* options,
                                                            ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_group_load(ringload_loader* loader,
                                                      ringload_group* group, const char* source,
                                                      ringload_group_reading reading,
                                                      const ringload_load_options* options,
                                                      ringload_group_loading** loaded);
/// May be called once for each operation.
RINGLOAD_C_EXPORT ringload_status ringload_operation_group_loading(ringload_operation* operation,
                                                                   ringload_group_loading** result);
RINGLOAD_C_EXPORT void ringload_group_loading_release(ringload_group_loading* loading);
/// Returns the statistics of this rank's reads.
RINGLOAD_C_EXPORT ringload_status
ringload_group_loading_stats(const ringload_group_loading* loading, ringload_stats* into);

/// Returns the whole tensor on every rank, in host memory.
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_tensor_begin(
    ringload_group_loading* loading, const char* name, ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_tensor(ringload_group_loading* loading,
                                                                const char* name,
                                                                ringload_tensor** loaded);
/// Returns the range of this rank along `dim`, with ceil(size / ranks) indices. The last range may
/// be shorter or empty.
RINGLOAD_C_EXPORT ringload_status
ringload_group_loading_shard_begin(ringload_group_loading* loading, const char* name, uint32_t dim,
                                   ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_shard(ringload_group_loading* loading,
                                                               const char* name, uint32_t dim,
                                                               ringload_tensor** loaded);
/// Returns one tensor `name`, which concatenates the ranges of this rank of several tensors along
/// `dim`.
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_fused_begin(
    ringload_group_loading* loading, const char* name, const char* const* names, size_t count,
    uint32_t dim, ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_fused(ringload_group_loading* loading,
                                                               const char* name,
                                                               const char* const* names,
                                                               size_t count, uint32_t dim,
                                                               ringload_tensor** loaded);
/// Returns the whole tensor on the rank `to`, and RINGLOAD_END on all other ranks.
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_push_begin(ringload_group_loading* loading,
                                                                    const char* name, uint32_t to,
                                                                    ringload_operation** operation);
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_push(ringload_group_loading* loading,
                                                              const char* name, uint32_t to,
                                                              ringload_tensor** loaded);

#ifdef __cplusplus
}
#endif

#endif
