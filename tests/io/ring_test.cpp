// SPDX-License-Identifier: Apache-2.0
#include "io/ring/ring.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/mapping.hpp"
#include "base/unique_fd.hpp"
#include "io/turned_ring.hpp"
#include "support/noise_file.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

struct file_on_disk {
  explicit file_on_disk(std::uint64_t bytes) : path(folder.path() / "noise") {
    write_noise(path, bytes);
    // A direct read would first have to write the file back.
    make_cold(open_file(path).get());
  }
  temporary_folder folder;
  std::filesystem::path path;
};

mapping memory_of(std::uint64_t bytes) { return mapping::make(bytes, page_kind::small).value(); }

// A read of a pipe stays in the kernel until bytes are written to the pipe.
struct pipe_ends {
  pipe_ends() {
    std::array<int, 2> ends = {};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    out = unique_fd(ends[0]);
    in = unique_fd(ends[1]);
  }
  void say(const std::string& text) const {
    REQUIRE(::write(in.get(), text.data(), text.size()) == static_cast<::ssize_t>(text.size()));
  }
  unique_fd out;
  unique_fd in;
};

}  // namespace

TEST_CASE("ring: reads what the page cache has") {
  turned_ring r(4);
  if (!r) return;
  const file_on_disk file(100'000);
  const unique_fd fd = open_file(file.path);
  const mapping into = memory_of(65'536);
  for (const bool by_kernel_worker : {false, true}) {
    CAPTURE(by_kernel_worker);
    std::ranges::fill(into.span(), std::byte{0});
    CHECK(r.read({fd.get(), into.data(), 65'536, 12'345, -1, by_kernel_worker}) == 65'536);
    CHECK(is_noise(into.span(), 12'345));
  }
}

TEST_CASE("ring: reads from the drive, past the page cache") {
  turned_ring r(4);
  if (!r) return;
  const file_on_disk file(1 << 20);
  const unique_fd fd(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
  if (!fd) return skip("the build tree's file system has no O_DIRECT");
  const mapping into = memory_of(1 << 20);
  CHECK(r.read(plain_read(fd.get(), into.data(), 1 << 20, 0)) == 1 << 20);
  CHECK(is_noise(into.span().first(1 << 20), 0));
  CHECK(r.read(plain_read(fd.get(), into.data(), 8192, 40'960)) == 8192);
  CHECK(is_noise(into.span().first(8192), 40'960));
}

TEST_CASE("ring: a read over the end of the file brings what there is, one behind it nothing") {
  turned_ring r(4);
  if (!r) return;
  const file_on_disk file(5000);
  const mapping into = memory_of(8192);
  for (const int flags : {O_RDONLY, O_RDONLY | O_DIRECT}) {
    const unique_fd fd(::open(file.path.c_str(), flags | O_CLOEXEC));
    if (!fd) return skip("the build tree's file system has no O_DIRECT");
    CHECK(r.read(plain_read(fd.get(), into.data(), 8192, 0)) == 5000);
    CHECK(is_noise(into.span().first(5000), 0));
    CHECK(r.read(plain_read(fd.get(), into.data(), 4096, 4096)) == 904);
    CHECK(is_noise(into.span().first(904), 4096));
    CHECK(r.read(plain_read(fd.get(), into.data(), 4096, 8192)) == 0);
  }
}

TEST_CASE("ring: a refused read completes with -errno") {
  turned_ring r(4);
  if (!r) return;
  const file_on_disk file(8192);
  const unique_fd fd = open_file(file.path);
  const unique_fd folder = open_file(file.folder.path(), O_RDONLY | O_DIRECTORY);
  const mapping into = memory_of(4096);
  CHECK(r.read(plain_read(-1, into.data(), 4096, 0)) == -EBADF);
  CHECK(r.read(plain_read(folder.get(), into.data(), 4096, 0)) == -EISDIR);
  CHECK(r.read(plain_read(fd.get(), nullptr, 4096, 0)) == -EFAULT);
  // The ring still works.
  CHECK(r.read(plain_read(fd.get(), into.data(), 4096, 0)) == 4096);
  CHECK(r->in_kernel() == 0);
}

TEST_CASE("ring: reads into registered buffers, each within its own") {
  turned_ring r(4);
  if (!r) return;
  const file_on_disk file(64 * 1024);
  const unique_fd fd = open_file(file.path);
  const mapping first = memory_of(8192);
  const mapping second = memory_of(16'384);
  REQUIRE_FALSE(populate(first.span()));
  REQUIRE_FALSE(populate(second.span()));
  if (const auto refused = r->open_buffers(2)) return skip(refused.message());
  if (const auto refused = r->register_buffer(0, {first.data(), 8192})) {
    return skip(refused.message());
  }

  CHECK(r.read({fd.get(), first.data(), 8192, 4096, 0, false}) == 8192);
  CHECK(is_noise(first.span(), 4096));
  // The second buffer has no memory yet.
  CHECK(r.read({fd.get(), second.data(), 8192, 20'000, 1, true}) == -EFAULT);
  REQUIRE_FALSE(r->register_buffer(1, {second.data(), 16'384}));
  CHECK(r.read({fd.get(), second.data() + 4096, 8192, 20'000, 1, true}) == 8192);
  CHECK(is_noise(second.span().subspan(4096, 8192), 20'000));
  // The memory of the second buffer is not part of the first.
  CHECK(r.read({fd.get(), second.data(), 4096, 0, 0, false}) == -EFAULT);
  CHECK(r.read({fd.get(), first.data(), 4096, 0, 2, false}) == -EFAULT);
  CHECK(r->register_buffer(2, {second.data(), 16'384}));
  // Reads without a registered buffer still work.
  CHECK(r.read(plain_read(fd.get(), second.data(), 4096, 0)) == 4096);
}

TEST_CASE("ring: a refused registration leaves a ring that reads") {
  turned_ring r(4);
  if (!r) return;
  // The kernel refuses a buffer of more than 1 GiB.
  const mapping large = memory_of((std::uint64_t{1} << 30) + huge_page_bytes);
  if (const auto refused = r->open_buffers(1)) return skip(refused.message());
  CHECK(r->register_buffer(0, {large.data(), large.bytes()}) == system_code(EFAULT));

  const file_on_disk file(4096);
  const unique_fd fd = open_file(file.path);
  CHECK(r.read(plain_read(fd.get(), large.data(), 4096, 0)) == 4096);
  CHECK(is_noise(large.span().first(4096), 0));
}

TEST_CASE("ring: never completes inside start") {
  turned_ring r(4);
  if (!r) return;
  const file_on_disk file(4096);
  const unique_fd fd = open_file(file.path);
  const mapping into = memory_of(4096);
  answer good;
  answer bad;
  r->start(plain_read(fd.get(), into.data(), 4096, 0), good);
  r->start(plain_read(-1, into.data(), 4096, 0), bad);
  CHECK(good.times == 0);
  CHECK(bad.times == 0);
  r.turn_until_answered(good);
  r.turn_until_answered(bad);
  r.loop.poll();
  CHECK(good.times == 1);
  CHECK(bad.times == 1);
}

TEST_CASE("ring: reads of one iteration are submitted together, and complete one by one") {
  turned_ring r(4);
  if (!r) return;
  std::array<pipe_ends, 3> pipes;
  std::array<answer, 3> answers;
  std::array<std::array<char, 8>, 3> into = {};
  for (std::size_t i = 0; i < 3; ++i) {
    r->start(plain_read(pipes[i].out.get(), into[i].data(), 8, 0), answers[i]);
  }
  CHECK(r->in_kernel() == 0);
  r.loop.run_one();
  CHECK(r->in_kernel() == 3);
  CHECK(r->longest_submit_nanoseconds() > 0);

  for (const std::size_t i : {2U, 0U, 1U}) {
    const unsigned before = r->in_kernel();
    pipes[i].say("word");
    r.turn_until_answered(answers[i]);
    CHECK(answers[i].res == 4);
    CHECK(std::string(into[i].data(), 4) == "word");
    CHECK(r->in_kernel() == before - 1);
  }
}

namespace {

// Reads its part of the file block by block. Each completion starts the next read.
struct chain : io_completion {
  chain(ring& r, int f, std::uint64_t from, std::uint64_t to)
      : with(r), fd(f), at(from), end(to), into(memory_of(4096)) {
    done = [](io_completion& self, int got) { static_cast<chain&>(self).arrived(got); };
  }
  void start() { with.start(plain_read(fd, into.data(), 4096, at), *this); }
  void arrived(int got) {
    good = good && got == 4096 && is_noise(into.span(), at);
    most_in_kernel = std::max(most_in_kernel, with.in_kernel());
    ++reads;
    at += 4096;
    if (at < end) start();
  }
  ring& with;
  int fd;
  std::uint64_t at;
  std::uint64_t end;
  mapping into;
  bool good = true;
  unsigned reads = 0;
  unsigned most_in_kernel = 0;
};

}  // namespace

TEST_CASE("ring: many more reads than its depth pass through it over time") {
  constexpr unsigned depth = 4;
  constexpr std::uint64_t part = 256 * 4096;
  turned_ring r(depth);
  if (!r) return;
  const file_on_disk file(depth * part);
  for (const int flags : {O_RDONLY, O_RDONLY | O_DIRECT}) {
    const unique_fd fd(::open(file.path.c_str(), flags | O_CLOEXEC));
    if (!fd) return skip("the build tree's file system has no O_DIRECT");
    std::vector<std::unique_ptr<chain>> chains;
    for (unsigned i = 0; i < depth; ++i) {
      chains.push_back(std::make_unique<chain>(*r.with, fd.get(), i * part, (i + 1) * part));
      chains.back()->start();
    }
    for (const auto& c : chains) {
      while (c->at < c->end) r.loop.run_one();
    }
    for (const auto& c : chains) {
      CHECK(c->good);
      CHECK(c->reads == 256);
      CHECK(c->most_in_kernel < depth);  // Checked after one completion.
    }
    CHECK(r->in_kernel() == 0);
  }
}

TEST_CASE("ring: works with a depth of one, and one that is no power of two") {
  const file_on_disk file(8192);
  const unique_fd fd = open_file(file.path);
  const mapping into = memory_of(8192);
  for (const unsigned depth : {1U, 3U, 100U}) {
    turned_ring r(depth);
    if (!r) return;
    std::ranges::fill(into.span(), std::byte{0});
    CHECK(r.read(plain_read(fd.get(), into.data(), 4096, 0)) == 4096);
    CHECK(r.read(plain_read(fd.get(), into.data() + 4096, 4096, 4096)) == 4096);
    CHECK(is_noise(into.span(), 0));
  }
}

TEST_CASE("ring: its kernel workers can be limited") {
  turned_ring r(8);
  if (!r) return;
  r->limit_workers(1);
  const file_on_disk file(8 * 4096);
  const unique_fd fd = open_file(file.path);
  const mapping into = memory_of(8 * 4096);
  std::array<answer, 8> answers;
  for (std::uint64_t i = 0; i < 8; ++i) {
    r->start({fd.get(), into.data() + i * 4096, 4096, i * 4096, -1, true}, answers[i]);
  }
  for (const answer& a : answers) r.turn_until_answered(a);
  CHECK(is_noise(into.span(), 0));
}

TEST_CASE("ring: keeps its loop running until it is stopped") {
  turned_ring r(4);
  if (!r) return;
  r.loop.poll();
  CHECK_FALSE(r.loop.stopped());
  r->stop();
  r.loop.run();
  CHECK(r.loop.stopped());
}

TEST_CASE("ring: says with which flags it was made") {
  turned_ring r(4);
  if (!r) return;
  const std::string flags = r->flags();
  CAPTURE(flags);
  CHECK((flags == "SINGLE_ISSUER, DEFER_TASKRUN, SUBMIT_ALL" ||
         flags == "COOP_TASKRUN, SUBMIT_ALL" || flags == "SUBMIT_ALL" || flags == "no flags"));
}

TEST_CASE("set_up: an immoderate depth is cut to what the kernel has") {
  ::io_uring made = {};
  const auto setup = set_up(made, 1U << 20);
  if (!setup) return skip(message_of(setup.error()));
  CHECK(made.sq.ring_entries >= 4096);
  CHECK(made.cq.ring_entries >= made.sq.ring_entries);
  ::io_uring_queue_exit(&made);
}
