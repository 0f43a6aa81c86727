// SPDX-License-Identifier: Apache-2.0
#pragma once

// Attributes: metadata of a checkpoint, a tensor or an object.

#include <compare>
#include <cstdint>
#include <ringload/export.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

/// The value of an attribute, with its type: any value of CBOR (RFC 8949). Formats without types
/// have text values.
class RINGLOAD_EXPORT attribute {
 public:
  attribute();  // The value null.
  attribute(std::string_view text);
  attribute(const char* text) : attribute(std::string_view(text)) {}
  attribute(const std::string& text) : attribute(std::string_view(text)) {}
  attribute(bool value);
  attribute(double value);
  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  attribute(T value)
      : attribute(value < 0, value < 0 ? ~static_cast<std::uint64_t>(value)
                                       : static_cast<std::uint64_t>(value)) {}

  /// Parses JSON text. Objects become maps in their order. Numbers without fraction and exponent
  /// become integers. Throws `errc::malformed_header`.
  static attribute json(std::string_view text);
  /// Takes CBOR, which must be exactly one complete value. Throws `errc::malformed_header`.
  static attribute cbor(std::string encoded);

  /// The value as CBOR. Two values are equal if their CBOR is equal.
  const std::string& encoded() const noexcept { return encoded_; }
  /// The text if `is_text()`; otherwise the value as JSON text, with byte strings in hexadecimal.
  const std::string& text() const noexcept { return text_; }
  bool is_text() const noexcept { return is_text_; }

  friend bool operator==(const attribute& a, const attribute& b) noexcept {
    return a.encoded_ == b.encoded_;
  }
  friend std::strong_ordering operator<=>(const attribute& a, const attribute& b) noexcept {
    return a.encoded_ <=> b.encoded_;
  }

 private:
  attribute(bool negative, std::uint64_t argument);

  std::string encoded_;
  std::string text_;
  bool is_text_ = false;
};

/// Keys and their values, in the order of the file.
using attributes = std::vector<std::pair<std::string, attribute>>;

}  // namespace ringload::inline v0
