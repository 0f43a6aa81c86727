// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_REMOTE_H
#define RINGLOAD_C_REMOTE_H

// Reads checkpoints over HTTP, from the Hugging Face hub and from S3, with the C interface of
// ringload/c.h. This header belongs to the component `c_remote`, which links OpenSSL and Expat.

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

/// How the local cache of the hub is used.
typedef enum ringload_hub_cache RINGLOAD_OF_INT {
  /// If the cache has all files that a load needs, no file is downloaded. Otherwise all these files
  /// are downloaded. Downloaded files are not added to the cache.
  RINGLOAD_HUB_CACHE_READ = 0,
  /// The cache is neither read nor written: see `hub_cache::off` of `hub.hpp`.
  RINGLOAD_HUB_CACHE_OFF = 1,
  /// Files and parts of files that are in the cache are not downloaded again. Downloaded bytes are
  /// written to the cache.
  RINGLOAD_HUB_CACHE_FILL = 2
} ringload_hub_cache;

/// The part of an S3 address that contains the bucket.
typedef enum ringload_s3_style RINGLOAD_OF_INT {
  RINGLOAD_S3_STYLE_AUTOMATIC = 0,
  RINGLOAD_S3_STYLE_PATH = 1,  // https://host/bucket/key
  RINGLOAD_S3_STYLE_HOST = 2   // https://bucket.host/key
} ringload_s3_style;

/// Credentials of S3. If a text is null, it is empty. This struct has no `struct_bytes`, and never
/// gets further fields.
typedef struct ringload_s3_keys {
  const char* access_key_id;      // The access key.
  const char* secret_access_key;  // The secret of the access key.
  const char* session_token;      // The token of temporary credentials.
} ringload_s3_keys;

/// Options for remote sources. If a text is null, the option is not set. If an endpoint is null,
/// the default endpoint is used. `ringload/remote.hpp`, `hub.hpp` and `s3.hpp` describe each field.
typedef struct ringload_remote_options {
  size_t struct_bytes;
  uint64_t chunk_bytes;  // The maximum number of bytes that one request asks for.
  /// The maximum size of a file that is kept in memory as a whole. Applies to servers that do not
  /// support ranges. `remote_options::whole_bytes_max` describes larger files.
  uint64_t whole_bytes_max;
  uint32_t connections;  // The maximum number of connections to one host.
  uint32_t threads;      // The number of threads that receive and decrypt.
  /// The time limit for name resolution and connection together.
  uint32_t connect_milliseconds_max;
  uint32_t silence_milliseconds_max;  // The maximum time without a received byte.
  /// The maximum time without progress. Repetitions of a request do not extend this time: see
  /// remote_options::stall_time_max.
  uint32_t stall_milliseconds_max;
  /// The time limit for one request, including all delays and repetitions.
  uint32_t request_milliseconds_max;
  /// The number of consecutive attempts without progress, after which a request fails.
  uint32_t tries_max;
  /// The delay before the second attempt. Each further attempt doubles the delay, up to
  /// `retry_milliseconds_max`.
  uint32_t retry_milliseconds;
  /// The maximum delay between two attempts.
  uint32_t retry_milliseconds_max;
  /// The maximum number of redirects of one request.
  uint32_t redirects_max;
  int refuse_redirects;   // If not 0, redirects are refused, and `redirects_max` is ignored.
  int private_redirects;  // If not 0, a public server may redirect to a private address.
  int offline;            // If not 0, no socket is opened.
  /// The only hosts that may be contacted. Null means that all hosts may be contacted.
  const char* const* hosts;
  /// The number of hosts.
  size_t hosts_count;
  const char* proxy;  // The address of a proxy, such as "http://host:port".
  /// A PEM file with trusted certificates. The certificates of the system are trusted too.
  const char* ca_file;

  /// The address of the hub. Null means https://huggingface.co.
  const char* hub_endpoint;
  /// The access token. The token is sent to the endpoint of the hub only.
  const char* hub_token;
  /// The folder of the local cache. Null means the cache folder that the Python package
  /// huggingface_hub uses.
  const char* hub_cache_folder;
  /// How the local cache is used.
  ringload_hub_cache hub_cache;

  /// The part of an S3 address that contains the bucket.
  ringload_s3_style s3_style;
  /// The region of the bucket. If null, Amazon reports the region.
  const char* s3_region;
  /// The address of the service. Null means Amazon.
  const char* s3_endpoint;
  const char* s3_access_key_id;  // If null, requests are not signed.
  /// The secret of the access key.
  const char* s3_secret_access_key;
  /// The token of temporary credentials.
  const char* s3_session_token;

  /// Hosts that are contacted without the proxy. Null means none.
  const char* const* no_proxy;
  /// The number of these hosts.
  size_t no_proxy_count;
  /// Called in a thread of ringload if a server refuses the S3 credentials in use. If the program
  /// has other credentials, the function sets the fields of `keys` and returns a number other than
  /// 0. Otherwise the function returns 0. The texts must stay valid until the next call. If the
  /// function is null, the credentials do not change.
  int (*s3_renew)(void* context, ringload_s3_keys* keys);
  void* s3_renew_context;  // The argument of `s3_renew`.

  /// The address of Google Cloud Storage or of a replacement. Null means
  /// https://storage.googleapis.com.
  const char* gs_endpoint;
  const char* gs_access_key_id;  // The HMAC key for gs://. If null, requests are not signed.
  /// The secret of the HMAC key.
  const char* gs_secret_access_key;
  /// The address of a replacement of Azure Blob Storage. Null means Azure.
  const char* azure_endpoint;
  const char* azure_sas_token;  // The shared access signature for az://, or null.
} ringload_remote_options;

/// Returns an extension for ringload_loader_create_with(). A loader with this extension can also
/// read names that begin with https://, http://, hf://, s3://, gs:// or az://. `options` may be
/// null. The threads of the extension end with the last loader that uses the extension. Returns
/// RINGLOAD_INVALID_ARGUMENT if an option is out of range. Returns RINGLOAD_UNSUPPORTED if ringload
/// was built without remote sources.
RINGLOAD_C_EXPORT ringload_status ringload_remote_extension(const ringload_remote_options* options,
                                                            ringload_extension** result);

#ifdef __cplusplus
}
#endif

#endif
