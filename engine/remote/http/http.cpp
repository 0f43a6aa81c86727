// SPDX-License-Identifier: Apache-2.0
#include "remote/http/http.hpp"

#include <algorithm>

namespace ringload::inline v0::remote_http {

const std::string* small_response::field(std::string_view name) const noexcept {
  const auto found = std::ranges::find(fields, name, &header_field::name);
  return found == fields.end() ? nullptr : &found->value;
}

}  // namespace ringload::inline v0::remote_http
