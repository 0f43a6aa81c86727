// SPDX-License-Identifier: Apache-2.0

#include "io/direct_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "base/file_io.hpp"
#include "base/io_unit.hpp"

namespace ringload::inline v0 {

namespace {

constexpr long tmpfs_magic = 0x01021994;
constexpr long ramfs_magic = 0x858458f6;

// Returns the reason if statx reports that direct reads of this file are impossible, or that direct
// reads need more alignment than block_bytes. Otherwise returns an empty string, and sets
// `address_alignment` if statx reports the alignment. Many NVMe drives report 4.
std::string alignment_refusal(int fd, std::uint32_t& address_alignment) {
  struct ::statx answer = {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &answer) != 0) return {};
  // The kernel is older than Linux 6.1, or the alignment is not known.
  if ((answer.stx_mask & STATX_DIOALIGN) == 0) return {};
  const std::uint32_t memory = answer.stx_dio_mem_align;
  const std::uint32_t offset = answer.stx_dio_offset_align;
  if (memory == 0 || offset == 0) {
    return "the kernel would read this file through the page cache (statx: no direct alignment)";
  }
  if (memory > block_bytes || offset > block_bytes) {
    return "direct reads of this file need an alignment of more than 4,096 bytes";
  }
  address_alignment = memory;
  return {};
}

std::string file_system_refusal(int fd) {
  struct ::statfs file_system = {};
  if (::fstatfs(fd, &file_system) != 0) return {};
  if (file_system.f_type == tmpfs_magic || file_system.f_type == ramfs_magic) {
    return "the files of this file system are in memory";
  }
  return {};
}

// Returns 0, or the errno of a direct read of the first block.
int try_reading(int fd, ::dev_t device, const header_reads& trial) {
  alignas(block_bytes) static thread_local std::array<std::byte, block_bytes> block;
  if (trial.reader) {
    const auto arrived = trial.reader->read(fd, device, 0, block, *trial.counts);
    if (arrived) return 0;
    const int failed = arrived.error().code.value();
    if (failed != EAGAIN) return failed;  // EAGAIN: no thread of the reader is free.
  }
  const ::ssize_t got = uninterrupted([fd] { return ::pread(fd, block.data(), block.size(), 0); });
  return got < 0 ? errno : 0;
}

}  // namespace

std::optional<std::string> direct_files::known_refusal(::dev_t device) {
  const std::lock_guard lock(mutex_);
  const auto found = refusals_.find(device);
  return found == refusals_.end() ? std::nullopt : std::optional(found->second);
}

result<direct_files::opened> direct_files::open(int buffered, const std::string& path,
                                                std::uint64_t file_bytes, access mode,
                                                distant_file distant) {
  if (file_bytes == 0) return opened{unique_fd(), "the file is empty"};
  if (auto refusal = file_system_refusal(buffered); !refusal.empty())
    return opened{unique_fd(), refusal};
  std::uint32_t address_alignment = direct_address_alignment;
  if (auto refusal = alignment_refusal(buffered, address_alignment); !refusal.empty()) {
    return opened{unique_fd(), refusal};
  }

  // Opens the file of `buffered` through /proc, because `path` may name another file now.
  const int access_mode = mode == access::write ? O_RDWR : O_RDONLY;
  const int flags = access_mode | O_CLOEXEC | O_DIRECT | O_NONBLOCK | O_NOCTTY;
  unique_fd fd = std::move(distant.fd);
  if (!fd) fd = unique_fd(::open(("/proc/self/fd/" + std::to_string(buffered)).c_str(), flags));
  if (!fd && errno == ENOENT) fd = unique_fd(::open(path.c_str(), flags));
  if (!fd) {
    if (errno == EINVAL) return opened{unique_fd(), "the file system refuses O_DIRECT"};
    // The caller may have received the descriptor from a process with other rights.
    if (errno == EACCES || errno == EPERM) {
      return opened{unique_fd(), "the file may not be opened again for direct reads"};
    }
    return fault{system_code(errno), {}};
  }
  struct ::stat before = {};
  struct ::stat after = {};
  if (::fstat(buffered, &before) != 0 || ::fstat(fd.get(), &after) != 0) {
    return fault{system_code(errno), {}};
  }
  if (before.st_dev != after.st_dev || before.st_ino != after.st_ino) {
    return fault{errc::changed_file, {}, "the file was replaced while it was opened"};
  }
  // With O_NONBLOCK, reads by io_uring would fail with EAGAIN instead of waiting.
  if (::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) return fault{system_code(errno), {}};

  std::optional<std::string> known = known_refusal(after.st_dev);
  if (!known) {
    // The mutex is not held, because the trial read may wait for the server of a mount. Two threads
    // may make the trial for the same file system.
    const int failed = distant.was_read ? 0 : try_reading(fd.get(), after.st_dev, distant.trial);
    std::string refusal;
    if (failed != 0) refusal = "a direct read was refused: " + system_code(failed).message();
    // Only EINVAL and EOPNOTSUPP apply to all files of the file system. Any other error, such as
    // EIO, can be limited to this file.
    const bool is_final = failed == 0 || failed == EINVAL || failed == EOPNOTSUPP;
    if (!is_final) return opened{unique_fd(), refusal};
    const std::lock_guard lock(mutex_);
    known = refusals_.emplace(after.st_dev, std::move(refusal)).first->second;
  }
  if (!known->empty()) return opened{unique_fd(), *known};
  return opened{std::move(fd), {}, address_alignment};
}

}  // namespace ringload::inline v0
