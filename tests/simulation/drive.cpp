// SPDX-License-Identifier: Apache-2.0

// The drive of the simulated world: the functions of libc that read and write files. Bytes come
// from real files. The world decides when a transfer ends, its number of bytes, and its error.

#include "drive.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <list>
#include <set>
#include <vector>

#include "devices.hpp"
#include "memory.hpp"
#include "power.hpp"
#include "real_functions.hpp"
#include "scheduler.hpp"
#include "sockets.hpp"
#include "world.hpp"

namespace ringload::simulation {

namespace {

constexpr std::uint32_t block_bytes = 512;  // The alignment that direct reads need.

struct simulated_drive {
  std::list<transfer> in_flight;
  std::set<int> direct;  // Descriptors that were opened with O_DIRECT.
  std::uint64_t transfers = 0;
  bool records_reads = false;
  std::vector<drive_read> recorded;
  std::uintptr_t next_mapping = 0x2000'0000'0000;
};

simulated_drive* drive = nullptr;

bool overlap(const transfer& a, const transfer& b) {
  return a.memory < b.memory + b.bytes && b.memory < a.memory + a.bytes;
}

bool is_misaligned(int fd, const void* memory, std::uint64_t bytes, std::uint64_t offset) {
  return drive->direct.contains(fd) &&
         (reinterpret_cast<std::uintptr_t>(memory) % block_bytes != 0 || bytes % block_bytes != 0 ||
          offset % block_bytes != 0);
}

}  // namespace

std::list<transfer>::iterator start_transfer(const transfer& started) {
  const certain_memory simulation;
  for (const transfer& other : drive->in_flight) {
    if (overlap(started, other) && !(started.is_write && other.is_write)) {
      violation("two transfers in flight use the same memory");
    }
  }
  if (devices_use(started.memory, started.bytes)) {
    violation("a transfer begins in memory that a copy of a device still uses");
  }
  ++drive->transfers;
  if (drive->records_reads && !started.is_write) {
    drive->recorded.push_back(
        {started.offset, started.bytes, is_direct_source(started.fd), started.is_by_thread});
  }
  return drive->in_flight.insert(drive->in_flight.end(), started);
}

void end_transfer(std::list<transfer>::iterator ended) { drive->in_flight.erase(ended); }

bool is_direct_source(int fd) {
  return drive->direct.contains(fd) && (::fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
}

void record_reads() {
  drive->records_reads = true;
  drive->recorded.clear();
}

std::span<const drive_read> recorded_reads() { return drive->recorded; }

std::int64_t transfer_nanoseconds() {
  // Most transfers are fast, and one in 16 takes up to 20 times as long.
  const auto most = static_cast<std::uint64_t>(settings().latency_max);
  return static_cast<std::int64_t>(1000 + random(random(16) == 0 ? 20 * most : most));
}

std::int64_t carry_out(int fd, void* memory, std::uint64_t bytes, std::uint64_t offset,
                       bool is_write) {
  if (is_misaligned(fd, memory, bytes, offset)) return -EINVAL;
  const fault_rates& faults = settings().faults;
  if (happens(is_write ? faults.write_error : faults.read_error)) {
    count_hard_fault();
    return is_write && random(2) == 0 ? -ENOSPC : -EIO;
  }
  std::uint64_t part = bytes;
  if (bytes > 1 && happens(faults.short_read)) {
    part = 1 + random(bytes - 1);
    if (drive->direct.contains(fd)) part = std::max<std::uint64_t>(part / 4096 * 4096, 4096);
    part = std::min(part, bytes);
  }
  const auto at = static_cast<off_t>(offset);
  const ssize_t done =
      is_write ? REAL(pwrite)(fd, memory, part, at) : REAL(pread)(fd, memory, part, at);
  if (is_write && done > 0) bytes_written(fd, memory, static_cast<std::uint64_t>(done), offset);
  return done < 0 ? -errno : done;
}

namespace {

// A call of pread or pwrite: the calling thread waits for the drive.
ssize_t blocking_transfer(int fd, void* memory, std::uint64_t bytes, std::uint64_t offset,
                          bool is_write) {
  turn('p');
  if (happens(settings().faults.interrupted)) {
    errno = EINTR;
    return -1;
  }
  const auto entry =
      start_transfer({fd, static_cast<const std::byte*>(memory), bytes, is_write, offset, true});
  sleep_for(transfer_nanoseconds());
  const std::int64_t result = carry_out(fd, memory, bytes, offset, is_write);
  end_transfer(entry);
  turn('P');
  if (result >= 0) return static_cast<ssize_t>(result);
  errno = static_cast<int>(-result);
  return -1;
}

// The descriptor is closed: no transfer may use it.
void check_close(int fd) {
  for (const transfer& each : drive->in_flight) {
    if (each.fd == fd) violation("a file is closed while a transfer uses it");
  }
  drive->direct.erase(fd);
  end_timer(fd);
}

int opened(int fd, int flags) {
  const certain_memory simulation;
  if (fd >= 0) {
    drive->direct.erase(fd);
    if ((flags & O_DIRECT) != 0) drive->direct.insert(fd);
    constexpr int unnamed = O_TMPFILE;
    constexpr int exclusive = O_CREAT | O_EXCL;
    if ((flags & unnamed) == unnamed || (flags & exclusive) == exclusive) file_created(fd);
  }
  return fd;
}

// Files are opened without O_DIRECT, so the folder may be on any file system.
int without_direct(int flags) { return flags & ~O_DIRECT; }

void grown(int fd, std::uint64_t bytes) {
  struct ::stat status = {};
  if (::fstat(fd, &status) == 0 && static_cast<std::uint64_t>(status.st_size) <= bytes) {
    file_resized(fd, bytes);
  }
}

int written(int result) {
  if (result == 0 && happens(settings().faults.write_error)) {
    count_hard_fault();
    errno = EIO;
    return -1;
  }
  return result;
}

}  // namespace

void begin_drive() {
  drive = new simulated_drive;
  begin_rings();
}

void end_drive() {
  if (!drive->in_flight.empty()) violation("a transfer is in flight at the end");
  end_rings();
  delete drive;
  drive = nullptr;
}

std::uint64_t reads_and_writes() { return drive->transfers; }

// cachestat(fd, {offset, bytes}, {cached, dirty, ...}, 0).
long simulated_cachestat(const long* arguments) {
  const auto* const range = reinterpret_cast<const std::uint64_t*>(arguments[1]);
  auto* const pages = reinterpret_cast<std::uint64_t*>(arguments[2]);
  std::fill_n(pages, 5, 0);
  const std::uint64_t in_range = (range[0] + range[1] + 4095) / 4096 - range[0] / 4096;
  const std::uint64_t kind = random(8);
  if (kind < 3) pages[0] = in_range;                          // All pages are cached.
  if (kind == 3) pages[0] = random(in_range + 1);             // Some are.
  if (kind == 4) pages[0] = pages[1] = 1 + random(in_range);  // Some are dirty.
  turn('r');
  return 0;
}

}  // namespace ringload::simulation

using namespace ringload::simulation;

extern "C" {

ssize_t pread(int fd, void* memory, std::size_t bytes, off_t offset) {
  if (!is_within()) return REAL(pread)(fd, memory, bytes, offset);
  return blocking_transfer(fd, memory, bytes, static_cast<std::uint64_t>(offset), false);
}

ssize_t preadv2(int fd, const iovec* parts, int count, off_t offset, int flags) {
  if (!is_within() || count != 1) return REAL(preadv2)(fd, parts, count, offset, flags);
  if (flags != 0 && random(2) == 0) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return blocking_transfer(fd, parts->iov_base, parts->iov_len, static_cast<std::uint64_t>(offset),
                           false);
}

ssize_t pwrite(int fd, const void* memory, std::size_t bytes, off_t offset) {
  if (!is_within()) return REAL(pwrite)(fd, memory, bytes, offset);
  return blocking_transfer(fd, const_cast<void*>(memory), bytes, static_cast<std::uint64_t>(offset),
                           true);
}

int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
    std::va_list list;
    va_start(list, flags);
    mode = va_arg(list, mode_t);
    va_end(list);
  }
  if (!is_within()) return REAL(open)(path, flags, mode);
  turn('o');
  return opened(REAL(open)(path, without_direct(flags), mode), flags);
}

