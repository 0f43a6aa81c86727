// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ringload::tool {

struct progress {
  std::uint64_t bytes = 0;
  std::uint64_t bytes_total = 0;
};

/// "loading [#######.....]  58%  2.3 of 4.0 GiB  5.21 GB/s", at most `columns` wide.
std::string progress_text(std::string_view what, const progress& now, double seconds,
                          std::size_t columns);

/// One line on standard error, drawn over itself, and gone when the bar is. It draws nothing where
/// standard error is no terminal, or where it is not wanted.
class progress_bar {
 public:
  progress_bar(std::string what, bool wanted);
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;
  ~progress_bar() { erase(); }

  /// Draws, but not more often than ten times a second.
  void show(const progress& now);
  void erase() noexcept;

  bool visible() const noexcept { return visible_; }

 private:
  using clock = std::chrono::steady_clock;

  std::string what_;
  bool visible_;
  bool drawn_ = false;
  clock::time_point started_;
  clock::time_point shown_;
};

}  // namespace ringload::tool
