// SPDX-License-Identifier: Apache-2.0
#include "source/regular_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "formats/detect.hpp"
#include "formats/safetensors.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::uint64_t index_bytes_max = 100'000'000;  // As for a header: nothing real comes near.

std::string_view kind_of(mode_t mode) noexcept {
  switch (mode & S_IFMT) {
    case S_IFDIR: return "a folder";
    case S_IFIFO: return "a FIFO";
    case S_IFSOCK: return "a socket";
    case S_IFCHR: return "a character device";
    case S_IFBLK: return "a block device";
    default: return "something else";
  }
}

// What the file looks like; its name decides only where the first bytes do not.
result<format_guess> guess_format(const regular_file& file, std::string_view name) {
  const std::uint64_t probe_bytes = std::min<std::uint64_t>(file.bytes, format_probe_bytes);
  auto first = read_bytes(file, 0, static_cast<std::size_t>(probe_bytes));
  if (!first) return first.error();
  return format_of(*first, name);
}

fault foreign(format_guess guess, std::string_view wanted) {
  std::string cause = sentence_of(guess);
  if (guess.format != file_format::git_lfs_pointer) cause += "; " + std::string(wanted);
  return {errc::not_a_checkpoint, "", std::move(cause)};
}

}  // namespace

const int open_unknown_flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

result<regular_file> as_regular_file(unique_fd fd) {
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return fault{system_code(errno), "fstat"};
  if (!S_ISREG(status.st_mode)) {
    return fault{errc::not_a_regular_file, "",
                 "this is " + std::string(kind_of(status.st_mode)) + " and not a regular file"};
  }
  // io_uring lets reads of a non-blocking descriptor fail with EAGAIN instead of waiting.
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return fault{system_code(errno), "fcntl"};
  }
  return regular_file{std::move(fd), static_cast<std::uint64_t>(status.st_size)};
}

result<std::vector<std::byte>> read_bytes(const regular_file& file, std::uint64_t offset,
                                          std::size_t bytes) {
  if (offset > file.bytes || bytes > file.bytes - offset) {
    return fault{errc::truncated_file, "byte " + grouped(file.bytes)};
  }
  std::vector<std::byte> out(bytes);
  std::size_t arrived = 0;
  while (arrived < bytes) {
    const ssize_t got = ::pread(file.fd.get(), out.data() + arrived, bytes - arrived,
                                static_cast<off_t>(offset + arrived));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fault{system_code(errno), "byte " + grouped(offset + arrived)};
    if (got == 0) return fault{errc::truncated_file, "byte " + grouped(offset + arrived)};
    arrived += static_cast<std::size_t>(got);
  }
  return out;
}

result<file_entries> read_entries(const regular_file& file, std::string_view name,
                                  profile strictness) {
  auto guess = guess_format(file, name);
  if (!guess) return guess.error();
  // What begins like nothing known may be a damaged safetensors file: its parser says what is
  // wrong.
  if (guess->format != file_format::safetensors && guess->format != file_format::unknown) {
    return foreign(*guess, "only safetensors files can be loaded");
  }
  const auto prefix_bytes =
      static_cast<std::size_t>(std::min(file.bytes, safetensors_prefix_bytes));
  auto prefix = read_bytes(file, 0, prefix_bytes);
  if (!prefix) return prefix.error();
  auto end = safetensors_header_end(*prefix, file.bytes);
  if (!end) return end.error();
  // The header lies in the file, so that no more is allocated than the file holds.

  auto header = read_bytes(file, safetensors_prefix_bytes,
                           static_cast<std::size_t>(*end - safetensors_prefix_bytes));
  if (!header) return header.error();
  return parse_safetensors(*header, file.bytes, strictness);
}

result<std::vector<std::byte>> read_index_text(const regular_file& file) {
  auto guess = guess_format(file, {});
  if (!guess) return guess.error();
  if (guess->format != file_format::json && guess->format != file_format::unknown) {
    return foreign(*guess, "a shard index is JSON text");
  }
  if (file.bytes > index_bytes_max) {
    return fault{errc::malformed_index, "",
                 "the index has " + grouped(file.bytes) + " bytes, and no more than " +
                     grouped(index_bytes_max) + " are allowed"};
  }
  return read_bytes(file, 0, static_cast<std::size_t>(file.bytes));
}

}  // namespace ringload::inline v0
