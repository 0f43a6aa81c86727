// SPDX-License-Identifier: Apache-2.0

// Memory for a few bytes is missing, at each point of a small load in turn: the load ends, with the
// right bytes or with an error, and nothing stays taken. An executable of its own, because it
// replaces operator new.

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <atomic>
#include <boost/asio/use_future.hpp>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <ringload/ringload.hpp>

#include "support/counted_device.hpp"
#include "support/made_checkpoint.hpp"
#include "support/small_limits.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

// Only threads of the library lack memory: a test that does would say nothing of it.
thread_local bool is_ours = true;
std::atomic<std::int64_t> until_failure = -1;  // Below 0: none is to come.
std::atomic<bool> has_failed = false;

bool fails_now() {
  if (!is_ours || until_failure.load() < 0) return false;
  if (until_failure.fetch_sub(1) != 0) return false;
  has_failed = true;
  return true;
}

struct failing_at {
  explicit failing_at(std::int64_t n) {
    is_ours = false;
    has_failed = false;
    until_failure = n;
  }
  failing_at(const failing_at&) = delete;
  failing_at& operator=(const failing_at&) = delete;
  ~failing_at() { until_failure = -1; }
};

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

manifest crc_manifest(const made_file& file) {
  manifest m;
  for (const tensor_info& t : read_catalog(file.name()).tensors) {
    const std::string bytes = file_bytes(file.name(), t.offset, t.bytes);
    const std::uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
    tensor_digest one;
    one.name = t.name;
    one.algorithm = digest_algorithm::crc32c;
    for (int shift = 24; shift >= 0; shift -= 8) {
      one.bytes.push_back(static_cast<std::byte>(crc >> shift));
    }
    m.tensors.push_back(std::move(one));
  }
  return m;
}

// Ends when no allocation is left to fail.
template <class Work>
std::int64_t for_every_allocation(const Work& work) {
  std::int64_t n = 0;
  for (bool more = true; more; ++n) {
    REQUIRE(n < 100'000);
    CAPTURE(n);
    const failing_at now(n);
    work();
    more = has_failed;
  }
  return n;
}

}  // namespace

// Not inlined: g++ would see malloc meet delete.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (fails_now()) throw std::bad_alloc();
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

TEST_CASE("no memory: at each allocation of a load in turn, it ends and keeps nothing") {
  is_ours = false;
  const made_file file({{"a", 999}, f32("b", 20'000), {"none", 0}, {"c", 150'000}}, 3);
  const manifest listed = crc_manifest(file);
  for (const read_engine engine : {read_engine::automatic, read_engine::threads}) {
    load_options how;
    if (engine == read_engine::automatic) how.verify = &listed;
    auto with = std::make_unique<loader>(counted_host(), small_limits(2, engine));
    const std::size_t descriptors = open_descriptors();
    std::int64_t right = 0;
    const std::int64_t points = for_every_allocation([&] {
      make_cold(file.path());
      try {
        const model loaded = get(with->load_async(file.name(), how, asio::use_future));
        until_failure = -1;
        CHECK(first_difference(loaded) == "");
        ++right;
      } catch (const error& e) {
        CHECK(e.code() == errc::memory_exceeded);
      } catch (const std::bad_alloc&) {
        // There was no memory for a sentence either.
      } catch (const std::future_error&) {
        // There was none for the answer itself: the handler is destroyed, as Asio does with its
        // own.
      }
    });
    MESSAGE(points << " points, " << right << " of them without consequence");
    CHECK(points > 10);
    // The loader is as good as new.
    CHECK(first_difference(get(with->load_async(file.name(), how, asio::use_future))) == "");
    CHECK(open_descriptors() == descriptors);
    with.reset();
    CHECK(arenas_taken == 0);
  }
}

TEST_CASE("no memory: at each allocation of a loader's start in turn, it starts or says why not") {
  const made_file file({{"a", 999}});
  const std::size_t descriptors = open_descriptors();
  for_every_allocation([&] {
    try {
      loader with(host(), small_limits(2));
      until_failure = -1;
      CHECK(first_difference(get(with.load_async(file.name(), asio::use_future))) == "");
    } catch (const error&) {
    } catch (const std::bad_alloc&) {
    }
  });
  CHECK(open_descriptors() == descriptors);
}

TEST_CASE("no descriptors: at each number of them, a loader starts and loads, or says why not") {
  is_ours = false;
  const made_file file({{"a", 999}, f32("b", 20'000)});
  const auto descriptors = static_cast<::rlim_t>(open_descriptors());
  ::rlimit before = {};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  int loaded = 0;
  for (::rlim_t more = 0; more < 24; ++more) {
    CAPTURE(more);
    const ::rlimit fewer = {descriptors - 1 + more, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &fewer) == 0);
    std::string said;
    bool right = false;
    try {
      loader with(host(), small_limits(2));
      const model got = get(with.load_async(file.name(), asio::use_future));
      right = got.size() == 2;
    } catch (const error& e) {
      said = e.what();
    }
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    if (right) ++loaded;
    CHECK((right || holds(said, "Too many open files")));
  }
  CHECK(loaded > 0);
  CHECK(open_descriptors() == static_cast<std::size_t>(descriptors));
}
