// SPDX-License-Identifier: Apache-2.0
#pragma once

// Loads checkpoints over HTTP and HTTPS. The component `remote` (ringload::remote) links OpenSSL
// and Expat. Bytes are received directly into the final memory or into slots (pinned buffers of the
// loader). Several sources can be read in parallel.
//
//   ringload::loader loader{ringload::host(), {}, {ringload::remote()}};
//   co_await loader.load_async("https://host/path/model.safetensors");
//
// The name of a checkpoint has one of these forms:
//
//   hf://owner/model[@revision]   a model of the Hugging Face hub, see <ringload/hub.hpp>
//   s3://bucket/prefix            objects in S3, see <ringload/s3.hpp>
//   the address of a file         any format except HDF5
//   the address of an index       the shards are next to the index
//
// All requests of a load read the same version of an object. Each request requires the ETag or the
// Last-Modified of the first response. If the object was replaced, the load fails with
// errc::changed_file.
//
// If a server does not support requests for ranges, the whole file is transferred, and all reads
// get their bytes from this transfer. A small file is kept in memory
// (remote_options::whole_bytes_max). For a larger file, only a part of the bytes is kept. If a read
// needs bytes that were dropped, the transfer is restarted. Received bytes that no read uses are
// counted. After this count has exceeded twice the size of the file, the next restart fails with
// errc::unsupported_feature.
//
// A request is repeated after a delay if the transfer fails, or if the status is 408, 429, 500,
// 502, 503 or 504. The repeated request continues after the last received byte. If the server sends
// Retry-After, the delay is at least the time in this header. A request fails if this time exceeds
// 60 s.
// Redirects are followed. Credentials are sent only to the scheme, host and port of the original
// address.

#include <chrono>
#include <cstdint>
#include <ringload/azure.hpp>
#include <ringload/export.hpp>
#include <ringload/extension.hpp>
#include <ringload/hub.hpp>
#include <ringload/s3.hpp>
#include <string>
#include <vector>

namespace ringload::inline v0 {

/// Options of remote().
struct remote_options {
  RINGLOAD_OPTION_STRUCT(remote_options)

  /// The maximum number of connections to one host, 1 to 1,024. The number is rounded up to a
  /// multiple of `threads`. All loads with this extension share the connections. Each read in
  /// flight also needs a slot: see loader_options::slots.
  std::uint32_t connections = 16;
  /// The maximum number of bytes that one request asks for, at least 64 KiB. A longer read is
  /// divided into several requests. The size of a read is at most loader_options::slot_bytes. A
  /// smaller value of `chunk_bytes` is faster on links with long round trips. With smaller
  /// requests, more requests wait for each connection, and a connection can send a waiting request
  /// before the current response is complete.
  std::uint64_t chunk_bytes = std::uint64_t{1} << 20;
  /// The number of network threads, 1 to 64. The connections are divided among the threads, which
  /// receive and decrypt the bytes. One thread can receive several GB/s without TLS, or 1 to 2 GB/s
  /// with TLS.
  std::uint32_t threads = 1;

  /// The time limit for name resolution and connection together. The TLS handshake has a separate
  /// limit of the same length.
  std::chrono::milliseconds connect_time_max = std::chrono::seconds(10);
  /// The maximum time without a received byte. After this time, the request is repeated on another
  /// connection.
  std::chrono::milliseconds silence_time_max = std::chrono::seconds(30);
  /// The time limit without progress. Progress means that the connections of the same network
  /// thread to the same server complete a response, or receive at least 64 KiB in total. A request
  /// without progress during this time fails. Repetitions do not extend the limit. Therefore a load
  /// fails after one minute if the server is silent or sends only 1 KB/s.
  std::chrono::milliseconds stall_time_max = std::chrono::seconds(60);
  /// The time limit for one range or one small response, including all delays and repetitions. If
  /// the server does not support ranges, the limit applies separately to each `chunk_bytes` bytes
  /// of the transfer.
  std::chrono::milliseconds request_time_max = std::chrono::minutes(10);
  /// A request fails after this number of consecutive attempts without progress. 1 means no
  /// repetition.
  std::uint32_t tries_max = 6;
  /// The delay before the second attempt. Each further attempt doubles the delay, up to
  /// `retry_delay_max`. A random part, at most one half, is subtracted from each delay.
  std::chrono::milliseconds retry_delay = std::chrono::milliseconds(250);
  /// The maximum delay between two attempts.
  std::chrono::milliseconds retry_delay_max = std::chrono::seconds(8);

  std::uint32_t redirects_max = 8;  // The maximum number of redirects of one request.
  /// If true, a public server may redirect to a loopback, private or link-local address.
  bool private_redirects = false;
  /// The only hosts that may be contacted. The list applies to redirects too. Empty means all
  /// hosts.
  std::vector<std::string> hosts = {};
  /// The address of a proxy, such as "http://host:port". HTTPS uses the CONNECT method. Empty means
  /// no proxy. A user name and a password, as in "http://user:password@host:port", are sent to the
  /// proxy only (Basic). Characters such as '@' and ':' in the user name or the password must be
  /// percent-encoded.
  std::string proxy = {};
  /// Hosts that are contacted without the proxy. Each text has one of the forms of the variable
  /// NO_PROXY:
  ///
  ///   - "*": all hosts
  ///   - "example.com", ".example.com": the host and its sub-domains
  ///   - "host:80": one port of a host
  ///   - "10.0.0.0/8": the addresses of a network. Host names are not resolved for this rule.
  std::vector<std::string> no_proxy = {};
  /// A PEM file with trusted certificates. The certificates of the system are trusted too.
  std::string ca_file = {};
  /// The maximum number of bytes of one file that are kept in memory, if the server does not
  /// support ranges. A file up to this size is kept as a whole while the file is open. For a larger
  /// file, at most this number of received bytes is kept for later reads. If the file is larger and
  /// the server does not send its size, the load fails with errc::unsupported_feature.
  std::uint64_t whole_bytes_max = std::uint64_t{64} << 20;
  hub_options hub = {};  // Options for the Hugging Face hub.
  s3_options s3 = {};    // Options for S3.
  /// Options for gs://bucket/key: Google Cloud Storage, by its interface for S3. The keys are HMAC
  /// keys. An empty endpoint means https://storage.googleapis.com, and an empty region "auto".
  s3_options gs = {};
  azure_options azure = {};  // Options for az://account/container/key.

  /// If true, no socket is opened, and a source that is not local fails with
  /// errc::source_not_found.
  bool offline = false;
};

/// Returns an extension that reads over HTTP. Starts `options.threads` threads. The threads end
/// when all loaders, checkpoints and copies of the extension are destroyed. Throws
/// `ringload::error` with errc::invalid_options if an option is invalid.
RINGLOAD_EXPORT extension remote(const remote_options& options = {});

}  // namespace ringload::inline v0
