// SPDX-License-Identifier: Apache-2.0

// Writes the rows of an allocation_log as CSV.

#include <ringload/allocation_log.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <ostream>
#include <ringload/error.hpp>
#include <string>
#include <string_view>
#include <system_error>

#include "base/logged_allocation.hpp"
#include "base/printable.hpp"

#if __has_include(<execinfo.h>)
#include <execinfo.h>
#define RINGLOAD_HAS_BACKTRACE
#endif

namespace ringload::inline v0 {

namespace {

constexpr int frames_max = 64;

std::string seconds_since_1970() {
  using namespace std::chrono;
  const auto now = duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
  const std::string fraction = std::to_string(now % 1'000'000);
  return std::to_string(now / 1'000'000) + '.' + std::string(6 - fraction.size(), '0') + fraction;
}

// Formats an address as "0x7f25a1e00000".
std::string text_of(const void* address) {
  char text[2 + 2 * sizeof address + 1] = {};
  (void)std::snprintf(text, sizeof text, "0x%llx",
                      static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(address)));
  return text;
}

// Appends `text` to a quoted CSV field. Doubles the quotes in `text`.
void append_quoted(std::string& field, std::string_view text) {
  for (const char c : text) {
    if (c == '"') field += '"';
    field += c;
  }
}

// Returns the frames of the stack from the frame that has the return address `caller`.
std::string stack(const void* caller) {
  std::string text;
#ifdef RINGLOAD_HAS_BACKTRACE
  void* frames[frames_max] = {};
  const int count = ::backtrace(frames, frames_max);
  char** const names = ::backtrace_symbols(frames, count);
  if (names == nullptr) return text;
  try {
    const auto first = std::find(frames, frames + count, caller) - frames;
    for (std::ptrdiff_t i = first < count ? first : 0; i < count; ++i) {
      if (!text.empty()) text += ';';
      append_quoted(text, names[i]);
    }
  } catch (...) {
    std::free(names);
    throw;
  }
  std::free(names);
#endif
  return text;
}

}  // namespace

namespace detail {

class allocation_sink {
 public:
  explicit allocation_sink(std::ostream& to) : to_(to) {}
  explicit allocation_sink(const std::filesystem::path& file)
      : file_(file, std::ios::binary | std::ios::trunc), to_(file_) {}

  bool is_open() const { return file_.is_open(); }

  void write(const char* call, const void* address, std::uint64_t bytes,
             const void* caller) noexcept {
    try {
      const std::string columns = std::string(",") + call + ',' + text_of(address) + ',' +
                                  std::to_string(bytes) + ",\"" + stack(caller) + "\"\n";
      // The time is taken under the lock, so that the rows are sorted by time.
      const std::lock_guard lock(mutex_);
      write_text(seconds_since_1970() + columns);
    } catch (...) {
      failed = true;
    }
  }
  void write_header(const std::string& row) {
    const std::lock_guard lock(mutex_);
    write_text(row);
  }

  std::atomic<int> pauses = 0;
  std::atomic<bool> failed = false;

 private:
  void write_text(const std::string& row) {
    to_.write(row.data(), static_cast<std::streamsize>(row.size()));
    to_.flush();
    if (!to_) failed = true;
  }

  std::ofstream file_;
  std::mutex mutex_;
  std::ostream& to_;  // Guarded by the mutex.
};

}  // namespace detail

namespace {

constexpr const char* csv_columns = "timestamp,call,pointer,size,stack\n";

}  // namespace

allocation_log::allocation_log(std::string_view file) {
  // Opening a FIFO would block until another process reads the FIFO.
  std::error_code unknown;
  const auto status = std::filesystem::status(std::filesystem::path(file), unknown);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw error(errc::not_a_regular_file, printable_path(file),
                "the path exists, expected a regular file or a new file");
  }
  errno = 0;
  sink_ = std::make_shared<detail::allocation_sink>(std::filesystem::path(file));
  if (!sink_->is_open()) {
    throw error({errno == 0 ? EIO : errno, boost::system::system_category()}, std::string(file),
                "the allocation log cannot be written");
  }
  sink_->write_header(csv_columns);
}

allocation_log::allocation_log(std::ostream& sink)
    : sink_(std::make_shared<detail::allocation_sink>(sink)) {
  sink_->write_header(csv_columns);
}

bool allocation_log::failed() const noexcept { return sink_ && sink_->failed; }

allocation_log::pause::pause(const allocation_log& log) noexcept : sink_(log.sink_) {
  if (sink_) ++sink_->pauses;
}

allocation_log::pause::~pause() {
  if (sink_) --sink_->pauses;
}

// The next two functions are not inlined, so their return addresses are in the frames of the
// callers.
[[gnu::noinline]] logged_allocation::logged_allocation(const allocation_log& log, calls names,
                                                       const void* address,
                                                       std::uint64_t bytes) noexcept
    : names_(names), address_(address), bytes_(bytes) {
  if (!log || log.sink()->pauses > 0) return;
  log_ = log.sink();
  log_->write(names_.taken, address_, bytes_, __builtin_return_address(0));
}

[[gnu::noinline]] void logged_allocation::release() noexcept {
  if (const auto log = std::exchange(log_, nullptr))
    log->write(names_.released, address_, bytes_, __builtin_return_address(0));
}

}  // namespace ringload::inline v0
