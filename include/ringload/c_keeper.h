// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_KEEPER_H
#define RINGLOAD_C_KEEPER_H

// Models that several processes share, for ringload/c.h. See `ringload/keeper.hpp`.

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ringload_keeper ringload_keeper;

/// Returns the host device with memory that other processes can map, for loaders whose models are
/// published.
RINGLOAD_C_EXPORT ringload_status ringload_shared_host_device(ringload_device** device);

typedef struct ringload_keeper_options {
  size_t struct_bytes;
  const uint32_t* users;  // Effective user ids that may attach. None: all users that may connect.
  size_t users_count;
  uint32_t mode;  // Mode of the socket: users with write permission may connect. 0: 0600.
  uint32_t connections_max;  // Maximum number, one for each attached model. 0: 1,024.
} ringload_keeper_options;

/// Creates the socket and serves it in a thread of the keeper. An old socket without a keeper is
/// replaced. `options` may be null.
RINGLOAD_C_EXPORT ringload_status ringload_keeper_create(const char* socket,
                                                         const ringload_keeper_options* options,
                                                         ringload_keeper** result);
/// Removes the socket. Attached models stay valid.
RINGLOAD_C_EXPORT void ringload_keeper_release(ringload_keeper* keeper);

/// Seals the model's memory and serves the model under this name. Afterwards writing to its tensors
/// is an access violation. RINGLOAD_UNAVAILABLE: the memory of the model cannot be shared.
RINGLOAD_C_EXPORT ringload_status ringload_keeper_publish(ringload_keeper* keeper, const char* name,
                                                          const ringload_model* model);
/// Stops serving the model of this name; RINGLOAD_NOT_FOUND if no such model is served.
RINGLOAD_C_EXPORT ringload_status ringload_keeper_withdraw(ringload_keeper* keeper,
                                                           const char* name);

/// A published model and its use.
typedef struct ringload_kept_model {
  size_t struct_bytes;
  uint64_t version;   // 1 for the first model of the name, then counted up.
  uint64_t bytes;     // Size of its memory.
  uint64_t attached;  // Number of current attachments of this version.
} ringload_kept_model;

/// Describes a model; RINGLOAD_NOT_FOUND if no model of this name is served.
RINGLOAD_C_EXPORT ringload_status ringload_keeper_model(const ringload_keeper* keeper,
                                                        const char* name,
                                                        ringload_kept_model* into);

/// Attaches the model that a keeper serves under this name: maps its memory for reading.
/// `milliseconds` is the time limit for the keeper's answer; 0: 10 seconds. RINGLOAD_NOT_FOUND: no
/// such model, or no keeper. RINGLOAD_SYSTEM_ERROR: the keeper refuses this user, or does not
/// answer.
RINGLOAD_C_EXPORT ringload_status ringload_attach(const char* socket, const char* name,
                                                  uint32_t milliseconds, ringload_model** attached);

#ifdef __cplusplus
}
#endif

#endif
