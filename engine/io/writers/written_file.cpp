// SPDX-License-Identifier: Apache-2.0

#include "io/writers/written_file.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "base/checked.hpp"
#include "base/file_io.hpp"

namespace ringload::inline v0 {

namespace {

// Allocates the bytes [begin, end). If the file system cannot allocate space in advance, only sets
// the file size to `end`. Returns 0 or errno.
int allocate(int fd, std::uint64_t begin, std::uint64_t end) noexcept {
  if (begin >= end) return 0;
  const auto from = static_cast<::off_t>(begin);
  const auto bytes = static_cast<::off_t>(end - begin);
  if (uninterrupted([=] { return ::fallocate(fd, 0, from, bytes); }) == 0) return 0;
  const int failure = errno;
  if (failure != EOPNOTSUPP && failure != ENOSYS) {
    // Frees the bytes that the failed call has allocated. On ext4, the call also enlarges the file.
    [[maybe_unused]] const int unused = ::ftruncate(fd, from);
    return failure;
  }
  return ::ftruncate(fd, static_cast<::off_t>(end)) == 0 ? 0 : errno;
}

}  // namespace

result<void> check_disk_room(const std::filesystem::path& folder, std::uint64_t bytes) {
  struct ::statvfs status = {};
  // If the free space is unknown, the check succeeds, and the write is tried.
  if (::statvfs(folder.c_str(), &status) != 0 || status.f_blocks == 0) return {};
  const auto free = checked_multiply(status.f_bavail, status.f_frsize);
  if (!free || bytes <= *free) return {};
  return fault{system_code(ENOSPC), "",
               grouped(bytes) + " bytes are needed, but the file system has only " +
                   grouped(*free) + " free bytes"};
}

result<unique_fd> open_for_writing(const std::filesystem::path& path, const std::string& place) {
  unique_fd opened(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!opened) return fault{system_code(errno), place};
  return opened;
}

result<unique_fd> open_again(int fd, const std::string& place) {
  unique_fd opened(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!opened) return fault{system_code(errno), place};
  return opened;
}

result<written_file> begin_file(unique_fd file, const std::filesystem::path& path,
                                std::string place, std::uint64_t bytes, direct_files& direct) {
  written_file file_state;
  file_state.place = std::move(place);
  file_state.buffered = std::move(file);
  if (auto status = allocate_up_to(file_state, bytes); !status) return status.error();
  // `expected_bytes` must not be 0, because direct_files::open() then would not try O_DIRECT.
  const std::uint64_t expected_bytes = std::max<std::uint64_t>(bytes, 1);
  auto opened = direct.open(file_state.buffered.get(), path.native(), expected_bytes,
                            direct_files::access::write);
  if (!opened) return opened.error().in(file_state.place);
  file_state.direct = std::move(opened->fd);
  file_state.direct_refusal = std::move(opened->refusal);
  return file_state;
}

result<written_file> begin_object(byte_store& store, const target_request& request,
                                  std::string place) {
  written_file file_state;
  file_state.place = std::move(place);
  file_state.bytes = request.bytes;
  const auto created = catch_as_fault([&]() -> result<void> {
    file_state.object = store.create(request);
    if (file_state.object) return {};
    return fault{errc::unsupported_feature, "", "the store cannot write objects"};
  });
  if (!created) return created.error().in(file_state.place);
  return file_state;
}

result<void> publish_object(written_file& file) {
  auto published = catch_as_fault([&]() -> result<void> {
    file.object->publish();
    return {};
  });
  if (!published) return published.error().in(file.place);
  return published;
}

result<void> allocate_up_to(written_file& file, std::uint64_t end) {
  if (file.object) return {};
  if (const int problem = allocate(file.buffered.get(), file.bytes, end)) {
    return fault{
        system_code(problem), file.place,
        "allocating " + grouped(end - file.bytes) + " bytes: " + system_code(problem).message()};
  }
  file.bytes = std::max(file.bytes, end);
  return {};
}

result<void> sync_file(const written_file& file) {
  if (uninterrupted([&] { return ::fsync(file.buffered.get()); }) == 0) return {};
  const auto failed = system_code(errno);
  return fault{failed, file.place, "fsync: " + failed.message()};
}

}  // namespace ringload::inline v0
