// SPDX-License-Identifier: Apache-2.0
#include "source/regular_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "formats/safetensors.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::uint64_t index_bytes_max = 100'000'000;  // As for a header: nothing real comes near.
constexpr std::uint64_t pointer_bytes_max = 1024;       // git-lfs pointers have about 130.
constexpr std::string_view pointer_begin = "version https://git-lfs";

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

std::string_view text_of(const std::vector<std::byte>& bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

result<void> refuse_pointer(const regular_file& file) {
  if (file.bytes > pointer_bytes_max || file.bytes < pointer_begin.size()) return {};
  auto begin = read_bytes(file, 0, pointer_begin.size());
  if (!begin) return begin.error();
  if (text_of(*begin) != pointer_begin) return {};
  return fault{errc::not_a_checkpoint, "",
               "this is a git-lfs pointer and not the file itself: `git lfs pull` would fetch it"};
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

result<file_entries> read_entries(const regular_file& file, profile strictness) {
  if (auto kind = refuse_pointer(file); !kind) return kind.error();
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
  if (auto kind = refuse_pointer(file); !kind) return kind.error();
  if (file.bytes > index_bytes_max) {
    return fault{errc::malformed_index, "",
                 "the index has " + grouped(file.bytes) + " bytes, and no more than " +
                     grouped(index_bytes_max) + " are allowed"};
  }
  return read_bytes(file, 0, static_cast<std::size_t>(file.bytes));
}

}  // namespace ringload::inline v0
