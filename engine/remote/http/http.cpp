// SPDX-License-Identifier: Apache-2.0
#include "remote/http/http.hpp"

#include <algorithm>

namespace ringload::inline v0::remote_http {

const std::string* small_answer::field(std::string_view name) const noexcept {
  const auto at = std::ranges::find(fields, name, &header_field::name);
  return at == fields.end() ? nullptr : &at->value;
}

}  // namespace ringload::inline v0::remote_http
