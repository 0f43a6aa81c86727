// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses a short XML document, such as a response of S3, and passes each element to a function.

#include <functional>
#include <string>
#include <string_view>

#include "base/fault.hpp"

namespace ringload::inline v0::remote_http {

struct xml_element {
  std::string_view path;  // Names from the outermost element to this element: "Error/Code".
  std::string_view text;  // UTF-8, with entities replaced. Blank if `has_children` is set.
  bool has_children = false;
};

inline constexpr unsigned xml_depth_max = 16;

// Calls `take` at the end of each element, so `take` receives children before their parent. Stops
// if `take` returns a fault. Returns malformed_answer with the byte offset if the text is not
// well-formed UTF-8 XML. A DOCTYPE, text next to child elements, and elements that are nested too
// deep are malformed_answer as well.
result<void> parse_xml(std::string_view xml,
                       const std::function<result<void>(const xml_element&)>& take);

}  // namespace ringload::inline v0::remote_http
