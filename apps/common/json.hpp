// SPDX-License-Identifier: Apache-2.0
#pragma once

// Appends JSON text to a string. The functions build no tree of values, because a checkpoint may
// have a hundred thousand tensors.

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace ringload::tool {

/// The value of the field `schema_version` in every JSON output. The number increases when a field
/// is removed or changes its meaning. The number does not increase when a field is added. The
/// schemas are in apps/*/schemas.
inline constexpr std::uint64_t schema_version = 1;

/// Appends `text` as a JSON string. A file name may contain bytes that are not valid UTF-8. These
/// bytes become U+FFFD.
void append_json(std::string& to, std::string_view text);
void append_json(std::string& to, std::uint64_t number);
/// Appends a number in decimal notation, with at most nine decimal places. Infinity and NaN become
/// 0.
void append_json(std::string& to, double number);
void append_json(std::string& to, std::same_as<bool> auto truth) { to += truth ? "true" : "false"; }

/// Appends a list. There must be an overload of append_json() for the elements.
template <class List>
void append_json_list(std::string& to, const List& list) {
  to += '[';
  const char* before = "";
  for (const auto& item : list) {
    to += before;
    append_json(to, item);
    before = ", ";
  }
  to += ']';
}

/// Writes a JSON object. The constructor begins the object, and `close()` ends it.
class json_object {
 public:
  explicit json_object(std::string& to, std::string_view separator = ", ")
      : to_(to), separator_(separator) {
    to_ += '{';
  }

  template <class T>
  json_object& field(std::string_view key, const T& value) {
    append_json(key_of_next(key), value);
    return *this;
  }

  template <class List>
  json_object& list(std::string_view key, const List& values) {
    append_json_list(key_of_next(key), values);
    return *this;
  }

  /// Writes a key. The caller must append the value to the returned string.
  std::string& key_of_next(std::string_view key) {
    if (!first_) to_ += separator_;
    first_ = false;
    append_json(to_, key);
    to_ += ": ";
    return to_;
  }

  void close() { to_ += '}'; }

 private:
  std::string& to_;
  std::string_view separator_;
  bool first_ = true;
};

}  // namespace ringload::tool
