// SPDX-License-Identifier: Apache-2.0

// Reads of a distant mount that stall and are issued again. The drive of the temporary folder is
// declared distant. A test waits for the second read, which starts 50 ms after the other reads have
// ended, and for the third read, which starts 50 ms later.

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/use_future.hpp>
#include <cerrno>
#include <future>
#include <iterator>
#include <optional>
#include <ringload/ringload.hpp>

#include "support/distant_drive.hpp"
#include "support/made_checkpoint.hpp"
#include "support/scripted_loader.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

using hold = read_fate::hold;

// The fates of a read that stalls, of its second read, and of the next read of the same bytes.
struct fates {
  read_fate first = {.until_released = hold::completion};
  read_fate second = {.until_released = hold::completion};
  read_fate third = {};
};

// A loader with so many slots has one spare slot, so no read is issued a third time.
constexpr std::uint32_t few_slots = 4;
// A loader with so many slots has three spare slots.
constexpr std::uint32_t many_slots = 17;

// A loader for a mount, one read of which follows `fates`.
class stalled_mount {
 public:
  explicit stalled_mount(const fates& stalled, std::uint32_t slots = few_slots)
      : file_(equal_tensors(20, small_slot)),
        script_([this, stalled](const io_request& request, std::uint64_t number) {
          if (number == stalled_number_) offset_ = request.file_offset;
          if (request.file_offset != offset_) return read_fate();
          const read_fate all[] = {stalled.first, stalled.second, stalled.third};
          const std::size_t attempt = attempts_++;
          return attempt < std::size(all) ? all[attempt] : read_fate();
        }),
        loader_(script_, small_options(slots)) {
    declare_distant(loader_, file_.name());
  }

  // False if this machine has no io_uring or no direct reads in the temporary folder.
  bool is_possible() {
    if (loader_.stats().engine != read_engine::ring) return false;
    loader direct(host(), small_options());
    return !failure_of(direct.load_async(file_.name(), by(read_route::direct), use_future));
  }
  template <class Token>
  auto load(Token&& token) {
    return loader_.load_async(file_.name(), by(read_route::direct), std::forward<Token>(token));
  }
  // All reads of the offset that stalls, in the order of their starts.
  std::vector<io_request> attempts() const {
    std::vector<io_request> found = script_.log();
    std::erase_if(found, [this](const io_request& r) { return r.file_offset != offset_; });
    return found;
  }
  bool is_idle() {
    std::promise<bool> idle;
    detail::engine& e = *loader_.loader_engine();
    e.post([&] { idle.set_value(e.second_reads.is_idle()); });
    return get(idle.get_future());
  }
  read_script& script() { return script_; }
  scripted_loader& loader_of_mount() { return loader_; }

 private:
  // The pace of the mount is known before this read.
  static constexpr std::uint64_t stalled_number_ = 14;

  const made_file file_;
  std::uint64_t offset_ = ~std::uint64_t{0};
  std::size_t attempts_ = 0;
  read_script script_;
  scripted_loader loader_;
};

#define SKIP_WITHOUT_DIRECT_RING(mount)                                       \
  if (!(mount).is_possible()) {                                               \
    skip("there is no io_uring, or there are no direct reads of files here"); \
    return;                                                                   \
  }

}  // namespace

TEST_CASE("second reads: a read that stalls is overtaken, and its slot is free when it ends") {
  // The first read writes to its slot when the load has already completed.
  stalled_mount mount({.first = {.until_released = hold::start}, .second = {}});
  SKIP_WITHOUT_DIRECT_RING(mount)
  const model loaded = get(mount.load(use_future));
  CHECK(first_difference(loaded) == "");
  CHECK(loaded.stats().second_reads == 1);
  CHECK(loaded.stats().second_reads_won == 1);
  CHECK(loaded.stats().bytes_unstaged == 0);
  REQUIRE(mount.attempts().size() == 2);
  const io_request first = mount.attempts().front();
  CHECK(first.memory != mount.attempts().back().memory);
  CHECK(!mount.is_idle());

  // No other read uses the slot before the first read has ended.
  const std::uint64_t before = mount.script().started();
  CHECK(first_difference(get(mount.load(use_future))) == "");
  for (std::uint64_t i = before; i < mount.script().started(); ++i) {
    CHECK(mount.script().log()[i].memory != first.memory);
  }
  mount.script().release_all();
  CHECK(comes_true([&] { return mount.is_idle(); }));
  CHECK(first_difference(get(mount.load(use_future))) == "");
}

