// SPDX-License-Identifier: Apache-2.0
#include "json_schema.hpp"

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>

namespace {

namespace json = boost::json;

json::value file_of(const std::string& path) {
  std::ifstream in(path);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw std::runtime_error(path + ": cannot be read");
  return json::parse(text);
}

[[noreturn]] void refuse(const std::string& place, const std::string& rule) {
  throw std::runtime_error((place.empty() ? "the whole" : place) + ": " + rule);
}

bool has_type(const json::value& value, std::string_view type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_bool();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  if (type == "integer") return value.is_int64() || value.is_uint64();
  throw std::runtime_error("unknown type " + std::string(type));
}

class schema_file {
 public:
  explicit schema_file(std::string path) : path_(std::move(path)), root_(file_of(path_)) {}

  void check(const json::value& value) const { check(value, root_, {}); }

 private:
  void check(const json::value& value, const json::value& schema, const std::string& place) const {
    for (const auto& [keyword, rule] : schema.as_object()) {
      check_keyword(value, schema.as_object(), keyword, rule, place);
    }
  }

  void check_keyword(const json::value& value, const json::object& schema, std::string_view keyword,
                     const json::value& rule, const std::string& place) const {
    constexpr std::array<std::string_view, 4> notes = {"$schema", "title", "description", "$defs"};
    if (std::ranges::find(notes, keyword) != notes.end()) return;
    if (keyword == "type") {
      const json::array types = rule.is_array() ? rule.as_array() : json::array{rule};
      if (std::ranges::none_of(types,
                               [&](const auto& t) { return has_type(value, t.as_string()); }))
        refuse(place, json::serialize(value) + " is not of the type " + json::serialize(rule));
    } else if (keyword == "const") {
      if (value != rule) refuse(place, json::serialize(value) + " is not " + json::serialize(rule));
    } else if (keyword == "enum") {
      if (std::ranges::find(rule.as_array(), value) == rule.as_array().end())
        refuse(place, json::serialize(value) + " is none of " + json::serialize(rule));
    } else if (keyword == "minimum") {
      if (value.is_number() && value.to_number<double>() < rule.to_number<double>())
        refuse(place, json::serialize(value) + " is below " + json::serialize(rule));
    } else if (keyword == "required") {
      for (const json::value& key : rule.as_array()) {
        if (value.is_object() && !value.as_object().contains(key.as_string()))
          refuse(place, "has no field " + json::serialize(key));
      }
    } else if (keyword == "properties") {
      if (value.is_object()) check_properties(value.as_object(), rule.as_object(), place);
    } else if (keyword == "additionalProperties") {
      if (value.is_object()) check_others(value.as_object(), schema, rule, place);
    } else if (keyword == "items") {
      if (!value.is_array()) return;
      std::size_t index = 0;
      for (const json::value& item : value.as_array()) {
        check(item, rule, place + "[" + std::to_string(index++) + "]");
      }
    } else if (keyword == "$ref") {
      check_reference(value, std::string(rule.as_string()), place);
    } else {
      throw std::runtime_error(path_ + ": unknown keyword " + std::string(keyword));
    }
  }

  void check_properties(const json::object& value, const json::object& rules,
                        const std::string& place) const {
    for (const auto& [key, rule] : rules) {
      if (const json::value* found = value.if_contains(key)) {
        check(*found, rule, place + "." + std::string(key));
      }
    }
  }

  void check_others(const json::object& value, const json::object& schema, const json::value& rule,
                    const std::string& place) const {
    const json::value* listed = schema.if_contains("properties");
    for (const auto& [key, field] : value) {
      if (listed && listed->as_object().contains(key)) continue;
      const std::string inner = place + "." + std::string(key);
      if (rule.is_object()) {
        check(field, rule, inner);
      } else if (!rule.as_bool()) {
        refuse(inner, "the schema does not have this field");
      }
    }
  }

  void check_reference(const json::value& value, const std::string& reference,
                       const std::string& place) const {
    constexpr std::string_view here = "#/$defs/";
    if (reference.starts_with(here)) {
      check(value, root_.at("$defs").at(reference.substr(here.size())), place);
    } else {
      const schema_file other(path_.substr(0, path_.rfind('/') + 1) + reference);
      other.check(value, other.root_, place);
    }
  }

  std::string path_;
  json::value root_;
};

}  // namespace

void validate(const json::value& value, const std::string& path) { schema_file(path).check(value); }
