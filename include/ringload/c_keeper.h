// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_KEEPER_H
#define RINGLOAD_C_KEEPER_H

// Models that several processes share, of ringload/c.h. `ringload/keeper.hpp` says more.

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ringload_keeper ringload_keeper;

/// Memory of the host that other processes can have: for loaders whose models are to be published.
RINGLOAD_C_EXPORT ringload_status ringload_shared_host_device(ringload_device** device);

typedef struct ringload_keeper_options {
  size_t struct_bytes;
  const uint32_t* users;  // Effective user ids that may attach. None: all that may connect.
  size_t users_count;
  uint32_t mode;             // Of the socket: who may write to it may connect. 0: 0600.
  uint32_t connections_max;  // At once, one for each model attached. 0: 1,024.
} ringload_keeper_options;

/// Makes the socket, in the place of one whose keeper is gone, and answers in a thread of its own.
/// `how` may be null.
RINGLOAD_C_EXPORT ringload_status ringload_keeper_create(const char* socket,
                                                         const ringload_keeper_options* how,
                                                         ringload_keeper** made);
/// Removes the socket. What is attached stays so.
RINGLOAD_C_EXPORT void ringload_keeper_release(ringload_keeper* keeper);

/// Seals the model's memory, and gives it to all who attach under this name from now on. To write
/// to its tensors is an access violation from then on. RINGLOAD_UNAVAILABLE: it is not in memory
/// that can be shared.
RINGLOAD_C_EXPORT ringload_status ringload_keeper_publish(ringload_keeper* keeper, const char* name,
                                                          const ringload_model* model);
/// Serves no model of this name any more; RINGLOAD_NOT_FOUND if there was none.
RINGLOAD_C_EXPORT ringload_status ringload_keeper_withdraw(ringload_keeper* keeper,
                                                           const char* name);

/// A model as its keeper sees it.
typedef struct ringload_kept_model {
  size_t struct_bytes;
  uint64_t version;   // 1 for the first of its name, and one more with each that follows.
  uint64_t bytes;     // Of its memory.
  uint64_t attached;  // How often this version is attached now.
} ringload_kept_model;

/// RINGLOAD_NOT_FOUND where no model of this name is served.
RINGLOAD_C_EXPORT ringload_status ringload_keeper_model(const ringload_keeper* keeper,
                                                        const char* name,
                                                        ringload_kept_model* into);

/// The model that a keeper has under this name: its memory, mapped for reading. `milliseconds`: for
/// a keeper that does not answer; 0: 10 seconds. RINGLOAD_NOT_FOUND: no such model, or no keeper;
/// RINGLOAD_SYSTEM_ERROR: this user is not let in, or there is no answer.
RINGLOAD_C_EXPORT ringload_status ringload_attach(const char* socket, const char* name,
                                                  uint32_t milliseconds, ringload_model** attached);

#ifdef __cplusplus
}
#endif

#endif
