// SPDX-License-Identifier: Apache-2.0

// The same cases for both queues, the ring and the threads.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <future>
#include <memory>
#include <string_view>
#include <thread>

#include "base/mapping.hpp"
#include "base/unique_fd.hpp"
#include "io/io_queue.hpp"
#include "io/pool_io.hpp"
#include "io/residency.hpp"
#include "io/ring_io.hpp"
#include "support/noise_file.hpp"
#include "support/resident.hpp"
#include "support/skip.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::uint64_t file_bytes = 300'000;

enum class engine_kind { threads, ring };

// A loop, and a queue on it.
class reading {
 public:
  explicit reading(engine_kind kind) {
    if (kind == engine_kind::threads) {
      by_ = std::make_unique<pool_io>(loop, threads_);
      return;
    }
    auto made = ring::make(loop, 8);
    if (!made) {
      skip(message_of(made.error()));
      return;
    }
    ring_ = std::move(*made);
    by_ = std::make_unique<ring_io>(*ring_);
  }
  reading(const reading&) = delete;
  reading& operator=(const reading&) = delete;
  ~reading() {
    threads_.join();
    if (ring_) ring_->stop();
    stay_.reset();
    loop.run();
  }

  // False if this machine refuses io_uring. In this case, the test has printed the reason.
  explicit operator bool() const noexcept { return by_ != nullptr; }
  io_queue& by() const noexcept { return *by_; }

  asio::io_context loop;

 private:
  // A loop that has run out of work must be restarted.
  asio::executor_work_guard<asio::io_context::executor_type> stay_{loop.get_executor()};
  threads threads_{2};
  std::unique_ptr<ring> ring_;
  std::unique_ptr<io_queue> by_;
};

asio::awaitable<void> read_into(int& res, io_queue& by, io_request what) {
  const io_request mine = what;
  const int got = co_await await_io(by, mine);
  res = got;
}

// The result that the reading coroutine receives.
int answer_to(reading& on, const io_request& what) {
  int res = INT_MIN;
  bool finished = false;
  std::exception_ptr thrown;
  asio::co_spawn(on.loop, read_into(res, on.by(), what), [&](std::exception_ptr e) {
    finished = true;
    thrown = e;
  });
  while (!finished) on.loop.run_one();
  if (thrown) std::rethrow_exception(thrown);
  return res;
}

// A file that is open for buffered and for direct reads. `direct` is empty if the file system has
// no direct reads.
struct open_noise {
  open_noise() {
    const std::filesystem::path path = folder.path() / "noise";
    write_noise(path, file_bytes);
    buffered = open_file(path);
    make_cold(buffered.get());
    direct = unique_fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
    where = open_file(folder.path(), O_RDONLY | O_DIRECTORY);
  }
  temporary_folder folder;
  unique_fd buffered;
  unique_fd direct;
  unique_fd where;
};

struct read_case {
  std::string_view name;
  bool direct;
  bool fresh;
  std::uint64_t file_offset;
  std::uint32_t bytes;
  int expected;
};

