// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checkpoints over HTTP and HTTPS, in the component `remote` (ringload::remote), which links
// OpenSSL. Bytes are received directly into the arena or into slots, in parallel with bytes of
// other sources.
//
//   ringload::loader loader{ringload::host(), {}, {ringload::remote()}};
//   co_await loader.load_async("https://host/path/model.safetensors");
//
// A name is hf://owner/model[@revision], or s3://bucket/prefix, see <ringload/hub.hpp> and
// <ringload/s3.hpp>; or the address of a file of any format except HDF5; or the address of an
// index, with its shards next to it. All requests read the same version of an object: each request
// requires the ETag or Last-Modified of the first response. An object that is replaced meanwhile is
// errc::changed_file. If a server does not support ranges, the file is received as a whole, and
// reads take their bytes from the stream. A read before the start of the kept bytes restarts the
// transfer. If twice the file size is received without use, the error is errc::unsupported_feature.
//
// Requests that fail in transit, or with 408, 429, 500, 502, 503 or 504, are repeated after a
// delay, from the last received byte. Retry-After is obeyed. Redirects are followed. Credentials
// are sent only to the origin of the address.

#include <chrono>
#include <cstdint>
#include <ringload/export.hpp>
#include <ringload/extension.hpp>
#include <ringload/hub.hpp>
#include <ringload/s3.hpp>
#include <string>
#include <vector>

namespace ringload::inline v0 {

struct remote_options {
  remote_options() {}

  /// The maximum number of connections to one host, for all loads that use this extension: 1 to
  /// 1,024. At most loader_options::slots reads are in flight.
  std::uint32_t connections = 16;
  /// The longest range of one request: at least 64 KiB. A read of at most
  /// loader_options::slot_bytes is divided into such ranges. If the ranges are shorter than reads,
  /// there are more ranges than connections, and each connection requests its next range before the
  /// current range is complete. With long round trips this is faster than long ranges.
  std::uint64_t chunk_bytes = std::uint64_t{1} << 20;
  /// The number of threads that receive and decrypt, each with a part of the connections: 1 to 64.
  /// One thread is enough for some GB/s, or for 1 to 2 GB/s with TLS.
  std::uint32_t threads = 1;

  /// The time limit for resolving and connecting together, and again for the TLS handshake.
  std::chrono::milliseconds connect_time_max = std::chrono::seconds(10);
  /// The time limit without a byte from the server. The request is then repeated on another
  /// connection.
  std::chrono::milliseconds silence_time_max = std::chrono::seconds(30);
  /// The time limit without progress, including all repetitions. A request fails if, in this time,
  /// its server answers no request of this extension and sends less than 64 KiB. So a server that
  /// is silent, or as slow as 1 KB/s, fails a load after a minute.
  std::chrono::milliseconds stall_time_max = std::chrono::seconds(60);
  /// The time limit for one range or one small response, with all delays and repetitions. Without
  /// ranges, the limit applies to as many bytes as a range has.
  std::chrono::milliseconds request_time_max = std::chrono::minutes(10);
  /// The maximum number of consecutive attempts of a request without progress: 1 or more. 1: no
  /// repetition.
  std::uint32_t tries_max = 6;
  /// The delay before the second attempt. The delay doubles with each attempt, up to
  /// `retry_delay_max`, and half of it is random.
  std::chrono::milliseconds retry_delay = std::chrono::milliseconds(250);
  std::chrono::milliseconds retry_delay_max = std::chrono::seconds(8);

  std::uint32_t redirects_max = 8;
  /// Whether a public server may redirect to a loopback, private or link-local address.
  bool private_redirects = false;
  /// The only hosts that may be contacted, including redirects. Empty: any host.
  std::vector<std::string> hosts;
  /// The proxy, "http://host:port". Empty: no proxy. HTTPS uses the proxy with CONNECT.
  std::string proxy;
  /// A file of certificates (PEM) that are trusted in addition to the certificates of the system.
  std::string ca_file;
  /// For servers that do not support ranges: a file up to this size is kept in memory while it is
  /// open. For a larger file, at most so much data is kept that no read has requested yet. If the
  /// server does not send the size, larger files are errc::unsupported_feature.
  std::uint64_t whole_bytes_max = std::uint64_t{64} << 20;
  hub_options hub;
  s3_options s3;

  /// Opens no socket: a source that is not local is errc::source_not_found.
  bool offline = false;
};

/// Returns an extension that reads over HTTP. Starts `threads` threads, which end with the last
/// loader, checkpoint and copy of the extension that uses them. Throws `ringload::error` with
/// errc::invalid_options.
RINGLOAD_EXPORT extension remote(const remote_options& options = {});

}  // namespace ringload::inline v0
