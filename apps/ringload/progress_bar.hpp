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

/// Returns a text such as "loading [#######.....]  58%  2.3 of 4.0 GiB  5.21 GB/s", with at most
/// `columns` columns.
std::string progress_text(std::string_view what, const progress& now, double seconds,
                          std::size_t columns);

/// A line on standard error that is drawn repeatedly, and erased at the end. Draws nothing if
/// standard error is not a terminal, or if the bar is switched off.
class progress_bar {
 public:
  progress_bar(std::string what, bool wanted);
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;
  ~progress_bar() { erase(); }

  /// Draws the bar, at most ten times a second.
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
