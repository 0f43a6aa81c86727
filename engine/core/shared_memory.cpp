// SPDX-License-Identifier: Apache-2.0
#include "core/shared_memory.hpp"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>

#include "core/checked.hpp"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

namespace ringload::inline v0 {

namespace {

constexpr int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

fault refused(const std::string& what) {
  const auto failed = system_code(errno);
  return {failed, "", what + ": " + failed.message()};
}

unique_fd make_memfd(page_kind kind) noexcept {
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  if (kind == page_kind::hugetlb) flags |= MFD_HUGETLB | MFD_HUGE_2MB;
  const int made = ::memfd_create("ringload", flags | MFD_NOEXEC_SEAL);
  if (made >= 0 || errno != EINVAL) return unique_fd(made);
  return unique_fd(::memfd_create("ringload", flags));  // Before Linux 6.3.
}

bool map_at(std::span<std::byte> place, int access, int fd) noexcept {
  void* const at =
      ::mmap(place.data(), place.size(), access, MAP_SHARED | MAP_FIXED, fd, ::off_t{0});
  return at != MAP_FAILED;
}

}  // namespace

result<shared_memory> shared_memory::make(std::uint64_t bytes, page_kind kind) {
  const std::string what = "sharing " + grouped(bytes) + " bytes of memory";
  const bool reserved = kind == page_kind::hugetlb;
  auto place = mapping::make(reserved ? round_up(bytes, huge_page_bytes) : bytes,
                             reserved ? page_kind::transparent : kind);
  if (!place) return place.error();
  shared_memory made;
  made.memory_ = std::move(*place);
  made.writing_ = make_memfd(kind);
  if (!made.writing_) return refused(what);
  if (::ftruncate(made.writing_.get(), static_cast<::off_t>(made.span().size())) != 0) {
    return refused(what);
  }
  // Mappings of a descriptor that cannot write do not stand in the way of sealing.
  const std::string name = "/proc/self/fd/" + std::to_string(made.writing_.get());
  made.reading_ = unique_fd(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  if (!made.reading_) return refused(what + ": " + name);
  if (!map_at(made.span(), PROT_READ | PROT_WRITE, made.writing_.get())) return refused(what);
  if (kind == page_kind::transparent && bytes >= huge_page_bytes) {
    ::madvise(made.span().data(), made.span().size(), MADV_HUGEPAGE);
  }
  return made;
}

result<shared_memory> shared_memory::open_sealed(unique_fd memory, std::uint64_t bytes_max) {
  const int found = ::fcntl(memory.get(), F_GET_SEALS);
  constexpr int needed = F_SEAL_WRITE | F_SEAL_SHRINK;
  if (found < 0 || (found & needed) != needed) {
    return fault{errc::malformed_message, "", "the memory that came is not sealed"};
  }
  struct ::stat is = {};
  if (::fstat(memory.get(), &is) != 0) return refused("fstat of sealed memory");
  const auto bytes = static_cast<std::uint64_t>(is.st_size);
  if (bytes == 0 || bytes > bytes_max) {
    return fault{errc::malformed_message, "",
                 "the memory that came has " + grouped(bytes) + " bytes"};
  }
  void* const at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, memory.get(), ::off_t{0});
  if (at == MAP_FAILED) return refused("mapping " + grouped(bytes) + " bytes");
  shared_memory made;
  made.memory_ = mapping::of({static_cast<std::byte*>(at), static_cast<std::size_t>(bytes)});
  made.reading_ = std::move(memory);
  return made;
}

result<void> shared_memory::seal() {
  // The kernel refuses the seal as long as there is a mapping that can write.
  if (!map_at(span(), PROT_READ, reading_.get())) return refused("mapping it for reading");
  if (::fcntl(writing_.get(), F_ADD_SEALS, seals) != 0) {
    const fault why = refused("sealing " + grouped(span().size()) + " bytes of memory");
    (void)map_at(span(), PROT_READ | PROT_WRITE, writing_.get());
    return why;
  }
  writing_ = unique_fd();
  return {};
}

}  // namespace ringload::inline v0
