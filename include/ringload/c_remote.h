// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_REMOTE_H
#define RINGLOAD_C_REMOTE_H

// Checkpoints over HTTP, of the Hugging Face hub and of S3, for the loaders of ringload/c.h: the
// component `c_remote`, which links OpenSSL.

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ringload_hub_cache RINGLOAD_OF_INT {
  RINGLOAD_HUB_CACHE_READ = 0,  // What the local cache has is not fetched.
  RINGLOAD_HUB_CACHE_OFF = 1,
  RINGLOAD_HUB_CACHE_FILL = 2  // As READ, and what is fetched is written into it.
} ringload_hub_cache;

typedef enum ringload_s3_style RINGLOAD_OF_INT {
  RINGLOAD_S3_STYLE_AUTOMATIC = 0,
  RINGLOAD_S3_STYLE_PATH = 1,  // https://host/bucket/key
  RINGLOAD_S3_STYLE_HOST = 2   // https://bucket.host/key
} ringload_s3_style;

/// A null text is the default, which is to have none but for the two endpoints.
/// `ringload/remote.hpp`, `hub.hpp` and `s3.hpp` say more of each.
typedef struct ringload_remote_options {
  size_t struct_bytes;
  uint64_t chunk_bytes;      // The longest range of one request.
  uint64_t whole_bytes_max;  // Of a file on a server that gives no ranges.
  uint32_t connections;      // To one host at the same time.
  uint32_t threads;          // That receive and decrypt.
  uint32_t connect_milliseconds_max;
  uint32_t silence_milliseconds_max;  // Without a byte from the server.
  uint32_t stall_milliseconds_max;    // Without progress of the server, with all repetitions.
  uint32_t request_milliseconds_max;  // With all waits and repetitions.
  uint32_t tries_max;
  uint32_t retry_milliseconds;  // Before the second try; it doubles up to:
  uint32_t retry_milliseconds_max;
  uint32_t redirects_max;
  int refuse_redirects;      // Not 0: none, whatever `redirects_max` says.
  int private_redirects;     // Not 0: a public server may redirect to a private address.
  int offline;               // Not 0: no socket is opened.
  const char* const* hosts;  // The only ones that may be fetched from. None: any.
  size_t hosts_count;
  const char* proxy;    // "http://host:port"
  const char* ca_file;  // Certificates (PEM) that are trusted beside the system's.

  const char* hub_endpoint;
  const char* hub_token;
  const char* hub_cache_folder;
  ringload_hub_cache hub_cache;

  ringload_s3_style s3_style;
  const char* s3_region;
  const char* s3_endpoint;
  const char* s3_access_key_id;  // Null: requests are not signed.
  const char* s3_secret_access_key;
  const char* s3_session_token;
} ringload_remote_options;

/// For ringload_loader_create_with(): its loaders read https://, http://, hf:// and s3://, too.
/// `how` may be null. Threads of its own end with the last loader that uses it.
/// RINGLOAD_INVALID_ARGUMENT for settings out of range, RINGLOAD_UNSUPPORTED where ringload was
/// built without remote sources.
RINGLOAD_C_EXPORT ringload_status ringload_remote_extension(const ringload_remote_options* how,
                                                            ringload_extension** made);

#ifdef __cplusplus
}
#endif

#endif
