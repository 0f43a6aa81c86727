// SPDX-License-Identifier: Apache-2.0

#include "remote/cache/cache_io.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <vector>

#include "base/file_io.hpp"
#include "base/printable.hpp"
#include "base/unique_fd.hpp"

namespace ringload::inline v0::remote_http {

namespace {

constexpr std::size_t compare_buffer_bytes = std::size_t{1} << 20;
constexpr std::uint64_t small_text_bytes_max = std::uint64_t{8} << 20;

// Returns a name in the same folder. The name is unique, because several loads and threads may
// replace the same file at the same time.
std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> count = 0;
  return path + "." + std::to_string(::getpid()) + "." + std::to_string(count.fetch_add(1)) +
         ".tmp";
}

}  // namespace

fault system_fault(int error_number, const std::string& path) {
  return {system_code(error_number), printable_path(path)};
}

result<void> make_folders(const std::filesystem::path& path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code) return system_fault(code.value(), path.native());
  return {};
}

result<void> read_all(int fd, std::span<std::byte> into, std::uint64_t offset) {
  const auto count = read_fully(fd, offset, into);
  if (!count) return count.error();
  return *count == into.size() ? result<void>() : fault{errc::truncated_file, ""};
}

result<void> compare_all(int fd, std::span<const std::byte> expected, std::uint64_t offset) {
  std::vector<std::byte> buffer(std::min<std::size_t>(expected.size(), compare_buffer_bytes));
  while (!expected.empty()) {
    const auto part = std::span(buffer).first(std::min(buffer.size(), expected.size()));
    if (auto status = read_all(fd, part, offset); !status) return status;
    if (!std::ranges::equal(part, expected.first(part.size()))) {
      return fault{errc::changed_file, "",
                   "the received bytes differ from the cached bytes of the same range"};
    }
    offset += part.size();
    expected = expected.subspan(part.size());
  }
  return {};
}

std::string read_text(const std::string& path) {
  const unique_fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct ::stat status = {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return {};
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes > small_text_bytes_max) return {};
  std::string out(bytes, '\0');
  if (!read_all(fd.get(), std::as_writable_bytes(std::span(out)), 0)) return {};
  return out;
}

result<void> replace_text(const std::string& path, std::string_view text) {
  const std::string fresh = temporary_name(path);
  const unique_fd fd(
      ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, cache_file_mode));
  if (!fd) return system_fault(errno, fresh);
  auto written = write_fully(fd.get(), 0, std::as_bytes(std::span(text)));
  if (written && ::rename(fresh.c_str(), path.c_str()) != 0) {
    written = fault{system_code(errno), ""};
  }
  if (written) return {};
  ::unlink(fresh.c_str());
  return written.error().in(printable_path(path));
}

result<void> replace_symlink(const std::string& path, const std::string& target) {
  const std::string fresh = temporary_name(path);
  ::unlink(fresh.c_str());
  if (::symlink(target.c_str(), fresh.c_str()) != 0) return system_fault(errno, path);
  if (::rename(fresh.c_str(), path.c_str()) == 0) return {};
  const int error_number = errno;
  ::unlink(fresh.c_str());
  return system_fault(error_number, path);
}

}  // namespace ringload::inline v0::remote_http