int openat(int folder, const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
    std::va_list list;
    va_start(list, flags);
    mode = va_arg(list, mode_t);
    va_end(list);
  }
  if (!is_within()) return REAL(openat)(folder, path, flags, mode);
  turn('o');
  return opened(REAL(openat)(folder, path, without_direct(flags), mode), flags);
}

int fcntl(int fd, int command, ...) {
  std::va_list list;
  va_start(list, command);
  long argument = va_arg(list, long);
  va_end(list);
  if (is_within() && command == F_SETFL) argument &= ~static_cast<long>(O_DIRECT);
  const int result = REAL(fcntl)(fd, command, argument);
  if (is_within() && (command == F_DUPFD || command == F_DUPFD_CLOEXEC)) {
    opened(result, drive->direct.contains(fd) ? O_DIRECT : 0);
    duplicate_socket(fd, result);
  }
  return result;
}

int close(int fd) {
  if (!is_within()) return REAL(close)(fd);
  check_close(fd);
  close_socket(fd);
  const int result = REAL(close)(fd);
  turn('x');
  // A load closes its files, and then completes its waiting operations, which needs memory.
  if (settings().faults.allocation != 0 && random(4) == 0) fail_allocation_soon();
  return result;
}

// The same addresses in each run: a read of the page cache is split at huge pages.
void* mmap(void* address, std::size_t bytes, int protection, int flags, int fd,
           off_t offset) noexcept {
  if (!is_within() || address) return REAL(mmap)(address, bytes, protection, flags, fd, offset);
  constexpr std::uintptr_t huge_page_bytes = 2 << 20;
  const std::uintptr_t place = drive->next_mapping;
  drive->next_mapping += (bytes / huge_page_bytes + 2) * huge_page_bytes;
  return REAL(mmap)(reinterpret_cast<void*>(place), bytes, protection, flags | MAP_FIXED_NOREPLACE,
                    fd, offset);
}

