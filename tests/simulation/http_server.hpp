// SPDX-License-Identifier: Apache-2.0
#pragma once

// A simulated HTTP server. It is not a thread: it acts when bytes of a client arrive, and at times
// that the world decides. It serves the files of the world, and fails in all ways of HTTP.

#include <cstdint>
#include <map>
#include <ringload/remote.hpp>
#include <string>
#include <string_view>

#include "workload.hpp"

namespace ringload::simulation {

// Each server has two ports. Redirects lead to the second port.
inline constexpr std::uint32_t server_address = 0x7F000001;
inline constexpr std::uint16_t server_ports[] = {80, 8080};

// Begins the server of a world. The options are those of the clients: the server checks limits.
void begin_server(const known_files& files, const remote_options& options);
void end_server();

// An address of the file, for one of the kinds of servers.
std::string any_url_of(const known_file& file);

struct http_request {
  std::string method;
  std::string target;
  std::map<std::string, std::string> fields;  // The names are in lower case.

  const std::string* field(const std::string& name) const {
    const auto found = fields.find(name);
    return found == fields.end() ? nullptr : &found->second;
  }
};

// Violations: a request that is not valid.
http_request parse_request(std::string_view head);

// The ways in which a server fails.
enum class server_fault {
  none,
  // A repeated request succeeds.
  unavailable,      // 408, 429, 500, 502, 503 or 504.
  closed_before,    // The connection is closed without an answer.
  reset_before,     // The connection is reset without an answer.
  silent_before,    // No answer arrives.
  cut,              // The connection is closed within the body.
  reset_within,     // The connection is reset within the body.
  silent_within,    // The body stops.
  fewer_bytes,      // A shorter range, correctly declared.
  last_repeatable,  // Not a fault.
  // An operation may fail.
  refused,           // 401, 403, 404, 410, 412, 416 or 418.
  delayed_for_long,  // 503, with a time that no client waits for.
  other_range,       // The bytes of another range, correctly declared.
  wrong_total,       // Content-Range has another size of the object.
  no_range,          // 206 without Content-Range.
  invalid_range,     // Content-Range is not valid.
  wrong_length,      // Content-Length contradicts Content-Range.
  other_version,     // The bytes and the ETag of another version.
  whole_object,      // 200 with the whole object.
  encoded,           // Content-Encoding: gzip.
  garbage,           // Bytes that are not HTTP.
  endless_header,
  endless_interim,  // Responses 103 without end.
  more_bytes,       // Bytes after the body.
  invalid_chunk,    // A chunked body whose next chunk has no valid size.
  redirect_loop,
  redirect_to_nowhere,  // To a port without a server, or to an address that is not valid.
  slow_body,            // A byte now and then.
  last,                 // Not a fault.
};

}  // namespace ringload::simulation
