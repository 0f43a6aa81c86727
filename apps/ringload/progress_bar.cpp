// SPDX-License-Identifier: Apache-2.0
#include "progress_bar.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "size.hpp"

namespace ringload::tool {

namespace {

constexpr std::size_t bar_columns_max = 40;
constexpr std::size_t bar_columns_min = 5;

bool is_terminal() {
  if (::isatty(STDERR_FILENO) == 0) return false;
  const char* kind = std::getenv("TERM");
  return kind != nullptr && std::string_view(kind) != "dumb";
}

std::size_t terminal_columns() noexcept {
  ::winsize size = {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

void draw(std::string_view text) noexcept {
  // Write errors of the bar are ignored.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

std::string progress_text(std::string_view what, const progress& now, double seconds,
                          std::size_t columns) {
  // The total is 0 until the catalog is known.
  const double total = static_cast<double>(std::max<std::uint64_t>(1, now.bytes_total));
  const double share = std::min(1.0, static_cast<double>(now.bytes) / total);
  const double rate = seconds > 0 ? static_cast<double>(now.bytes) / seconds / 1e9 : 0;
  std::string text = fmt::format("{:3.0f}%  {} of {}  {:.2f} GB/s", share * 100,
                                 binary_size(now.bytes), binary_size(now.bytes_total), rate);

  // In a narrow terminal, the bar becomes shorter or is omitted.
  const std::size_t taken = what.size() + text.size() + 5;  // " [" "]  "
  if (taken + bar_columns_min <= columns) {
    const std::size_t width = std::min(bar_columns_max, columns - taken);
    const auto full = static_cast<std::size_t>(share * static_cast<double>(width));
    text = fmt::format("{} [{}{}]  {}", what, std::string(full, '#'),
                       std::string(width - full, '.'), text);
  }
  return text.substr(0, columns);
}

progress_bar::progress_bar(std::string what, bool wanted)
    : what_(std::move(what)), visible_(wanted && is_terminal()), started_(clock::now()) {}

void progress_bar::show(const progress& now) {
  if (!visible_) return;
  const auto time = clock::now();
  if (drawn_ && time - shown_ < std::chrono::milliseconds(100)) return;
  const double seconds = std::chrono::duration<double>(time - started_).count();
  // A terminal wraps a line that fills its last column.
  draw("\r\x1b[K" + progress_text(what_, now, seconds, terminal_columns() - 1));
  drawn_ = true;
  shown_ = time;
}

void progress_bar::erase() noexcept {
  if (drawn_) draw("\r\x1b[K");
  drawn_ = false;
}

}  // namespace ringload::tool