TEST_CASE("second reads: the first read may still be faster") {
  stalled_mount mount({});
  SKIP_WITHOUT_DIRECT_RING(mount)
  auto loading = mount.load(use_future);
  REQUIRE(mount.script().wait_until_held(2));
  mount.script().release(0);
  const model loaded = get(std::move(loading));
  CHECK(first_difference(loaded) == "");
  CHECK(loaded.stats().second_reads == 1);
  CHECK(loaded.stats().second_reads_won == 0);
  CHECK(!mount.is_idle());
  mount.script().release_all();
  CHECK(comes_true([&] { return mount.is_idle(); }));
  CHECK(first_difference(get(mount.load(use_future))) == "");
}

TEST_CASE("second reads: a read that fails does not matter if the other read succeeds") {
  for (const bool first_fails : {true, false}) {
    for (const std::size_t released_first : {0U, 1U}) {
      CAPTURE(first_fails);
      CAPTURE(released_first);
      fates stalled;
      (first_fails ? stalled.first : stalled.second).result = -EIO;
      stalled_mount mount(stalled);
      SKIP_WITHOUT_DIRECT_RING(mount)
      auto loading = mount.load(use_future);
      REQUIRE(mount.script().wait_until_held(2));
      const bool succeeds = (released_first == 0) != first_fails;
      mount.script().release(released_first);
      mount.loader_of_mount().settle();
      if (!succeeds) {
        CHECK(!ready(loading));
        mount.script().release(0);
      }
      const model loaded = get(std::move(loading));
      CHECK(first_difference(loaded) == "");
      CHECK(loaded.stats().second_reads_won == (first_fails ? 1 : 0));
      mount.script().release_all();
      CHECK(comes_true([&] { return mount.is_idle(); }));
      CHECK(first_difference(get(mount.load(use_future))) == "");
    }
  }
}

TEST_CASE("second reads: if both reads fail, the error is that of the first read") {
  for (const std::size_t released_first : {0U, 1U}) {
    CAPTURE(released_first);
    fates stalled;
    stalled.first.result = -EIO;
    stalled.second.result = -ENXIO;
    stalled_mount mount(stalled);
    SKIP_WITHOUT_DIRECT_RING(mount)
    auto loading = mount.load(use_future);
    REQUIRE(mount.script().wait_until_held(2));
    mount.script().release(released_first);
    mount.loader_of_mount().settle();
    CHECK(!ready(loading));
    mount.script().release(0);
    CHECK(code_of(std::move(loading)) == system_code(EIO));
    CHECK(comes_true([&] { return mount.is_idle(); }));
  }
}

TEST_CASE("second reads: a short second read is resumed in its own slot") {
  fates stalled;
  stalled.second = {.result = 4096};
  stalled_mount mount(stalled);
  SKIP_WITHOUT_DIRECT_RING(mount)
  const model loaded = get(mount.load(use_future));
  CHECK(first_difference(loaded) == "");
  CHECK(loaded.stats().second_reads_won == 1);
  CHECK(loaded.stats().short_reads == 1);
}

