// SPDX-License-Identifier: Apache-2.0

#include "base/shared_memory.hpp"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>

#include "base/checked.hpp"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

namespace ringload::inline v0 {

namespace {

constexpr int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

fault refused(const std::string& action) {
  const auto failed = system_code(errno);
  return {failed, "", action + ": " + failed.message()};
}

unique_fd make_memfd(page_kind kind) noexcept {
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  if (kind == page_kind::hugetlb) flags |= MFD_HUGETLB | MFD_HUGE_2MB;
  const int fd = ::memfd_create("ringload", flags | MFD_NOEXEC_SEAL);
  if (fd >= 0 || errno != EINVAL) return unique_fd(fd);
  return unique_fd(::memfd_create("ringload", flags));  // The kernel is older than Linux 6.3.
}

bool map_at(std::span<std::byte> place, int access, int fd) noexcept {
  void* const mapped =
      ::mmap(place.data(), place.size(), access, MAP_SHARED | MAP_FIXED, fd, ::off_t{0});
  return mapped != MAP_FAILED;
}

}  // namespace

result<shared_memory> shared_memory::make(std::uint64_t bytes, page_kind kind) {
  const std::string action = "sharing " + grouped(bytes) + " bytes of memory";
  const bool reserved = kind == page_kind::hugetlb;
  auto addresses = mapping::make(reserved ? round_up(bytes, huge_page_bytes) : bytes,
                                 reserved ? page_kind::transparent : kind);
  if (!addresses) return addresses.error();
  shared_memory shared;
  shared.memory_ = std::move(*addresses);
  shared.writing_ = make_memfd(kind);
  if (!shared.writing_) return refused(action);
  if (::ftruncate(shared.writing_.get(), static_cast<::off_t>(shared.span().size())) != 0) {
    return refused(action);
  }
  // seal() maps the memory through this read-only descriptor, because a mapping through `writing_`
  // may count as writable and prevent the seal.
  const std::string name = "/proc/self/fd/" + std::to_string(shared.writing_.get());
  shared.reading_ = unique_fd(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  if (!shared.reading_) return refused(action + ": " + name);
  if (!map_at(shared.span(), PROT_READ | PROT_WRITE, shared.writing_.get())) return refused(action);
  if (kind == page_kind::transparent && bytes >= huge_page_bytes) {
    ::madvise(shared.span().data(), shared.span().size(), MADV_HUGEPAGE);
  }
  return shared;
}

result<shared_memory> shared_memory::open_sealed(unique_fd memory, std::uint64_t bytes_max) {
  const int present_seals = ::fcntl(memory.get(), F_GET_SEALS);
  constexpr int needed = F_SEAL_WRITE | F_SEAL_SHRINK;
  if (present_seals < 0 || (present_seals & needed) != needed) {
    return fault{errc::malformed_message, "", "the received memory is not sealed"};
  }
  struct ::stat status = {};
  if (::fstat(memory.get(), &status) != 0) return refused("fstat of sealed memory");
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes == 0) return fault{errc::malformed_message, "", "the received memory is empty"};
  if (bytes > bytes_max) {
    return fault{
        errc::malformed_message, "",
        "the received memory has " + grouped(bytes) + " bytes, the limit is " + grouped(bytes_max)};
  }
  void* const address = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, memory.get(), ::off_t{0});
  if (address == MAP_FAILED) return refused("mapping " + grouped(bytes) + " bytes");
  shared_memory shared;
  shared.memory_ =
      mapping::adopt({static_cast<std::byte*>(address), static_cast<std::size_t>(bytes)});
  shared.reading_ = std::move(memory);
  return shared;
}

result<void> shared_memory::seal() {
  // The kernel refuses the seal while a writable mapping exists.
  if (!map_at(span(), PROT_READ, reading_.get()))
    return refused("mapping " + grouped(span().size()) + " bytes of memory for reading");
  if (::fcntl(writing_.get(), F_ADD_SEALS, seals) != 0) {
    const fault failure = refused("sealing " + grouped(span().size()) + " bytes of memory");
    (void)map_at(span(), PROT_READ | PROT_WRITE, writing_.get());
    return failure;
  }
  writing_ = unique_fd();
  return {};
}

}  // namespace ringload::inline v0
