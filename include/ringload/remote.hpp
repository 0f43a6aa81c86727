// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checkpoints over HTTP and HTTPS, by the component `remote` (ringload::remote), which links
// OpenSSL: bytes are received where they are to be, in the arena or in slots, beside those of other
// sources.
//
//   ringload::loader loader{ringload::host(), {}, {ringload::remote()}};
//   co_await loader.load_async("https://host/path/model.safetensors");
//
// A name is hf://owner/model[@revision], or s3://bucket/prefix, see <ringload/hub.hpp> and
// <ringload/s3.hpp>; or the address of a file of any format but HDF5, or of an index, whose shards
// lie beside it. What is read is what was there at first: the first answer's ETag, or
// Last-Modified, is asked for by all others, and an object that is replaced meanwhile is
// errc::changed_file. From a server that gives no ranges a file comes in one go, and reads are
// given their bytes as they pass: one that goes back further than what is kept makes it begin anew,
// and once twice the size was received for nothing it is errc::unsupported_feature.
//
// Requests that fail on their way, or with 408, 429, 500, 502, 503 or 504, are made again after a
// while, from the byte on that was reached; Retry-After is obeyed. Redirects are followed; what
// authorises a request goes to the origin of the address only.

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

  /// To one host at the same time, of all loads that use this extension: 1 to 1,024. More reads
  /// than loader_options::slots are never in flight.
  std::uint32_t connections = 16;
  /// The longest range of one request: at least 64 KiB. A read, which is at most
  /// loader_options::slot_bytes long, is cut into these. Where they are shorter than reads there
  /// are more than connections, and each connection has been asked for the next range before one
  /// has come: with long round trips that is faster than long ranges are.
  std::uint64_t chunk_bytes = std::uint64_t{1} << 20;
  /// That receive and decrypt, each with its share of the connections: 1 to 64. One is enough for
  /// some GB/s, or for 1 to 2 with TLS.
  std::uint32_t threads = 1;

  /// For resolving and connecting together, and again for the handshake of TLS.
  std::chrono::milliseconds connect_time_max = std::chrono::seconds(10);
  /// Without a byte from the server. The request is then made again, on another connection.
  std::chrono::milliseconds silence_time_max = std::chrono::seconds(30);
  /// Without progress, with all repetitions: a request fails if its server answers none of the
  /// requests of this extension, and brings less than 64 KiB, in this time. So a server that is
  /// silent, or as slow as 1 KB/s, fails a load after a minute.
  std::chrono::milliseconds stall_time_max = std::chrono::seconds(60);
  /// For one range, or one small answer, with all waits and repetitions; without ranges for as many
  /// bytes as a range would have.
  std::chrono::milliseconds request_time_max = std::chrono::minutes(10);
  /// Of one request in a row, without progress: 1 and more. 1: it is never made again.
  std::uint32_t tries_max = 6;
  /// Before the second; it doubles with each, up to `retry_delay_max`, and half of it is random.
  std::chrono::milliseconds retry_delay = std::chrono::milliseconds(250);
  std::chrono::milliseconds retry_delay_max = std::chrono::seconds(8);

  std::uint32_t redirects_max = 8;
  /// Whether a public server may redirect to an address of this machine, of a private network or of
  /// a link.
  bool private_redirects = false;
  /// The only hosts that may be fetched from, also by a redirect. Empty: any.
  std::vector<std::string> hosts;
  /// "http://host:port". Empty: none. HTTPS goes through it by CONNECT.
  std::string proxy;
  /// A file of certificates (PEM) that are trusted beside those of the system.
  std::string ca_file;
  /// Of a server that gives no ranges: a file that is not larger is kept in memory while it is
  /// open, of a larger one as many bytes at most that nobody has asked for yet. Where the server
  /// does not even say the size, larger ones are errc::unsupported_feature.
  std::uint64_t whole_bytes_max = std::uint64_t{64} << 20;
  hub_options hub;
  s3_options s3;

  /// No socket is opened: what is not local is errc::source_not_found.
  bool offline = false;
};

/// Lets a loader read over HTTP. Starts `threads` threads, which end with the last loader,
/// checkpoint and copy of the extension that uses them. Throws `ringload::error` with
/// errc::invalid_options.
RINGLOAD_EXPORT extension remote(const remote_options& how = {});

}  // namespace ringload::inline v0
