// SPDX-License-Identifier: Apache-2.0

// Versions of a kept model: readers see whole versions, and wait for the next version.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <ringload/delta.hpp>
#include <ringload/keeper.hpp>
#include <ringload/loader.hpp>
#include <ringload/save.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/packet_socket.hpp"
#include "keeper/messages.hpp"
#include "support/child_program.hpp"
#include "support/descriptors.hpp"
#include "support/small_options.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;
namespace asio = boost::asio;

namespace {

constexpr std::uint64_t tensor_count = 6;
constexpr std::uint64_t elements = 40'000;

// A version folder whose version v has the element v + i in all places of tensor i, so that a
// reader recognises a mixture of versions. Tensor "fixed" is the same in all versions.
struct stamped_versions {
  explicit stamped_versions(std::uint64_t count) {
    for (std::uint64_t v = 0; v < count; ++v) add(v);
  }

  std::string path(const std::string& name) const { return (folder.path() / name).string(); }

  void add(std::uint64_t v) {
    std::vector<std::vector<std::uint64_t>> values;
    std::vector<tensor_ref> refs;
    for (std::uint64_t i = 0; i < tensor_count; ++i) values.emplace_back(elements, v + i);
    values.emplace_back(elements, 7);
    for (std::uint64_t i = 0; i <= tensor_count; ++i) {
      const std::string name = i == tensor_count ? "fixed" : "t" + std::to_string(i);
      refs.emplace_back(name, values[i].data(), dtype::u64, std::vector<std::uint64_t>{elements});
    }
    const std::string full = v == 0 ? path("v0.safetensors") : path("full" + std::to_string(v));
    save_options saving;
    saving.sync = false;
    get(host_loader.save_async(full, refs, saving, use_future));
    delta_options options;
    options.sync = false;
    if (v > 0) {
      get(save_delta_async(host_loader, path("v" + std::to_string(v) + ".delta.zt"), before, full,
                           options, use_future));
    }
    before = full;
  }

  temporary_folder folder;
  loader host_loader{host(), small_options(2)};
  std::string before;
};

// Publishes the versions of a folder, each by the delta from the version before.
struct publisher {
  explicit publisher(const stamped_versions& source) : versions(source), keeps(socket) {}

  void publish_next() {
    version_options options;
    options.apply.allocation = allocation::per_load;
    options.version = next;
    if (next > 0) {
      options.base = current;
      options.base_version = next - 1;
    }
    current = get(load_version_async(shared_loader, versions.folder.path(), options, use_future));
    ++next;
    keeps.publish("m", current);
  }
  kept_model served() const { return keeps.models().at(0); }

  const stamped_versions& versions;
  temporary_folder sockets = temporary_folder::for_sockets();
  const std::string socket = (sockets.path() / "keeper").string();
  loader shared_loader{shared_host(), small_options(2)};
  model current;
  std::uint64_t next = 0;
  keeper keeps;
};

// Returns the version of a model. Fails the test if the tensors have several versions.
std::uint64_t stamp_of(const model& attached) {
  const std::uint64_t version = attached.at("t0").as<const std::uint64_t>()[0];
  for (std::uint64_t i = 0; i < tensor_count; ++i) {
    const auto values = attached.at("t" + std::to_string(i)).as<const std::uint64_t>();
    const auto is_other = [&](std::uint64_t value) { return value != version + i; };
    CHECK(std::ranges::none_of(values, is_other));
  }
  CHECK(attached.at("fixed").as<const std::uint64_t>()[elements - 1] == 7);
  return version;
}

boost::system::error_code code_after(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const error& failure) {
    return failure.code();
  }
}

constexpr std::chrono::milliseconds short_time{20};

}  // namespace

TEST_CASE("keeper versions: a reader learns of a new version, and attaches that version") {
  const stamped_versions versions(3);
  publisher at(versions);
  CHECK(code_after([&] { served_version(at.socket, "m"); }) == errc::source_not_found);
  CHECK(code_after([&] { attach_next(at.socket, "m", {}, short_time); }) ==
        boost::system::errc::timed_out);
  at.publish_next();
  const model first = attach(at.socket, "m");
  CHECK(attached_version(first) == served_version(at.socket, "m"));
  CHECK(attached_version(first).number == 1);
  CHECK(attached_version(model()) == kept_version());
  CHECK(attached_version(at.current) == kept_version());
  CHECK(code_after([&] { attach_next(at.socket, "m", attached_version(first), short_time); }) ==
        boost::system::errc::timed_out);
  CHECK(stamp_of(attach_next(at.socket, "m", {}, patience)) == 0);

  std::thread later([&] {
    at.publish_next();
    at.publish_next();
  });
  const model second = attach_next(at.socket, "m", attached_version(first), patience);
  later.join();
  CHECK(stamp_of(second) >= 1);
  CHECK(stamp_of(first) == 0);
  CHECK(served_version(at.socket, "m").number == 3);
  CHECK(served_version(at.socket, "m") != attached_version(first));
  CHECK(attached_version(attach_next(at.socket, "m", attached_version(first), patience)) ==
        served_version(at.socket, "m"));
}

