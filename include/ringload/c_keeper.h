// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_KEEPER_H
#define RINGLOAD_C_KEEPER_H

// Shares models between several processes, with the C interface of ringload/c.h. See
// `ringload/keeper.hpp`.

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A server that shares models with other processes through a socket.
typedef struct ringload_keeper ringload_keeper;

/// Returns the host device with memory that other processes can map. Use this device for the loader
/// of a model that will be published.
RINGLOAD_C_EXPORT ringload_status ringload_shared_host_device(ringload_device** device);

/// Permissions and limits of a keeper.
typedef struct ringload_keeper_options {
  size_t struct_bytes;
  /// The effective user ids that may attach models. Null means every user who can connect.
  const uint32_t* users;
  /// The number of user ids. If `users` is not null, the number must be at least 1.
  size_t users_count;
  /// The file mode of the socket. Only users with write permission can connect. 0 means 0600.
  uint32_t mode;
  /// The maximum number of connections. Each attached model, and each call that waits for a
  /// version, holds one connection. 0 means 1,024.
  uint32_t connections_max;
} ringload_keeper_options;

/// Creates a keeper with a socket at the path `socket`. A thread of the keeper serves the models.
/// If the path is a socket at which no program listens, the socket is replaced. `options` may be
/// null.
RINGLOAD_C_EXPORT ringload_status ringload_keeper_create(const char* socket,
                                                         const ringload_keeper_options* options,
                                                         ringload_keeper** result);
/// Releases the keeper and removes the socket. Attached models remain valid.
RINGLOAD_C_EXPORT void ringload_keeper_release(ringload_keeper* keeper);

/// Seals the memory of the model, then serves the model under `name`. Afterwards, a write to a
/// tensor of the model raises SIGSEGV. GPU memory is not sealed. Returns RINGLOAD_UNAVAILABLE if
/// the memory of the model cannot be shared.
RINGLOAD_C_EXPORT ringload_status ringload_keeper_publish(ringload_keeper* keeper, const char* name,
                                                          const ringload_model* model);
/// Stops serving the model `name`. Returns RINGLOAD_NOT_FOUND if no model of this name is served.
RINGLOAD_C_EXPORT ringload_status ringload_keeper_withdraw(ringload_keeper* keeper,
                                                           const char* name);

/// The state of a model that a keeper serves.
typedef struct ringload_kept_model {
  size_t struct_bytes;
  uint64_t version;   // 1 for the first model of this name, plus 1 for each later model.
  uint64_t bytes;     // The size of the model's memory.
  uint64_t attached;  // The number of open attachments of this version.
} ringload_kept_model;

/// Returns the state of the model `name`. Returns RINGLOAD_NOT_FOUND if no model of this name is
/// served.
RINGLOAD_C_EXPORT ringload_status ringload_keeper_model(const ringload_keeper* keeper,
                                                        const char* name,
                                                        ringload_kept_model* into);

/// Attaches the model that the keeper at `socket` serves under `name`. The memory of the model is
/// mapped for reading. `milliseconds` is the time limit for the keeper's answer. The limit 0 means
/// 10 seconds. Returns RINGLOAD_NOT_FOUND if the model or the socket does not exist. Returns
/// RINGLOAD_SYSTEM_ERROR if no keeper listens at the socket, or if the keeper refuses this user or
/// does not answer.
RINGLOAD_C_EXPORT ringload_status ringload_attach(const char* socket, const char* name,
                                                  uint32_t milliseconds, ringload_model** attached);

/// A version of a model that a keeper serves.
typedef struct ringload_kept_version {
  size_t struct_bytes;
  uint64_t keeper;  // A random number of the keeper. 0 means no version.
  uint64_t number;  // 1 for the first model of its name, plus 1 for each later model.
} ringload_kept_version;

/// Returns the version of an attached model. `version->keeper` is 0 if the model was not attached.
RINGLOAD_C_EXPORT ringload_status ringload_attached_version(const ringload_model* attached,
                                                            ringload_kept_version* version);

/// Returns the version that the keeper at `socket` serves under `name`, without attaching the
/// model. `milliseconds` and the failures are the same as for ringload_attach().
RINGLOAD_C_EXPORT ringload_status ringload_served_version(const char* socket, const char* name,
                                                          uint32_t milliseconds,
                                                          ringload_kept_version* version);

/// Waits until the keeper at `socket` serves another version than `current` under `name`, then
/// attaches that version. If several versions were published since `current`, attaches the newest
/// version. If `current` is null, waits for any version. `milliseconds` is the time limit of the
/// wait. The limit 0 means 10 seconds. Returns RINGLOAD_SYSTEM_ERROR after the time limit, or if
/// the keeper ends. ringload_last_errno() then returns ETIMEDOUT or ECONNRESET.
RINGLOAD_C_EXPORT ringload_status ringload_attach_next(const char* socket, const char* name,
                                                       const ringload_kept_version* current,
                                                       uint32_t milliseconds,
                                                       ringload_model** attached);

#ifdef __cplusplus
}
#endif

#endif
