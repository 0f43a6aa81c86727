// SPDX-License-Identifier: Apache-2.0
#pragma once

// Attributes are the metadata of a checkpoint, a tensor or an object.

#include <compare>
#include <cstdint>
#include <ringload/export.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

/// The value of an attribute, with its type. The value can be any value of CBOR (RFC 8949). In a
/// file format that does not store types, every value is a text.
class RINGLOAD_EXPORT attribute {
 public:
  attribute();  // The value is null.
  /// The value is a text.
  attribute(std::string_view text);
  /// The value is the text before the first 0 byte.
  attribute(const char* text) : attribute(std::string_view(text)) {}
  /// The value is a text, which may contain 0 bytes.
  attribute(const std::string& text) : attribute(std::string_view(text)) {}
  /// The value is a bool.
  attribute(bool value);
  /// The value is a floating-point number.
  attribute(double value);
  /// The value is an integer.
  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  attribute(T value)
      : attribute(value < 0, value < 0 ? ~static_cast<std::uint64_t>(value)
                                       : static_cast<std::uint64_t>(value)) {}

  /// Parses JSON text. The members of an object keep their order. A number without fraction and
  /// exponent becomes an integer if the number fits in 64 bits. Every other number becomes a
  /// floating-point number. "-0" becomes -0.0. Throws `errc::malformed_header` if the text is not
  /// valid JSON, if a number exceeds the range of `double`, or if values are nested more than 64
  /// deep.
  static attribute json(std::string_view text);
  /// Creates an attribute from CBOR. `encoded` must consist of exactly one CBOR value. Throws
  /// `errc::malformed_header` if the CBOR is not valid. Throws `errc::header_not_utf8` if a text in
  /// the value is not UTF-8.
  static attribute cbor(std::string encoded);

  /// Returns the value as CBOR.
  const std::string& encoded() const noexcept { return encoded_; }
  /// Returns the text if `is_text()` is true. Otherwise returns the value as JSON text. In the JSON
  /// text, byte strings are hexadecimal.
  const std::string& text() const noexcept { return text_; }
  /// Returns true if the value is a text.
  bool is_text() const noexcept { return is_text_; }

  /// Compares the bytes of the CBOR. Therefore 1 and 1.0 differ, and two CBOR encodings of the same
  /// number differ too.
  friend bool operator==(const attribute& a, const attribute& b) noexcept {
    return a.encoded_ == b.encoded_;
  }
  /// Compares the bytes of the CBOR, so that attributes can be keys of sorted containers. The order
  /// has no other meaning.
  friend std::strong_ordering operator<=>(const attribute& a, const attribute& b) noexcept {
    return a.encoded_ <=> b.encoded_;
  }

 private:
  attribute(bool negative, std::uint64_t argument);

  std::string encoded_;
  std::string text_;
  bool is_text_ = false;
};

/// Pairs of key and value, in the order of the file.
using attributes = std::vector<std::pair<std::string, attribute>>;

}  // namespace ringload::inline v0
