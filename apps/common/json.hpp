// SPDX-License-Identifier: Apache-2.0
#pragma once

// Appends JSON to a string as it is written, without building a tree: a checkpoint may have a
// hundred thousand tensors.

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace ringload::tool {

/// Appends `text` in quotes. Bytes that are not UTF-8, which file names may hold, become U+FFFD.
void append_json(std::string& to, std::string_view text);
void append_json(std::string& to, std::uint64_t number);
/// In plain decimal, to nine places. Infinity and NaN become 0.
void append_json(std::string& to, double number);
void append_json(std::string& to, std::same_as<bool> auto truth) { to += truth ? "true" : "false"; }

/// Any list of values that append_json takes.
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

/// One object, from its construction to `close()`.
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

  /// Writes the key, for a value that the caller appends to what this returns.
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
