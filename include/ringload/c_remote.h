// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_REMOTE_H
#define RINGLOAD_C_REMOTE_H

// Checkpoints over HTTP, from the Hugging Face hub and from S3, for the loaders of ringload/c.h:
// the component `c_remote`, which links OpenSSL.

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ringload_hub_cache RINGLOAD_OF_INT {
  RINGLOAD_HUB_CACHE_READ = 0,  // Files in the local cache are not fetched.
  RINGLOAD_HUB_CACHE_OFF = 1,
  RINGLOAD_HUB_CACHE_FILL = 2  // As READ, and fetched bytes are written into the cache.
} ringload_hub_cache;

typedef enum ringload_s3_style RINGLOAD_OF_INT {
  RINGLOAD_S3_STYLE_AUTOMATIC = 0,
  RINGLOAD_S3_STYLE_PATH = 1,  // https://host/bucket/key
  RINGLOAD_S3_STYLE_HOST = 2   // https://bucket.host/key
} ringload_s3_style;

/// The options of remote sources. A null text is the default: no value, except for the two
/// endpoints. `ringload/remote.hpp`, `hub.hpp` and `s3.hpp` describe each field.
typedef struct ringload_remote_options {
  size_t struct_bytes;
  uint64_t chunk_bytes;      // The longest range of one request.
  uint64_t whole_bytes_max;  // Limit of kept bytes if the server does not support ranges.
  uint32_t connections;      // Maximum number for one host.
  uint32_t threads;          // Number of threads that receive and decrypt.
  uint32_t connect_milliseconds_max;
  uint32_t silence_milliseconds_max;  // Time limit without a byte from the server.
  uint32_t stall_milliseconds_max;    // Time limit without progress, including all repetitions.
  uint32_t request_milliseconds_max;  // Time limit including all delays and repetitions.
  uint32_t tries_max;
  /// Delay before the second attempt, doubled for each attempt up to the maximum below.
  uint32_t retry_milliseconds;
  uint32_t retry_milliseconds_max;
  uint32_t redirects_max;
  int refuse_redirects;      // Not 0: no redirects, `redirects_max` is ignored.
  int private_redirects;     // Not 0: a public server may redirect to a private address.
  int offline;               // Not 0: no socket is opened.
  const char* const* hosts;  // The only hosts that may be contacted. None: any host.
  size_t hosts_count;
  const char* proxy;    // "http://host:port"
  const char* ca_file;  // Certificates (PEM) that are trusted in addition to the system's.

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

/// Returns an extension for ringload_loader_create_with(): its loaders also read https://, http://,
/// hf:// and s3://. `options` may be null. The threads of the extension end with the last loader
/// that uses it. RINGLOAD_INVALID_ARGUMENT for options out of range. RINGLOAD_UNSUPPORTED if
/// ringload was built without remote sources.
RINGLOAD_C_EXPORT ringload_status ringload_remote_extension(const ringload_remote_options* options,
                                                            ringload_extension** result);

#ifdef __cplusplus
}
#endif

#endif
