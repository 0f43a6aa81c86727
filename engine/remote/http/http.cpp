// SPDX-License-Identifier: Apache-2.0
#include "remote/http/http.hpp"

#include <algorithm>

namespace ringload::inline v0::remote_http {

std::string_view name(http_method method) noexcept {
  switch (method) {
    case http_method::head: return "HEAD";
    case http_method::put: return "PUT";
    case http_method::post: return "POST";
    case http_method::remove: return "DELETE";
    default: return "GET";
  }
}

const std::string* small_response::field(std::string_view name) const noexcept {
  const auto found = std::ranges::find(fields, name, &header_field::name);
  return found == fields.end() ? nullptr : &found->value;
}

}  // namespace ringload::inline v0::remote_http
