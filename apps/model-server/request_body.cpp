// SPDX-License-Identifier: Apache-2.0
#include "request_body.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <boost/json/value_to.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ringload::server {

namespace json = boost::json;

namespace {

constexpr unsigned json_depth_max = 4;

// Returns the keys of the object in a valid JSON text, including repeated keys. The object of
// Boost.JSON contains a repeated key only once.
std::vector<std::string> keys_of(std::string_view text) {
  std::vector<std::string> keys;
  std::string_view string;
  unsigned depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c == '"') {
      const std::size_t begin = i;
      for (++i; text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
      }
      string = text.substr(begin, i + 1 - begin);
    }
    if (c == ':' && depth == 1) keys.push_back(json::value_to<std::string>(json::parse(string)));
  }
  return keys;
}

}  // namespace

json::object parse_request_body(std::string_view text, std::string_view required,
                                std::initializer_list<std::string_view> optional) {
  json::parse_options options;
  options.max_depth = json_depth_max;
  boost::system::error_code failed;
  json::value body = json::parse(text, failed, {}, options);
  const std::string form = "{\"" + std::string(required) + "\": \"...\"}";
  if (failed || !body.is_object()) throw std::invalid_argument("the body must be " + form);
  std::set<std::string> seen;
  for (const std::string& key : keys_of(text)) {
    if (key != required && std::ranges::find(optional, key) == optional.end()) {
      throw std::invalid_argument("unknown key \"" + key + "\"");
    }
    if (!seen.insert(key).second) throw std::invalid_argument("duplicate key \"" + key + "\"");
  }
  json::object& fields = body.get_object();
  const json::value* const value = fields.if_contains(required);
  if (value == nullptr || !value->is_string()) {
    throw std::invalid_argument("the body must be " + form);
  }
  return std::move(fields);
}

}  // namespace ringload::server
