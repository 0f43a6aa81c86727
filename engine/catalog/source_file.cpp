// SPDX-License-Identifier: Apache-2.0

#include "catalog/source_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/file_io.hpp"
#include "catalog/read_object.hpp"
#include "io/block_device_id.hpp"
#include "io/residency.hpp"

namespace ringload::inline v0 {

namespace {

std::string_view kind_of(mode_t mode) noexcept {
  switch (mode & S_IFMT) {
    case S_IFDIR: return "a folder";
    case S_IFIFO: return "a FIFO";
    case S_IFSOCK: return "a socket";
    case S_IFCHR: return "a character device";
    case S_IFBLK: return "a block device";
    default: return "a file of an unknown kind";
  }
}

}  // namespace

const int open_unknown_flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

result<source_file> as_regular_file(unique_fd fd) {
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return fault{system_code(errno), "fstat"};
  if (!S_ISREG(status.st_mode)) {
    return fault{errc::not_a_regular_file, "",
                 "this is " + std::string(kind_of(status.st_mode)) + " and not a regular file"};
  }
  // If a descriptor is non-blocking, reads by io_uring fail with EAGAIN instead of waiting.
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return fault{system_code(errno), "fcntl"};
  }
  source_file out = {std::move(fd), static_cast<std::uint64_t>(status.st_size)};
  out.modified = status.st_mtim;
  out.device = status.st_dev;
  out.is_distant = is_distant(out.fd.get(), status.st_dev);
  return out;
}

void read_header_with(const header_reads& headers, source_file& file) {
  if (!file.is_distant || headers.reader == nullptr) return;
  file.headers = headers;
  file.direct = header_reader::open_direct(file.fd.get());
}

void read_first_bytes(source_file& file) {
  constexpr std::size_t first_bytes_max = std::size_t{64} << 10;
  const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(file.bytes, first_bytes_max));
  if (!file.direct || residency_of(file.fd.get(), 0, bytes) == residency::cached) return;
  std::vector<std::byte> first(bytes);
  const auto arrived =
      file.headers.reader->read(file.direct.get(), file.device, 0, first, *file.headers.counts);
  file.was_read_direct = static_cast<bool>(arrived);
  if (arrived && *arrived == bytes) file.first_bytes = std::move(first);
}

result<void> read_bytes_into(int file, std::uint64_t offset, std::span<std::byte> into) {
  const auto arrived = read_fully(file, offset, into);
  if (!arrived) return arrived.error().in("byte " + grouped(offset));
  if (*arrived == into.size()) return {};
  return fault{errc::truncated_file, "byte " + grouped(offset + *arrived)};
}

result<void> read_bytes_into(const source_file& file, std::uint64_t offset,
                             std::span<std::byte> into) {
  if (file.object) {
    source_read request(offset, into);
    request.awaited = true;
    request.stop = file.stop;
    auto status = read_object(*file.object, request);
    return status ? status : status.error().in("byte " + grouped(offset));
  }
  const std::span<const std::byte> known = file.first_bytes;
  if (into.size() <= known.size() && offset <= known.size() - into.size()) {
    std::ranges::copy(known.subspan(static_cast<std::size_t>(offset), into.size()), into.begin());
    return {};
  }
  const bool is_direct = file.direct && !into.empty() &&
                         residency_of(file.fd.get(), offset, into.size()) != residency::cached;
  if (is_direct) {
    header_reader& reader = *file.headers.reader;
    const auto arrived =
        reader.read(file.direct.get(), file.device, offset, into, *file.headers.counts);
    if (arrived && *arrived == into.size()) return {};
    // A buffered read finds the end of the file, or the error of the file.
  }
  return read_bytes_into(file.fd.get(), offset, into);
}

result<std::vector<std::byte>> read_bytes(const source_file& file, std::uint64_t offset,
                                          std::size_t bytes) {
  if (offset > file.bytes || bytes > file.bytes - offset) {
    return fault{errc::truncated_file, "byte " + grouped(file.bytes)};
  }
  std::vector<std::byte> out(bytes);
  if (auto status = read_bytes_into(file, offset, out); !status) return status.error();
  return out;
}

}  // namespace ringload::inline v0
