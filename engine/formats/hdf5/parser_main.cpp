// SPDX-License-Identifier: Apache-2.0

// The code of the process that describe_in_process() starts. Parses the file and writes the message
// that pipe_protocol.hpp describes.

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <ringload/hdf5.hpp>
#include <string>
#include <string_view>

#include "formats/hdf5/describe.hpp"
#include "formats/hdf5/pipe_protocol.hpp"
#include "formats/hdf5/process.hpp"

namespace ringload::inline v0 {

namespace {

using namespace h5;

// Builds with a sanitizer have no memory limit, because the sanitizer reserves a huge range of
// addresses.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool may_limit_addresses = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool may_limit_addresses = false;
#else
constexpr bool may_limit_addresses = true;
#endif
#else
constexpr bool may_limit_addresses = true;
#endif

void limit(int resource, ::rlim_t value) noexcept {
  const ::rlimit limits = {value, value};
  ::setrlimit(static_cast<__rlimit_resource_t>(resource), &limits);
}

// Limits the memory, and forbids core dumps and writes to files. Writes to the pipe stay possible.
// The kernel kills this process if the thread that started this process ends.
void give_up_rights(std::uint64_t memory_bytes) noexcept {
  if (may_limit_addresses) limit(RLIMIT_AS, memory_bytes);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}

result<hdf5_contents> describe_within_memory() {
  try {
    return describe_file(0);
  } catch (const std::bad_alloc&) {
    return fault{errc::memory_exceeded, "",
                 "its metadata needs more memory than hdf5_process::memory_bytes_max allows"};
  }
}

bool write_all(int to, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(to, text.data(), text.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

std::optional<int> hdf5_parser_main(int argc, char** argv) {
  if (argc != 3 || std::strcmp(argv[1], process_argument) != 0) return std::nullopt;
  const std::string_view text = argv[2];
  std::uint64_t memory_bytes = 0;
  const auto [end, parse_error] =
      std::from_chars(text.data(), text.data() + text.size(), memory_bytes);
  if (parse_error != std::errc() || end != text.data() + text.size()) return 2;
  give_up_rights(memory_bytes);
  try {
    return write_all(1, encode_message(describe_within_memory())) ? 0 : 1;
  } catch (const std::bad_alloc&) {
    return 1;
  }
}

}  // namespace ringload::inline v0
