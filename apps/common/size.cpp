// SPDX-License-Identifier: Apache-2.0
#include "size.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <limits>

namespace ringload::tool {

namespace {

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

std::optional<std::uint64_t> times(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// Returns the number of bytes of a unit, such as "K" or "MB".
std::optional<std::uint64_t> unit_of(std::string_view suffix) {
  if (suffix.empty()) return 1;
  std::string lower;
  for (char c : suffix) lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (lower == "b") return 1;

  const std::size_t power = std::string_view("kmgt").find(lower[0]);
  if (power == std::string_view::npos) return std::nullopt;
  const std::string_view rest = std::string_view(lower).substr(1);
  if (rest != "" && rest != "b" && rest != "ib") return std::nullopt;
  const std::uint64_t step = rest == "b" ? 1000 : 1024;
  std::uint64_t unit = step;
  for (std::size_t i = 0; i < power; ++i) unit *= step;
  return unit;
}

// Returns the number of bytes of "0.<digits>" units. The product fits in 64 bits: at most six
// digits, times a unit of at most 2^40.
std::optional<std::uint64_t> fraction_of(std::string_view digits, std::uint64_t unit) {
  if (digits.empty() || digits.size() > 6) return std::nullopt;
  const auto number = parse_number(digits);
  if (!number) return std::nullopt;
  std::uint64_t divisor = 1;
  for (std::size_t i = 0; i < digits.size(); ++i) divisor *= 10;
  return *number * unit / divisor;
}

}  // namespace

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc() || stopped != end) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  const std::size_t digits_end = text.find_first_not_of("0123456789.");
  const std::string_view digits = text.substr(0, digits_end);
  const auto unit =
      unit_of(digits_end == std::string_view::npos ? std::string_view() : text.substr(digits_end));
  const std::size_t point = digits.find('.');
  const auto whole = parse_number(digits.substr(0, point));
  if (!unit || !whole) return std::nullopt;

  const auto bytes = times(*whole, *unit);
  if (!bytes) return std::nullopt;
  if (point == std::string_view::npos) return bytes;
  const auto fraction = fraction_of(digits.substr(point + 1), *unit);
  if (!fraction || *fraction > no_limit - *bytes) return std::nullopt;
  return *bytes + *fraction;
}

std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t position = digits.size(); position > 3;) {
    position -= 3;
    digits.insert(position, 1, ',');
  }
  return digits;
}

std::string counted(std::uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(number), noun, number == 1 ? "" : "s");
}

std::string binary_size(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array<const char*, 6> units = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // The limit is 1,023.95, because a larger value would be rounded to 1024.0.
  for (; value >= 1023.95 && unit + 1 < units.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string both_sizes(std::uint64_t bytes) {
  const std::string exact = counted(bytes, "byte");
  return bytes < 1024 ? exact : fmt::format("{} ({})", exact, binary_size(bytes));
}

}  // namespace ringload::tool
