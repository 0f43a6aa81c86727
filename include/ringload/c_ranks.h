// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_RANKS_H
#define RINGLOAD_C_RANKS_H

// Ranks that load one checkpoint together, of ringload/c.h: each reads its part of the bytes, and
// then they give each other what each needs. `ringload/group_load.hpp` says more.
//
// All ranks make the same calls in the same order, also those that a call gives nothing. A call
// that is not the same on all of them is RINGLOAD_MISMATCH on all of them, and one that is wrong on
// all fails alike; neither changes anything. What else fails on one rank, is cancelled or released
// there before it has ended, ends the group: the others get RINGLOAD_SYSTEM_ERROR, and its reason.

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

/// What a rank has of its group. It is used by one load at a time.
typedef struct ringload_group ringload_group;
/// What a rank has of a load. Keeps the loader; its calls do, too.
typedef struct ringload_group_loading ringload_group_loading;

/// Groups of `ranks` threads of this process, 1 to 127, into `made`. `milliseconds`: how long a
/// rank is waited for that has neither failed nor ended; 0: 5 minutes.
RINGLOAD_C_EXPORT ringload_status ringload_thread_groups(uint32_t ranks, uint32_t milliseconds,
                                                         ringload_group** made);
/// A group of processes of this machine and this user, which meet at a Unix socket: rank 0 makes
/// it, at a path that is free, and removes it when all have come. Waits for them; `milliseconds` as
/// above. RINGLOAD_SYSTEM_ERROR: not all came in time.
RINGLOAD_C_EXPORT ringload_status ringload_join_group(const char* socket, uint32_t rank,
                                                      uint32_t ranks, uint32_t milliseconds,
                                                      ringload_group** joined);
/// Leaves the group once its loads are released, too.
RINGLOAD_C_EXPORT void ringload_group_release(ringload_group* group);
/// 0 for null.
RINGLOAD_C_EXPORT uint32_t ringload_group_rank(const ringload_group* group);
RINGLOAD_C_EXPORT uint32_t ringload_group_size(const ringload_group* group);

typedef enum ringload_group_reading RINGLOAD_OF_INT {
  RINGLOAD_READING_DIVIDED = 0,  // Each rank reads an equal part of the bytes, all of it at once.
  RINGLOAD_READING_OWN = 1       // Each reads what it asks for, when it does.
} ringload_group_reading;

/// Ends when all ranks have read their parts. `loader` is one for the host; `source` is a file, a
/// folder, an index or `owner/model`, which holds the same tensors on all ranks; `how` may be null.
RINGLOAD_C_EXPORT ringload_status ringload_group_load_begin(
    ringload_loader* loader, ringload_group* group, const char* source,
    ringload_group_reading reading, const ringload_load_options* how, ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_group_load(ringload_loader* loader,
                                                      ringload_group* group, const char* source,
                                                      ringload_group_reading reading,
                                                      const ringload_load_options* how,
                                                      ringload_group_loading** loaded);
/// Once for an operation.
RINGLOAD_C_EXPORT ringload_status ringload_operation_group_loading(ringload_operation* operation,
                                                                   ringload_group_loading** result);
RINGLOAD_C_EXPORT void ringload_group_loading_release(ringload_group_loading* loading);
/// Of this rank's reads.
RINGLOAD_C_EXPORT ringload_status
ringload_group_loading_stats(const ringload_group_loading* loading, ringload_stats* into);

/// The whole tensor, on every rank, in memory of the host.
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_tensor_begin(
    ringload_group_loading* loading, const char* name, ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_tensor(ringload_group_loading* loading,
                                                                const char* name,
                                                                ringload_tensor** loaded);
/// The block of this rank along `dim`: ceil(size / ranks) long, the last may be shorter, or empty.
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_shard_begin(
    ringload_group_loading* loading, const char* name, uint32_t dim, ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_shard(ringload_group_loading* loading,
                                                               const char* name, uint32_t dim,
                                                               ringload_tensor** loaded);
/// The blocks of this rank of several tensors, behind each other along `dim`, as one named `as`.
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_fused_begin(
    ringload_group_loading* loading, const char* as, const char* const* names, size_t count,
    uint32_t dim, ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_fused(ringload_group_loading* loading,
                                                               const char* as,
                                                               const char* const* names,
                                                               size_t count, uint32_t dim,
                                                               ringload_tensor** loaded);
/// The whole tensor on the rank `to`, and RINGLOAD_END on all others.
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_push_begin(ringload_group_loading* loading,
                                                                    const char* name, uint32_t to,
                                                                    ringload_operation** begun);
RINGLOAD_C_EXPORT ringload_status ringload_group_loading_push(ringload_group_loading* loading,
                                                              const char* name, uint32_t to,
                                                              ringload_tensor** loaded);

#ifdef __cplusplus
}
#endif

#endif
