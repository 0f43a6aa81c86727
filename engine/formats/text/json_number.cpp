// SPDX-License-Identifier: Apache-2.0

#include "formats/text/json_number.hpp"

#include <string>

#include "base/checked.hpp"

namespace ringload::inline v0 {

namespace {

// From this absolute value on, the remaining digits of an exponent are ignored. Greater than the
// number of digits in any header.
constexpr std::int64_t exponent_max = 1'000'000'000;
constexpr std::size_t digits_max = 24;  // 2^64 and the precision of a double need fewer digits.

// The value is 0.DIGITS times ten to the power of `point`. For example, 0.00123e5 has the digits
// 123 and the point 3. Zero has no digits.
struct decimal {
  std::string digits;  // The first `digits_max` digits, without leading zeros.
  std::int64_t point = 0;
  bool negative = false;
};

std::int64_t exponent_of(std::string_view text) noexcept {
  const bool negative = text.front() == '-';
  std::int64_t exponent = 0;
  for (const char c : text) {
    if (is_digit(c) && exponent < exponent_max) exponent = exponent * 10 + (c - '0');
  }
  return negative ? -exponent : exponent;
}

decimal decimal_of(std::string_view number) {
  decimal out;
  bool after_point = false;
  for (std::size_t i = 0; i < number.size(); ++i) {
    const char c = number[i];
    if (c == '-') {
      out.negative = true;
    } else if (c == '.') {
      after_point = true;
    } else if (c == 'e' || c == 'E') {
      out.point += exponent_of(number.substr(i + 1));
      break;
    } else if (out.digits.empty() && c == '0') {
      // Each zero between the point and the first digit moves the point: 0.00123 has the point -2.
      if (after_point) --out.point;
    } else {
      if (!after_point) ++out.point;
      if (out.digits.size() < digits_max) out.digits.push_back(c);
    }
  }
  return out;
}

}  // namespace

std::optional<std::uint64_t> json_unsigned(std::string_view number) noexcept {
  std::uint64_t value = 0;
  for (const char c : number) {
    if (!is_digit(c)) return std::nullopt;
    const auto tenfold = checked_multiply(value, 10);
    const auto sum =
        tenfold ? checked_add(*tenfold, static_cast<std::uint64_t>(c - '0')) : std::nullopt;
    if (!sum) return std::nullopt;
    value = *sum;
  }
  return value;
}

bool json_exceeds_double(std::string_view number) {
  // The digits of the value halfway between the largest double and 2^1024.
  constexpr std::string_view digits_of_limit = "17976931348623158079";
  constexpr std::int64_t point_of_limit = 309;

  const decimal value = decimal_of(number);
  if (value.digits.empty() || value.point < point_of_limit) return false;
  return value.point > point_of_limit || value.digits >= digits_of_limit;
}

std::optional<std::uint64_t> json_truncated(std::string_view number) {
  constexpr std::int64_t point_max = 20;  // 2^64 - 1 has twenty digits.

  const decimal value = decimal_of(number);
  if (value.digits.empty() || value.point <= 0)
    return value.negative ? std::nullopt : std::optional<std::uint64_t>(0);
  if (value.negative || value.point > point_max) return std::nullopt;
  std::string digits = value.digits;
  digits.resize(static_cast<std::size_t>(value.point), '0');
  return json_unsigned(digits);
}

}  // namespace ringload::inline v0
