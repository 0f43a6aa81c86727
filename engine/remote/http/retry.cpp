// SPDX-License-Identifier: Apache-2.0

#include "remote/http/retry.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace ringload::inline v0::remote_http {

namespace {

using std::chrono::milliseconds;

constexpr std::int64_t seconds_max = std::int64_t{366} * 24 * 3600;

std::optional<int> number(std::string_view digits) noexcept {
  int out = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  const bool whole = read.ec == std::errc() && read.ptr == digits.data() + digits.size();
  return whole && out >= 0 && digits.front() != '-' ? std::optional(out) : std::nullopt;
}

// Converts "Sun, 06 Nov 1994 08:49:37 GMT" to seconds since 1970.
std::optional<std::int64_t> parse_date(std::string_view text) noexcept {
  constexpr std::array<std::string_view, 12> months = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  if (text.size() != 29 || text.substr(3, 2) != ", " || text.substr(25) != " GMT") return {};
  const auto month = std::ranges::find(months, text.substr(8, 3));
  const auto day = number(text.substr(5, 2));
  const auto year = number(text.substr(12, 4));
  const auto hour = number(text.substr(17, 2));
  const auto minute = number(text.substr(20, 2));
  const auto second = number(text.substr(23, 2));
  if (month == months.end() || !day || !year || !hour || !minute || !second) return {};
  const std::chrono::year_month_day date{
      std::chrono::year(*year),
      std::chrono::month(static_cast<unsigned>(month - months.begin()) + 1),
      std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return {};
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return ((days * 24 + *hour) * 60 + *minute) * 60 + *second;
}

}  // namespace

std::optional<milliseconds> retry_state::failed(
    double chance, std::optional<milliseconds> requested_delay) noexcept {
  if (++failures_ >= rules_.tries_max) return std::nullopt;
  if (requested_delay && *requested_delay > rules_.requested_max) return std::nullopt;
  const std::uint32_t doublings = std::min(failures_ - 1, 20U);
  const auto full =
      std::min<std::int64_t>(rules_.delay_max.count(), rules_.delay_first.count() << doublings);
  const auto half = static_cast<std::int64_t>(static_cast<double>(full / 2) * chance);
  // A server may send Retry-After: 0, or a date in the past because its clock is wrong.
  return std::max(milliseconds(full / 2 + half), requested_delay.value_or(milliseconds(0)));
}

std::optional<milliseconds> parse_retry_after(std::string_view text, std::int64_t now) noexcept {
  if (text.empty()) return std::nullopt;
  if (text.front() >= '0' && text.front() <= '9') {
    const bool is_number = std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number) return std::nullopt;
    const auto seconds = number(text);
    if (!seconds) return milliseconds(seconds_max * 1000);  // The number is too large.
    return milliseconds(std::min<std::int64_t>(*seconds, seconds_max) * 1000);
  }
  const auto date = parse_date(text);
  if (!date) return std::nullopt;
  return milliseconds(std::clamp<std::int64_t>(*date - now, 0, seconds_max) * 1000);
}

}  // namespace ringload::inline v0::remote_http