TEST_CASE("second reads: a cancelled load ends when one of the reads ends") {
  for (const std::size_t released_first : {0U, 1U}) {
    CAPTURE(released_first);
    stalled_mount mount({});
    SKIP_WITHOUT_DIRECT_RING(mount)
    asio::cancellation_signal cancel;
    auto loading = mount.load(asio::bind_cancellation_slot(cancel.slot(), use_future));
    REQUIRE(mount.script().wait_until_held(2));
    cancel.emit(asio::cancellation_type::terminal);
    mount.loader_of_mount().settle();
    CHECK(!ready(loading));
    mount.script().release(released_first);
    CHECK(code_of(std::move(loading)) == asio::error::operation_aborted);
    CHECK(!mount.is_idle());
    mount.script().release_all();
    CHECK(comes_true([&] { return mount.is_idle(); }));
  }
}

TEST_CASE("second reads: a loader closes when the slower read has ended") {
  stalled_mount mount({.first = {.until_released = hold::start}, .second = {}});
  SKIP_WITHOUT_DIRECT_RING(mount)
  CHECK(first_difference(get(mount.load(use_future))) == "");
  auto closed = std::async(std::launch::async, [&] { mount.loader_of_mount().close(); });
  CHECK(!ready(closed));
  mount.script().release_all();
  get(std::move(closed));
}

TEST_CASE("second reads: if the second read stalls, a third read is issued") {
  stalled_mount mount(
      {.first = {.until_released = hold::start}, .second = {.until_released = hold::start}},
      many_slots);
  SKIP_WITHOUT_DIRECT_RING(mount)
  const model loaded = get(mount.load(use_future));
  CHECK(first_difference(loaded) == "");
  CHECK(loaded.stats().second_reads == 2);
  CHECK(loaded.stats().second_reads_won == 1);
  const std::vector<io_request> attempts = mount.attempts();
  REQUIRE(attempts.size() == 3);
  CHECK(attempts[0].memory != attempts[1].memory);
  CHECK(attempts[0].memory != attempts[2].memory);
  CHECK(attempts[1].memory != attempts[2].memory);
  CHECK(!mount.is_idle());
  mount.script().release(1);
  mount.loader_of_mount().settle();
  CHECK(!mount.is_idle());
  mount.script().release_all();
  CHECK(comes_true([&] { return mount.is_idle(); }));
  CHECK(first_difference(get(mount.load(use_future))) == "");
}

TEST_CASE("second reads: the first success of three reads counts, else the error of the first") {
  constexpr int errors[] = {EIO, ENXIO, EBADF};
  constexpr unsigned all_fail = 7;
  for (unsigned failing = 0; failing <= all_fail; ++failing) {
    for (const bool in_order : {true, false}) {
      CAPTURE(failing);
      CAPTURE(in_order);
      fates stalled = {.third = {.until_released = hold::completion}};
      read_fate* const attempts[] = {&stalled.first, &stalled.second, &stalled.third};
      for (unsigned i = 0; i < 3; ++i) {
        if ((failing & (1U << i)) != 0) attempts[i]->result = -errors[i];
      }
      stalled_mount mount(stalled, many_slots);
      SKIP_WITHOUT_DIRECT_RING(mount)
      auto loading = mount.load(use_future);
      REQUIRE(mount.script().wait_until_held(3));
      unsigned released = 0;
      for (unsigned i = 0; i < 3; ++i) {
        CHECK(!ready(loading));
        released = in_order ? i : 2 - i;
        mount.script().release(in_order ? 0 : mount.script().held() - 1);
        mount.loader_of_mount().settle();
        if ((failing & (1U << released)) == 0) break;
      }
      if (failing == all_fail) {
        CHECK(code_of(std::move(loading)) == system_code(EIO));
      } else {
        const model loaded = get(std::move(loading));
        CHECK(first_difference(loaded) == "");
        CHECK(loaded.stats().second_reads == 2);
        CHECK(loaded.stats().second_reads_won == (released == 0 ? 0 : 1));
      }
      CHECK(mount.attempts().size() == 3);
      mount.script().release_all();
      CHECK(comes_true([&] { return mount.is_idle(); }));
    }
  }
}
