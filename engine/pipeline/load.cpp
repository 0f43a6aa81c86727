// SPDX-License-Identifier: Apache-2.0

// The life of a load, from beginning to end. The file to read first.

#include <boost/asio/error.hpp>

#include "formats/printable.hpp"
#include "pipeline/engine.hpp"
#include "pipeline/job.hpp"

namespace ringload::inline v0::detail {

namespace {

// Each of these blocks, on the file system or on giving memory back, so it runs in a thread of its
// own.
struct opening {
  engine& e;
  const job& of;
  result<opened_load> found = fault();

  void operator()() noexcept {
    found =
        attempt([&] { return open_load(of.source, of.options, e.within, *e.target, e.direct); });
  }
};

struct closing_files {
  std::vector<open_file> files;
  result<void> unchanged;

  void operator()() noexcept {
    unchanged = attempt([&]() -> result<void> {
      for (const open_file& file : files) {
        if (auto same = check_unchanged(file); !same) return same.error();
      }
      return {};
    });
    files.clear();
  }
};

struct letting_go {
  result<opened_load> unused;
  std::shared_ptr<const landed> memory;

  void operator()() noexcept {
    unused = fault();
    memory.reset();
  }
};

}  // namespace

boost::asio::awaitable<void> load(engine& e, std::shared_ptr<job> one) {
  opening open = {e, *one};
  co_await on_thread(*e.open_threads, e.loop, open);
  if (!open.found) one->stop(open.found.error());

  if (!one->stopped()) {
    one->begin(std::move(*open.found));
    // Files, catalog, plan and memory are fixed: nothing below parses, or chooses an offset or a
    // size.

    one->tell_started();
    e.work.add(one);
    while (!one->quiet()) co_await one->until_quiet();
    // All bytes are where they belong, or the load has failed; neither the kernel nor the device
    // works for it any more.

    closing_files close = {one->take_files(), {}};
    co_await on_thread(*e.open_threads, e.loop, close);
    if (!close.unchanged) one->stop(close.unchanged.error());
  }
  if (one->stopped()) {
    letting_go gone = {std::move(open.found), one->give_up()};
    co_await on_thread(*e.open_threads, e.loop, gone);
  }
  // Nothing is held for the load but what its tensors share.

  one->finish();
  e.leave(one);
}

}  // namespace ringload::inline v0::detail