int fsync(int fd) {
  if (!is_within()) return REAL(fsync)(fd);
  const std::uint64_t begun = sync_begun();
  sleep_for(transfer_nanoseconds());
  const int result = written(0);
  sync_ended(fd, begun, result != 0);
  return result;
}

int fdatasync(int fd) { return is_within() ? ::fsync(fd) : REAL(fdatasync)(fd); }

int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  if (is_within()) {
    turn('a');
    if (happens(settings().faults.write_error)) {
      count_hard_fault();
      errno = ENOSPC;
      return -1;
    }
  }
  const int result = REAL(fallocate)(fd, mode, offset, bytes);
  if (is_within() && result == 0) grown(fd, static_cast<std::uint64_t>(offset + bytes));
  return result;
}

int ftruncate(int fd, off_t bytes) noexcept {
  const int result = REAL(ftruncate)(fd, bytes);
  if (is_within() && result == 0) file_resized(fd, static_cast<std::uint64_t>(bytes));
  return result;
}

int rename(const char* from, const char* to) noexcept {
  if (!is_within()) return REAL(rename)(from, to);
  turn('n');
  if (written(0) != 0) return -1;
  const int result = REAL(rename)(from, to);
  if (result == 0) name_moved(from, to);
  return result;
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  const int result = REAL(renameat2)(from_folder, from, to_folder, to, flags);
  if (is_within() && result == 0) name_moved(from, to);
  return result;
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  if (!is_within()) return REAL(linkat)(from_folder, from, to_folder, to, flags);
  turn('n');
  if (written(0) != 0) return -1;
  const int result = REAL(linkat)(from_folder, from, to_folder, to, flags);
  if (result == 0) name_added(to);
  return result;
}

int unlink(const char* path) noexcept {
  const int result = REAL(unlink)(path);
  if (is_within() && result == 0) name_removed(path);
  return result;
}

// The file system of a world cannot clone files, and copies bytes only sometimes.
int ioctl(int fd, unsigned long request, ...) noexcept {
  std::va_list list;
  va_start(list, request);
  void* const argument = va_arg(list, void*);
  va_end(list);
  if (is_within() && request == FICLONE) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return REAL(ioctl)(fd, request, argument);
}

ssize_t copy_file_range(int from, off64_t* from_offset, int to, off64_t* to_offset,
                        std::size_t bytes, unsigned flags) {
  if (!is_within()) return REAL(copy_file_range)(from, from_offset, to, to_offset, bytes, flags);
  turn('k');
  errno = EXDEV;
  return -1;
}

// The file system of a world is local, also if the files are in memory and have no block device.
int fstatfs(int fd, struct statfs* answer) noexcept {
  const int result = REAL(fstatfs)(fd, answer);
  if (is_within() && result == 0) answer->f_type = 0x9123683E;  // btrfs.
  return result;
}

int statx(int folder, const char* path, int flags, unsigned mask, struct statx* answer) noexcept {
  const int result = REAL(statx)(folder, path, flags, mask, answer);
  if (is_within() && result == 0) {
    answer->stx_mask |= STATX_DIOALIGN;
    answer->stx_dio_mem_align = block_bytes;
    answer->stx_dio_offset_align = block_bytes;
  }
  return result;
}

}  // extern "C"
