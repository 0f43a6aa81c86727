// SPDX-License-Identifier: Apache-2.0
#include "reader_threads.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "base/checked.hpp"
#include "failure.hpp"
#include "interrupts.hpp"
#include "size.hpp"

namespace ringload::bench {

namespace {

using clock = std::chrono::steady_clock;

// Drives have blocks of 512 or of 4,096 bytes.
std::uint32_t alignment_of(const cell& config) noexcept {
  if (config.by == route::buffered) return 1;
  return config.block_bytes % 4096 == 0 ? 4096 : 512;
}

// Reads one block after another in the thread itself.
class calling_member : public team_member {
 public:
  calling_member(const course& on, std::uint32_t index) : on_(on), index_(index) {}

  void read() override {
    block one;
    clock::time_point begin = clock::now();
    while (tool::interrupt_signal() == 0 && on_.blocks.next(begin, one)) {
      fill(one, on_.place(one, index_));
      const clock::time_point end = clock::now();
      if (end >= on_.blocks.counted_from()) {
        measured.latency.add(nanoseconds_between(begin, end));
        measured.bytes += one.bytes;
        ++measured.reads;
      }
      begin = end;
    }
  }

 protected:
  virtual void fill(const block& one, std::byte* into) = 0;

  const course& on_;

 private:
  const std::uint32_t index_;
};

class pread_member final : public calling_member {
 public:
  using calling_member::calling_member;

 private:
  void fill(const block& one, std::byte* into) override {
    const int fd = on_.source.files()[one.file].fd.get();
    std::uint32_t arrived = 0;
    while (arrived < one.bytes) {
      const ::ssize_t got =
          ::pread(fd, into + arrived, bytes_to_ask(on_.config, one.bytes - arrived),
                  static_cast<::off_t>(one.file_offset + arrived));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) fail_read(on_.source, one, arrived, got < 0 ? -errno : 0);
      if (arrived + static_cast<std::uint64_t>(got) >= one.bytes) return;
      ++measured.short_reads;
      ++measured.resubmits;
      arrived = resumed_from(on_.config, arrived + static_cast<std::uint32_t>(got));
    }
  }
};

class mmap_member final : public calling_member {
 public:
  using calling_member::calling_member;

  ~mmap_member() override {
    for (const view& one : views_) ::munmap(one.at, one.bytes);
  }

  void prepare() override {
    for (const target::file& one : on_.source.files()) {
      void* at = ::mmap(nullptr, one.bytes, PROT_READ, MAP_SHARED, one.fd.get(), 0);
      if (at == MAP_FAILED) fail(errno, one.path, "mmap");
      views_.push_back({at, one.bytes});
    }
  }

 private:
  struct view {
    void* at;
    std::uint64_t bytes;
  };

  void fill(const block& one, std::byte* into) override {
    std::memcpy(into, static_cast<std::byte*>(views_[one.file].at) + one.file_offset, one.bytes);
  }

  std::vector<view> views_;
};

}  // namespace

std::uint32_t bytes_to_ask(const cell& config, std::uint32_t bytes) noexcept {
  return round_up(bytes, alignment_of(config));
}

std::uint32_t resumed_from(const cell& config, std::uint32_t arrived) noexcept {
  return round_down(arrived, alignment_of(config));
}

void fail_read(const target& source, const block& one, std::uint32_t arrived, int res) {
  const std::string place =
      source.files()[one.file].path + ": byte " + tool::grouped(one.file_offset + arrived);
  if (res == 0) fail(place, "the file ends here; it was longer when it was opened");
  fail(-res, place);
}

std::unique_ptr<team_member> make_pread_member(const course& on, std::uint32_t index) {
  return std::make_unique<pread_member>(on, index);
}

std::unique_ptr<team_member> make_mmap_member(const course& on, std::uint32_t index) {
  return std::make_unique<mmap_member>(on, index);
}

}  // namespace ringload::bench