TEST_CASE("keeper versions: a wait can be awaited, cancelled, and ends with the keeper") {
  const stamped_versions versions(2);
  std::optional<publisher> at(std::in_place, versions);
  const std::string socket = at->socket;
  auto first = attach_next_async(socket, "m", {}, use_future);
  at->publish_next();
  const kept_version current = attached_version(get(std::move(first)));
  CHECK(current.number == 1);

  asio::io_context context;
  asio::cancellation_signal signal;
  boost::system::error_code code;
  bool is_complete = false;
  attach_next_async(
      socket, "m", current,
      asio::bind_executor(
          context, asio::bind_cancellation_slot(
                       signal.slot(), [&](const boost::system::error_code& failure, const model&) {
                         code = failure;
                         is_complete = true;
                       })));
  context.poll();
  CHECK_FALSE(is_complete);
  signal.emit(asio::cancellation_type::total);
  context.run_for(patience);
  CHECK(is_complete);
  CHECK(code == asio::error::operation_aborted);

  auto second = attach_next_async(socket, "m", current, use_future);
  at->publish_next();
  CHECK(stamp_of(get(std::move(second))) == 1);

  // A withdrawn model has no version until the next publication.
  const kept_version last = served_version(socket, "m");
  auto third = attach_next_async(socket, "m", last, use_future);
  CHECK(at->keeps.withdraw("m"));
  at->keeps.publish("m", at->current);
  CHECK(attached_version(get(std::move(third))).number == 3);

  auto fourth = attach_next_async(socket, "m", served_version(socket, "m"), use_future);
  // The keeper must have accepted the connection, because a refused connection is another error.
  CHECK(comes_true([&] {
    return code_after([&] { served_version(socket, "m"); }) == boost::system::error_code();
  }));
  at.reset();
  const auto ended = code_of(std::move(fourth));
  CAPTURE(ended);
  const bool is_end = ended == boost::system::errc::connection_reset ||
                      ended == boost::system::errc::connection_refused ||
                      ended == boost::system::errc::no_such_file_or_directory;
  CHECK(is_end);
}

TEST_CASE("keeper versions: another keeper with the same number is another version") {
  const stamped_versions versions(1);
  kept_version before;
  temporary_folder folder = temporary_folder::for_sockets();
  const std::string socket = (folder.path() / "s").string();
  publisher at(versions);
  at.publish_next();
  for (int i = 0; i < 2; ++i) {
    keeper again(socket);
    again.publish("m", at.current);
    const kept_version version = served_version(socket, "m");
    CHECK(version.number == 1);
    CHECK(version != before);
    CHECK(attached_version(attach_next(socket, "m", before, patience)) == version);
    before = version;
  }
}

TEST_CASE("keeper versions: an old version is freed when its last user has gone") {
  const stamped_versions versions(12);
  publisher at(versions);
  at.publish_next();
  std::optional<model> old = attach(at.socket, "m");
  const std::size_t descriptors = open_descriptors();
  while (at.next < 12) at.publish_next();
  CHECK(stamp_of(*old) == 0);
  // The keeper has the newest version, and this process has the first version too.
  CHECK(at.served().bytes <= (tensor_count + 1) * elements * 8 * 2);
  const model newest = attach(at.socket, "m");
  CHECK(stamp_of(newest) == 11);
  old.reset();
  CHECK(comes_true([&] { return at.served().attached == 1; }));
  CHECK(open_descriptors() <= descriptors + 8);
}

TEST_CASE("keeper versions: reading processes never see a mixture, also if some are killed") {
  constexpr std::uint64_t count = 40;
  const stamped_versions versions(count);
  publisher at(versions);
  at.publish_next();
  const std::size_t descriptors = open_descriptors();
  const auto start = [&] {
    return child_program({VERSION_READER, at.socket, std::to_string(count), "250000"});
  };
  std::mt19937_64 random(36);
  {
    std::vector<child_program> readers;
    for (int i = 0; i < 4; ++i) readers.push_back(start());
    for (child_program& reader : readers) CHECK(reader.read_line() == "attached");
    while (at.next < count) {
      std::vector<child_program> killed;
      for (std::uint64_t i = random() % 3; i > 0; --i) killed.push_back(start());
      const auto pause = std::chrono::microseconds(random() % 20'000);
      const auto until = std::chrono::steady_clock::now() + pause;
      while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
      at.publish_next();
    }
    for (child_program& reader : readers) {
      const std::string line = reader.read_line();
      CAPTURE(line);
      CHECK(line.starts_with("whole: "));
      CHECK(reader.exit_code() == 0);
    }
  }
  CHECK(comes_true(
      [&] { return at.served().attached == 0 && open_descriptors() <= descriptors + 8; }));
}
