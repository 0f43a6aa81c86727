// SPDX-License-Identifier: Apache-2.0
#pragma once

// What is fetched over HTTP, and by whom. Names (hf://, s3://) are made into values of this header;
// below it nobody knows what a hub or a bucket is.
//
// - A `remote_object` is an address with what authorises requests to it. A scheme that signs (AWS)
//   or has a token is a `sign_function`. It is asked anew for every request, redirected ones and
//   repeated ones too, and only for those that go to the origin of `url`; what another host is sent
//   holds no credential. It is called in a thread of the client's, must not block, and must be safe
//   to be called from several threads.
// - Small bodies (JSON of an API, XML of a listing) come by http_client::fetch, which blocks: call
//   it in byte_store::find, byte_folder::names and byte_folder::open, which are allowed to, with
//   the stop_token they get. Redirects, timeouts and retries are done by then. Any status that the
//   server stays with is an answer, not a fault: 401, 403 and 404 mean something to who asked.
// - Tensors' files are opened by http_client::open, which gives the byte_source for the engine. It
//   makes the first request, so the object's size and ETag are known when it returns.
// - Nothing of a header that was sent, of a query, or of a body appears in a fault: `shown` of the
//   object names it, by default url.shown().
//
// No header of Asio or Beast is needed here.

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

// A request that is about to be sent, for who signs it.
struct outgoing_request {
  std::string_view method;               // "GET", "HEAD"
  const http_url& to;                    // "Host" will be to.authority().
  std::span<const header_field> fields;  // Range, If-Match..., which may be signed too.
};

// The fields to be added; empty function: none.
using sign_function = std::function<std::vector<header_field>(const outgoing_request&)>;

struct remote_object {
  http_url url;
  sign_function sign;
  std::string shown;                   // What faults call it; empty: url.shown().
  std::optional<std::uint64_t> bytes;  // If known; another size is errc::changed_file.
  std::string etag;                    // As the header has it, with its quotes; empty: the first
                                       // answer's is pinned. Not where a redirect hides it.
  bool moves = false;                  // Its server sends elsewhere: no more than one connection is
                                       // made to it ahead of the requests.
  std::string name() const { return shown.empty() ? url.shown() : shown; }
};

struct small_request {
  remote_object what;
  bool head = false;                  // HEAD in place of GET: no body.
  bool follows = true;                // Redirects to any host; else only those to the same host, as
                                      // the hub wants it asked for metadata.
  std::uint64_t bytes_max = 1 << 20;  // Of the body; more is a fault.
  std::vector<header_field> fields;   // Sent as they are, to every host: no credentials.
};

struct small_answer {
  unsigned status = 0;
  std::vector<header_field> fields;  // Names in lower case; bounded as all headers are.
  std::string body;
  http_url from;  // After redirects.

  // The value of the first field of that name (lower case); null: none.
  const std::string* field(std::string_view name) const noexcept;
};

// Any thread.
class http_client {
 public:
  virtual ~http_client() = default;

  virtual result<small_answer> fetch(const small_request& what, const std::stop_token& stop) = 0;

  virtual result<std::shared_ptr<byte_source>> open(const remote_object& what,
                                                    const std::stop_token& stop) = 0;

  // The same for several at once, each with its own outcome.
  virtual std::vector<result<std::shared_ptr<byte_source>>> open_all(
      std::span<const remote_object> what, const std::stop_token& stop) = 0;
};

}  // namespace ringload::inline v0::remote_http
