// SPDX-License-Identifier: Apache-2.0
#pragma once

// The interface of the HTTP client. The stores convert names (hf://, s3://) to values of this
// header. The client is independent of hubs and buckets.
//
// - A `remote_object` is an address with the authorisation of its requests. A signature (AWS) or a
//   token is a `sign_function`. The client calls the function for every request to the origin of
//   `url`, including redirected and repeated requests. Requests to other hosts have no credentials.
//   The function is called in threads of the client, must not block, and must be thread-safe.
// - http_client::fetch receives small bodies (JSON of an API, XML of a listing) and blocks. Call
//   fetch only in byte_store::find, byte_folder::names and byte_folder::open, with their
//   stop_token. Fetch handles redirects, timeouts and retries. Any final status is an answer, not a
//   fault: the caller interprets 401, 403 and 404.
// - http_client::open opens a file and returns the byte_source for the engine. Open makes the first
//   request, so the object's size and ETag are known when open returns.
// - A fault never holds a sent header, a query or a body: faults name the object by `shown`, by
//   default url.shown().
//
// This header needs no header of Asio or Beast.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ringload/byte_source.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "remote/http/url.hpp"

namespace ringload::inline v0::remote_http {

struct header_field {
  std::string name;
  std::string value;
};

// A request before it is sent, as input of a sign_function.
struct outgoing_request {
  std::string_view method;               // "GET", "HEAD"
  const http_url& to;                    // "Host" will be to.authority().
  std::span<const header_field> fields;  // Range, If-Match...; may be signed too.
};

// Returns the fields to add to the request. An empty function adds no fields.
using sign_function = std::function<std::vector<header_field>(const outgoing_request&)>;

struct remote_object {
  http_url url;
  sign_function sign;
  std::string shown;                   // Name in faults; empty: url.shown().
  std::optional<std::uint64_t> bytes;  // Known size; another size is errc::changed_file.
  // Value of the ETag header, including the quotes. Empty: the ETag of the first answer is pinned.
  // Must be empty if a redirect hides the ETag.
  std::string etag;
  // The server redirects to another server, so the client opens at most one connection ahead of the
  // requests.
  bool moves = false;
  std::string name() const { return shown.empty() ? url.shown() : shown; }
};

struct small_request {
  remote_object object;
  bool head = false;  // Sends HEAD, whose answer has no body, instead of GET.
  // Follows redirects to any host; else only redirects to the same host, as the hub requires for
  // metadata.
  bool follows = true;
  std::uint64_t bytes_max = 1 << 20;  // Limit of the body; a longer body is a fault.
  std::vector<header_field> fields;   // Sent to every host, so fields must not hold credentials.
};

struct small_answer {
  unsigned status = 0;
  std::vector<header_field> fields;  // Names in lower case; at most header_bytes_max.
  std::string body;
  http_url from;  // Address after redirects.

  // Value of the first field of that name (lower case); null: no such field.
  const std::string* field(std::string_view name) const noexcept;
};

// Thread-safe.
class http_client {
 public:
  virtual ~http_client() = default;

  virtual result<small_answer> fetch(const small_request& request, const std::stop_token& stop) = 0;

  virtual result<std::shared_ptr<byte_source>> open(const remote_object& object,
                                                    const std::stop_token& stop) = 0;

  // Opens several objects at once. Returns one result an object.
  virtual std::vector<result<std::shared_ptr<byte_source>>> open_all(
      std::span<const remote_object> objects, const std::stop_token& stop) = 0;
};

}  // namespace ringload::inline v0::remote_http
