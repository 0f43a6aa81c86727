// SPDX-License-Identifier: Apache-2.0
#pragma once

// The interface of the HTTP client. The stores convert names such as hf://owner/model to the types
// of this header. The client does not depend on the hub or on S3.
//
// - A `remote_object` is an address and a function that authorises requests. The `sign_function`
//   returns a signature (AWS) or a token. The client calls the function for every request to the
//   origin of `url`, including redirected and repeated requests. Requests to other origins have no
//   credentials. The function is called in threads of the client. The function must not block and
//   must be thread-safe.
// - http_client::fetch receives a small body, such as the JSON of an API or the XML of a listing.
//   fetch handles redirects, timeouts and retries, and blocks until the response is received.
//   Therefore only functions of byte_store and byte_folder that may block can call fetch. These
//   functions must pass their stop_token. A response with an error status, such as 404, is not a
//   fault, because the caller interprets the status.
// - http_client::open opens a file and returns the byte_source that loads read from. open makes the
//   first request, so the object's size and ETag are known when open returns.
// - A fault never contains a header that was sent, a query or a body. Faults name the object by
//   `shown`. If `shown` is empty, faults use url.shown().
//
// Files that include this header do not include Asio or Beast.

#include <chrono>
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

enum class http_method : std::uint8_t { get, head, put, post, remove };
std::string_view name(http_method method) noexcept;  // For example "GET".

struct header_field {
  std::string name;
  std::string value;
};

// A request that was not sent yet. Input of a sign_function.
struct outgoing_request {
  std::string_view method;  // For example "GET".
  const http_url& to;       // The Host header will be to.authority().
  // The other fields, such as Range and If-Match. The sign_function may sign these fields too.
  std::span<const header_field> fields;
  // The SHA-256 of the body as hexadecimal digits. Empty if the request has no body.
  std::string_view body_sha256 = {};
};

// Returns the fields to add to the request. If the function is empty, no fields are added.
using sign_function = std::function<std::vector<header_field>(const outgoing_request&)>;

// Called if the server refuses a request that was signed at `signed_at`. Renews the credentials.
// Returns true if requests are now signed with other credentials. Called in threads of the client.
using renew_function = std::function<bool(std::chrono::steady_clock::time_point signed_at)>;

struct remote_object {
  http_url url;
  sign_function sign;
  renew_function renew;  // Empty if credentials cannot be renewed.
  std::string shown;     // Name of the object in faults. If empty, url.shown() is used.
  // Expected size. If the server reports another size, the fault is errc::changed_file.
  std::optional<std::uint64_t> bytes;
  // Expected value of the ETag header, including the quotes. If empty, all requests expect the ETag
  // of the first response. Must be empty if the server redirects to a server that sends no ETag.
  std::string etag;
  // Set if the server redirects requests to another server. The client then opens connections in
  // advance only to the other server.
  bool moves = false;
  std::string name() const { return shown.empty() ? url.shown() : shown; }
};

struct small_response;

struct small_request {
  remote_object object;
  http_method method = http_method::get;
  // If true, follows redirects to any origin. If false, follows only redirects to the same origin,
  // and returns every other redirect as the response. Only GET and HEAD follow redirects.
  bool follows_redirects = true;
  std::uint64_t bytes_max = 1 << 20;  // Maximum size of the body. A longer body is a fault.
  // The fields must not contain credentials, because the fields are sent to every host.
  std::vector<header_field> fields;

  // The body of a PUT or POST. Must stay valid until the request has ended.
  std::span<const std::byte> body = {};
  std::string body_sha256 = {};  // Input of the sign_function. Empty if there is no body.
  // Returns true if the request must be repeated after a response with the status 200 or 400. Empty
  // means false.
  std::function<bool(const small_response&)> must_repeat = {};
  // If set, replaces client_settings::request_time_max.
  std::optional<std::chrono::milliseconds> time_max = {};
};

struct small_response {
  unsigned status = 0;
  // Names are in lower case. The whole header of a response has at most header_bytes_max bytes.
  std::vector<header_field> fields;
  std::string body;
  http_url from;  // Address after redirects.
  // True if the request was sent more than once. The server may have obeyed an earlier request,
  // whose response was lost.
  bool was_repeated = false;

  // Returns the value of the first field with that name, which must be in lower case. Returns null
  // if the response does not have the field.
  const std::string* field(std::string_view name) const noexcept;
};

// Thread-safe.
class http_client {
 public:
  virtual ~http_client() = default;

  virtual result<small_response> fetch(const small_request& request,
                                       const std::stop_token& stop) = 0;

  // Starts a request and returns. Calls `done` once, in a network thread, or in the calling thread
  // if no memory is left. `done` must not block.
  using fetch_handler = std::function<void(result<small_response>)>;
  virtual void start_fetch(small_request request, const std::stop_token& stop,
                           fetch_handler done) = 0;

  virtual result<std::shared_ptr<byte_source>> open(const remote_object& object,
                                                    const std::stop_token& stop) = 0;

  // Opens several objects at the same time. Returns one result for each object, in the same order.
  virtual std::vector<result<std::shared_ptr<byte_source>>> open_all(
      std::span<const remote_object> objects, const std::stop_token& stop) = 0;
};

}  // namespace ringload::inline v0::remote_http