constexpr std::array<read_case, 12> cases = {{
    {"buffered, from the beginning", false, false, 0, 65'536, 65'536},
    {"buffered, unaligned", false, false, 12'345, 50'001, 50'001},
    {"buffered, one byte", false, false, 299'999, 1, 1},
    {"buffered, over the end", false, false, 290'000, 65'536, 10'000},
    {"buffered, at the end", false, false, 300'000, 4096, 0},
    {"buffered, far past the end", false, false, std::uint64_t{1} << 40, 4096, 0},
    {"buffered, into fresh memory", false, true, 4096, 262'144, 262'144},
    {"direct, from the beginning", true, false, 0, 65'536, 65'536},
    {"direct, from the middle", true, false, 135'168, 131'072, 131'072},
    {"direct, over the end", true, false, 294'912, 8192, 5088},
    {"direct, past the end", true, false, 303'104, 4096, 0},
    {"direct, into fresh memory", true, true, 0, 262'144, 262'144},
}};

void try_all_cases(engine_kind kind) {
  reading on(kind);
  if (!on) return;
  const open_noise file;
  for (const read_case& c : cases) {
    CAPTURE(c.name);
    if (c.direct && !file.direct) {
      skip("the build tree's file system has no O_DIRECT");
      continue;
    }
    auto memory = mapping::make(262'144, page_kind::small);
    REQUIRE(memory.has_value());
    if (!c.fresh) std::ranges::fill(memory->span(), std::byte{0xEE});
    io_request what;
    what.fd = c.direct ? file.direct.get() : file.buffered.get();
    what.direct = c.direct;
    what.bytes = c.bytes;
    what.file_offset = c.file_offset;
    what.memory = memory->data();
    what.fresh = c.fresh;
    CHECK(answer_to(on, what) == c.expected);
    const auto arrived = memory->span().first(static_cast<std::size_t>(c.expected));
    CHECK(is_noise(arrived, c.file_offset));
    if (!c.direct && !c.fresh && arrived.size() < memory->bytes()) {
      CHECK(memory->span()[arrived.size()] == std::byte{0xEE});
    }
  }
}

void try_all_refusals(engine_kind kind) {
  reading on(kind);
  if (!on) return;
  const open_noise file;
  const auto memory = mapping::make(8192, page_kind::small);
  REQUIRE(memory.has_value());
  io_request good;
  good.fd = file.buffered.get();
  good.bytes = 4096;
  good.memory = memory->data();

  io_request what = good;
  what.fd = -1;
  CHECK(answer_to(on, what) == -EBADF);
  what = good;
  what.fd = file.where.get();
  CHECK(answer_to(on, what) == -EISDIR);
  what = good;
  what.memory = nullptr;
  CHECK(answer_to(on, what) == -EFAULT);
  // The read continues after each error.
  CHECK(answer_to(on, good) == 4096);
  CHECK(is_noise(memory->span().first(4096), 0));
}

// An operation that stores the thread of its completion.
struct remembered : io_queue::operation {
  remembered() {
    done = [](io_completion& self, int got) {
      auto& mine = static_cast<remembered&>(self);
      mine.res = got;
      mine.answered_in = std::this_thread::get_id();
      ++mine.times;
    };
  }
  int res = INT_MIN;
  unsigned times = 0;
  std::thread::id answered_in;
};

void try_many_at_once(engine_kind kind) {
  reading on(kind);
  if (!on) return;
  const open_noise file;
  const auto memory = mapping::make(8 * 32'768, page_kind::small);
  REQUIRE(memory.has_value());
  std::array<remembered, 8> ops;
  for (std::uint32_t i = 0; i < 8; ++i) {
    ops[i].request.fd = i == 5 ? -1 : file.buffered.get();
    ops[i].request.bytes = 32'768;
    ops[i].request.file_offset = i * 32'768;
    ops[i].request.memory = memory->data() + i * 32'768;
    on.by().start(ops[i]);
    CHECK(ops[i].times == 0);
  }
  for (const remembered& op : ops) {
    while (op.times == 0) on.loop.run_one();
  }
  on.loop.poll();
  for (std::uint32_t i = 0; i < 8; ++i) {
    CAPTURE(i);
    CHECK(ops[i].times == 1);
    CHECK(ops[i].answered_in == std::this_thread::get_id());
    CHECK(ops[i].res == (i == 5 ? -EBADF : 32'768));
    if (i != 5) CHECK(is_noise(memory->span().subspan(i * 32'768, 32'768), i * 32'768));
  }
}

}  // namespace

TEST_CASE("pool_io: reads the file's bytes at any offset and length") {
  try_all_cases(engine_kind::threads);
}

TEST_CASE("ring_io: reads the file's bytes at any offset and length") {
  try_all_cases(engine_kind::ring);
}

TEST_CASE("pool_io: completes a refused read with -errno") {
  try_all_refusals(engine_kind::threads);
}

TEST_CASE("ring_io: completes a refused read with -errno") { try_all_refusals(engine_kind::ring); }

TEST_CASE("pool_io: completes each of many reads once, in the loop's thread, never inline") {
  try_many_at_once(engine_kind::threads);
}

TEST_CASE("ring_io: completes each of many reads once, in the loop's thread, never inline") {
  try_many_at_once(engine_kind::ring);
}

TEST_CASE("pool_io: an ended read completes although a read of another file waits") {
  asio::io_context loop;
  threads pool(1);
  pool_io by(loop, pool);
  std::promise<void> both_started;
  std::promise<void> released;
  boost::system::error_code problem;
  // The first read ends when the second one waits for the only thread.
  const byte_supply first = [&](int, std::uint64_t, std::span<std::byte> into, auto&) {
    both_started.get_future().wait();
    return static_cast<std::int64_t>(into.size());
  };
  const byte_supply second = [&](int, std::uint64_t, std::span<std::byte> into, auto&) {
    released.get_future().wait();
    return static_cast<std::int64_t>(into.size());
  };
  std::array<std::byte, 8> memory{};
  io_request request;
  request.bytes = 8;
  request.memory = memory.data();
  request.supply_failed = &problem;
  int first_result = INT_MIN;
  int second_result = INT_MIN;
  request.supply = &first;
  asio::co_spawn(loop, read_into(first_result, by, request), asio::detached);
  request.supply = &second;
  asio::co_spawn(loop, read_into(second_result, by, request), asio::detached);
  const auto stay = asio::make_work_guard(loop);
  while (loop.poll_one() > 0) {
  }
  both_started.set_value();
  const auto until = std::chrono::steady_clock::now() + patience;
  while (first_result == INT_MIN && std::chrono::steady_clock::now() < until) {
    loop.run_for(std::chrono::milliseconds(5));
  }
  CHECK(first_result == 8);
  CHECK(second_result == INT_MIN);
  released.set_value();
  while (second_result == INT_MIN && std::chrono::steady_clock::now() < until) {
    loop.run_for(std::chrono::milliseconds(5));
  }
  CHECK(second_result == 8);
  pool.join();
}

TEST_CASE("io_queue: both refuse a direct read that is not aligned") {
  const open_noise file;
  if (!file.direct) return skip("the build tree's file system has no O_DIRECT");
  const auto memory = mapping::make(8192, page_kind::small);
  REQUIRE(memory.has_value());
  for (const engine_kind kind : {engine_kind::threads, engine_kind::ring}) {
    reading on(kind);
    if (!on) return;
    io_request what;
    what.fd = file.direct.get();
    what.direct = true;
    what.bytes = 4096;
    what.file_offset = 1;
    what.memory = memory->data();
    CHECK(answer_to(on, what) == -EINVAL);
  }
}

TEST_CASE("pool_io: populates fresh memory, also where the file ends before it") {
  if (!can_populate()) return skip("this kernel has no MADV_POPULATE_WRITE");
  reading on(engine_kind::threads);
  CHECK(on.by().populates());
  const open_noise file;
  const auto memory = mapping::make(262'144, page_kind::small);
  REQUIRE(memory.has_value());
  io_request what;
  what.fd = file.buffered.get();
  what.bytes = 131'072;
  what.file_offset = file_bytes - 100;
  what.memory = memory->data();

  CHECK(answer_to(on, what) == 100);
  CHECK(resident_pages(memory->span()) == 1);
  what.fresh = true;
  CHECK(answer_to(on, what) == 100);
  CHECK(resident_pages(memory->span().first(131'072)) == 32);
  // Reads no more bytes than requested.
  CHECK(resident_pages(memory->span()) == 32);
}

TEST_CASE("pool_io: memory that cannot be populated is an error of the read") {
  if (!can_populate()) return skip("this kernel has no MADV_POPULATE_WRITE");
  reading on(engine_kind::threads);
  const open_noise file;
  io_request what;
  what.fd = file.buffered.get();
  what.bytes = 4096;
  what.fresh = true;
  // Below the lowest address that the kernel maps, so that no other thread can get this address.
  what.memory = reinterpret_cast<std::byte*>(std::uintptr_t{4096});
  CHECK(answer_to(on, what) == -ENOMEM);
}

// The bytes after the first huge page are read in separate steps.
TEST_CASE("pool_io: a read of several huge pages completes once, with its bytes in place") {
  reading on(engine_kind::threads);
  const temporary_folder folder;
  constexpr std::uint64_t bytes = 2 * huge_page_bytes + 12'345;
  write_noise(folder.path() / "noise", bytes);
  const unique_fd file = open_file(folder.path() / "noise");
  const auto memory = mapping::make(4 * huge_page_bytes, page_kind::small);
  REQUIRE(memory.has_value());
  io_request what;
  what.fd = file.get();
  what.bytes = 3 * huge_page_bytes;
  what.memory = memory->data() + 4096;
  for (const std::uint64_t from : {std::uint64_t{0}, std::uint64_t{huge_page_bytes} - 4097}) {
    for (const bool fresh : {true, false}) {
      std::memset(memory->data(), 0, memory->bytes());
      what.file_offset = from;
      what.fresh = fresh;
      CHECK(answer_to(on, what) == static_cast<int>(bytes - from));
      CHECK(is_noise(memory->span().subspan(4096, bytes - from), from));
    }
  }

  // The bytes before the failed step count. A read that continues from there gets the error.
  std::byte* const last = memory->data() + 3 * huge_page_bytes;
  REQUIRE(::mprotect(last, huge_page_bytes, PROT_NONE) == 0);
  what.file_offset = 0;
  what.bytes = 2 * huge_page_bytes;
  what.memory = last - huge_page_bytes;
  CHECK(answer_to(on, what) == static_cast<int>(huge_page_bytes));
  what.memory = last;
  CHECK(answer_to(on, what) == -EFAULT);
  // A step ends at the end of a huge page, and populates no later page.
  what.fresh = true;
  what.memory = last - huge_page_bytes - 4096;
  CHECK(answer_to(on, what) == static_cast<int>(huge_page_bytes + 4096));
}

TEST_CASE("ring_io: does not populate memory") {
  reading on(engine_kind::ring);
  if (!on) return;
  CHECK_FALSE(on.by().populates());
  const open_noise file;
  const auto memory = mapping::make(262'144, page_kind::small);
  REQUIRE(memory.has_value());
  io_request what;
  what.fd = file.buffered.get();
  what.bytes = 131'072;
  what.file_offset = file_bytes - 100;
  what.memory = memory->data();
  what.fresh = true;
  CHECK(answer_to(on, what) == 100);
  CHECK(resident_pages(memory->span()) == 1);
}

TEST_CASE("io_queues: an uncached read leaves nothing in the page cache") {
  const open_noise file;
  reading on(engine_kind::threads);
  std::array<std::byte, 65'536> memory;
  io_request request;
  request.fd = file.buffered.get();
  request.memory = memory.data();
  request.bytes = memory.size();
  request.file_offset = 131'072;
  REQUIRE(answer_to(on, request) == 65'536);
  const auto cached = count_pages(file.buffered.get(), 131'072, memory.size());
  if (!cached || cached->cached == 0) {
    skip("this file system, or a kernel without cachestat, shows no page cache");
    return;
  }
  make_cold(file.buffered.get());
  memory = {};
  request.uncached = true;
  REQUIRE(answer_to(on, request) == 65'536);
  CHECK(is_noise(memory, 131'072));
  CHECK(count_pages(file.buffered.get(), 131'072, memory.size())->cached == 0);
}
