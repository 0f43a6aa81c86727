// SPDX-License-Identifier: Apache-2.0
#include "load_request.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>
#include <stdexcept>
#include <vector>

#include "request_body.hpp"

namespace ringload::server {

namespace json = boost::json;

namespace {

// Returns the texts in the list `key`. Returns an empty list if the field is absent.
std::vector<std::string> texts_in(const json::object& fields, const char* key) {
  std::vector<std::string> out;
  const json::value* const field = fields.if_contains(key);
  if (field == nullptr) return out;
  const auto refuse = [key] {
    throw std::invalid_argument(std::string("\"") + key + "\" must be a list of strings");
  };
  if (!field->is_array()) refuse();
  for (const json::value& item : field->get_array()) {
    if (!item.is_string()) refuse();
    out.emplace_back(std::string_view(item.get_string()));
  }
  return out;
}

template <class Parse>
auto parsed_field(const char* key, const std::string& text, const Parse& parse) {
  try {
    return parse(text);
  } catch (const std::invalid_argument& wrong) {
    throw std::invalid_argument(std::string(key) + ": '" + text + "' " + wrong.what());
  }
}

// Throws std::invalid_argument.
tool::selection_text selection_in(const json::object& fields) {
  tool::selection_text out;
  out.select = texts_in(fields, "select");
  // An empty list would select all tensors.
  if (fields.contains("select") && out.select.empty()) {
    throw std::invalid_argument("\"select\" must have at least one glob");
  }
  out.except = texts_in(fields, "except");
  for (const std::string& text : texts_in(fields, "slice")) {
    out.slices.push_back(parsed_field("slice", text, tool::parse_slice));
  }
  for (const std::string& text : texts_in(fields, "shard")) {
    out.shards.push_back(parsed_field("shard", text, tool::parse_shard));
  }
  if (const json::value* experts = fields.if_contains("experts")) {
    if (!experts->is_bool()) throw std::invalid_argument("\"experts\" must be true or false");
    out.experts = experts->get_bool();
  }
  if (const json::value* rank = fields.if_contains("rank")) {
    if (!rank->is_string()) throw std::invalid_argument("\"rank\" must be a string, as \"0/4\"");
    const std::string text(std::string_view(rank->get_string()));
    out.rank = parsed_field("rank", text, tool::parse_rank);
  }
  tool::check_complete(out, "");
  return out;
}

// Returns the source in the field `key`. Refuses a source with a NUL, because a path ends at a NUL.
std::string source_in(const json::object& fields, const char* key) {
  const json::string& source = fields.at(key).get_string();
  if (source.find('\0') != json::string::npos) {
    throw std::invalid_argument(std::string("the ") + key + " holds a NUL");
  }
  return source.c_str();
}

}  // namespace

load_request parse_load_wish(std::string_view text) {
  const json::object fields = parse_request_body(
      text, "source", {"id", "select", "except", "slice", "shard", "experts", "rank"});
  load_request out{{}, load_order(source_in(fields, "source"), selection_in(fields))};
  if (const json::value* id = fields.if_contains("id")) {
    if (!id->is_string() || !is_model_id(std::string_view(id->get_string()))) {
      throw std::invalid_argument("an id is 1 to 64 letters, digits, dots, dashes and underscores");
    }
    out.id = id->get_string().c_str();
  }
  return out;
}

std::string parse_version_wish(std::string_view text) {
  return source_in(parse_request_body(text, "delta", {}), "delta");
}

}  // namespace ringload::server
