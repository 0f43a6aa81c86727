// SPDX-License-Identifier: Apache-2.0

// Models that a keeper serves, attached in the same process.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/use_future.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <ringload/ringload.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/packet_socket.hpp"
#include "support/made_checkpoint.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

std::vector<made_tensor> kept_tensors() {
  return {f32("a", 700'000), {"none", 0}, f32("b", 3), {"c", 100'001}};
}

model loaded_for_sharing(const made_file& file, load_options how = {}) {
  loader with(shared_host(), small_options(2));
  return get(with.load_async(file.name(), how, use_future));
}

template <class Work>
error error_of(const Work& work) {
  try {
    work();
  } catch (const error& e) {
    return e;
  }
  FAIL("it did not fail");
  throw std::logic_error("unreachable");
}

struct kept_file {
  made_file file{kept_tensors()};
  temporary_folder folder = temporary_folder::for_sockets();
  std::string socket = (folder.path() / "keeper").string();
  std::optional<keeper> keeps{std::in_place, socket};
};

}  // namespace

TEST_CASE("keeper: an attached model is what was published, read-only, and outlives its keeper") {
  kept_file kept;
  {
    const model loaded = loaded_for_sharing(kept.file);
    CHECK(first_difference(loaded) == "");
    CHECK_FALSE(loaded.at("a").read_only());
    kept.keeps->publish("one", loaded);
    CHECK(loaded.at("a").read_only());
    CHECK(first_difference(loaded) == "");
  }
  std::optional<model> attached = attach(kept.socket, "one");
  CHECK(attached->at("a").read_only());
  CHECK(attached->at("a").device() == host());
  CHECK(kept.keeps->models().at(0).attached == 1);
  const model other = attach(kept.socket, "one");
  CHECK(other.at("a").data() != attached->at("a").data());
  kept.keeps.reset();
  CHECK_FALSE(std::filesystem::exists(kept.socket));

  CHECK(first_difference(*attached) == "");
  CHECK(attached->regions().size() == 1);
  CHECK(attached->regions()[0].descriptor >= 0);
  const tensor b = attached->at("b");
  attached.reset();
  CHECK(b.as<const float>().size() == 3);
}

TEST_CASE("keeper: converted tensors, allocations for each tensor, and no tensor at all are kept") {
  kept_file kept;
  load_options how;
  how.dtype = dtype::bf16;
  const model halves = loaded_for_sharing(kept.file, how);
  kept.keeps->publish("halves", halves);
  const model attached = attach(kept.socket, "halves");
  CHECK(attached.at("a").dtype() == dtype::bf16);
  CHECK(bytes_of(attached.at("a")) == bytes_of(halves.at("a")));
  CHECK(attached.catalog().tensors[0].dtype == dtype::f32);

  load_options each;
  each.allocation = allocation::per_tensor;
  kept.keeps->publish("each", loaded_for_sharing(kept.file, each));
  CHECK(first_difference(attach(kept.socket, "each")) == "");
  CHECK(attach(kept.socket, "each").regions().size() == 4);

  loader with(shared_host(), small_options(2));
  const model nothing = get(with.load_async(get(with.open_async(kept.file.name(), use_future)),
                                            select().names({}), use_future));
  kept.keeps->publish("nothing", nothing);
  CHECK(attach(kept.socket, "nothing").empty());
}

TEST_CASE("keeper: with reserved pages, models lie on them where enough are free") {
  kept_file kept;
  loader_options within = small_options(1);
  within.huge_pages = huge_pages::reserved;
  loader with(shared_host(), within);
  kept.keeps->publish("m", get(with.load_async(kept.file.name(), use_future)));
  const model attached = attach(kept.socket, "m");
  CHECK(first_difference(attached) == "");
  struct ::statfs of = {};
  REQUIRE(::fstatfs(attached.regions()[0].descriptor, &of) == 0);
  if (of.f_bsize != 2 << 20) return skip("no reserved huge pages are free (vm.nr_hugepages)");
  CHECK(attached.regions()[0].bytes % (2 << 20) == 0);
}

TEST_CASE("keeper: who attaches after a swap has the new version, who did before keeps the old") {
  kept_file kept;
  const made_file second(made_file::as_it_is::text, checkpoint_text({f32("new", 5000)}, 0, 9));
  kept.keeps->publish("m", loaded_for_sharing(kept.file));
  const model before = attach(kept.socket, "m");
  kept.keeps->publish("m", loaded_for_sharing(second));
  const model after = attach(kept.socket, "m");
  CHECK(first_difference(before) == "");
  CHECK(before.size() == 4);
  CHECK(first_difference(after) == "");
  CHECK(after.size() == 1);
  CHECK(kept.keeps->models().at(0).version == 2);
  CHECK(kept.keeps->models().at(0).attached == 1);

  CHECK(kept.keeps->withdraw("m"));
  CHECK_FALSE(kept.keeps->withdraw("m"));
  const error gone = error_of([&] { attach(kept.socket, "m"); });
  CHECK(gone.code() == errc::source_not_found);
  CHECK(gone.what() == kept.socket + ": model 'm': the keeper has no model of that name");
  CHECK(first_difference(after) == "");
}

TEST_CASE("keeper: another keeper takes over what it has attached") {
  kept_file kept;
  kept.keeps->publish("m", loaded_for_sharing(kept.file));
  const std::string socket = (kept.folder.path() / "second").string();
  keeper second(socket);
  second.publish("m", attach(kept.socket, "m"));
  kept.keeps.reset();
  CHECK(first_difference(attach(socket, "m")) == "");
}

TEST_CASE("keeper: nobody can write, grow, shrink or punch what is attached") {
  kept_file kept;
  kept.keeps->publish("m", loaded_for_sharing(kept.file));
  const model attached = attach(kept.socket, "m");
  const memory_region region = attached.regions()[0];
  const std::string again = "/proc/self/fd/" + std::to_string(region.descriptor);
  const unique_fd writing(::open(again.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(writing);
  for (const int fd : {region.descriptor, writing.get()}) {
    CHECK(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    CHECK(::ftruncate(fd, 0) != 0);
    CHECK(::ftruncate(fd, static_cast<::off_t>(2 * region.bytes)) != 0);
    CHECK(::pwrite(fd, "x", 1, 0) < 0);
    CHECK(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) != 0);
    CHECK(::fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) != 0);
  }
  CHECK(::mprotect(region.data, 4096, PROT_READ | PROT_WRITE) != 0);
  CHECK(first_difference(attached) == "");
}

TEST_CASE("keeper: memory of one process alone is refused, and so are names of no length") {
  kept_file kept;
  loader alone(host(), small_options(2));
  const model of_one = get(alone.load_async(kept.file.name(), use_future));
  const error refused = error_of([&] { kept.keeps->publish("m", of_one); });
  CHECK(refused.code() == errc::device_unavailable);
  CHECK(holds(
      refused.what(),
      "the model's memory is private: load the model for ringload::shared_host(), not mapped"));
  CHECK_FALSE(of_one.at("a").read_only());
  CHECK(error_of([&] { kept.keeps->publish("m", model()); }).code() == errc::no_such_tensor);
  CHECK(error_of([&] { kept.keeps->publish("", of_one); }).code() == errc::invalid_source_name);
  CHECK(error_of([&] { attach(kept.socket, std::string(256, 'n')); }).code() ==
        errc::invalid_source_name);
  CHECK(kept.keeps->models().empty());
}

TEST_CASE("keeper: a model with two tensors of one name is refused, and the old one stays served") {
  kept_file kept;
  kept.keeps->publish("m", loaded_for_sharing(kept.file));
  loader with({shared_host(), shared_host()}, small_options(2));
  load_options how;
  how.select = select().replicate("*");
  const model twice = get(with.load_async(kept.file.name(), how, use_future));
  const error refused = error_of([&] { kept.keeps->publish("m", twice); });
  CHECK(refused.code() == errc::duplicate_tensor);
  CHECK(holds(refused.what(), "tensor 'a': the model has several tensors of this name"));
  CHECK_FALSE(twice.at("a").read_only());
  const model attached = attach(kept.socket, "m");
  CHECK(first_difference(attached) == "");
  CHECK(attached.catalog().files[0].header_bytes > 0);
}

TEST_CASE("keeper: of several that start at once on an abandoned socket, one takes it over") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "left").string();
  for (int round = 0; round < 100; ++round) {
    REQUIRE(listen_at(path, 0600).has_value());  // Nobody listens after this line.
    std::vector<std::optional<unique_fd>> listeners(4);
    std::vector<std::thread> starting;
    for (auto& each : listeners) {
      starting.emplace_back([&] {
        if (auto listener = listen_at(path, 0600)) each = std::move(*listener);
      });
    }
    for (std::thread& each : starting) each.join();
    CHECK(std::ranges::count_if(listeners, [](const auto& each) { return each.has_value(); }) == 1);
    CHECK(connect_to(path, std::chrono::seconds(1)).has_value());
  }
}

TEST_CASE("keeper: a path has one keeper, and one that was left behind is taken over") {
  kept_file kept;
  const error taken = error_of([&] { keeper second(kept.socket); });
  CHECK(taken.code() == boost::system::errc::address_in_use);

  const std::string left = (kept.folder.path() / "left").string();
  {
    // The process of the keeper ended without removing the socket.
    const auto abandoned = listen_at(left, 0600);
    REQUIRE(abandoned.has_value());
  }
  CHECK(error_of([&] { attach(left, "m"); }).code() == boost::system::errc::connection_refused);
  keeper over(left);
  CHECK(std::filesystem::status(left).permissions() ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  CHECK(error_of([&] { attach(left, "m"); }).code() == errc::source_not_found);

  const std::string file = (kept.folder.path() / "file").string();
  std::ofstream(file) << "precious";
  CHECK(error_of([&] { keeper on_file(file); }).code() == boost::system::errc::address_in_use);
  CHECK(std::filesystem::file_size(file) == 8);
  CHECK(error_of([&] { attach(file + "?", "m"); }).code() ==
        boost::system::errc::no_such_file_or_directory);
  CHECK(error_of([&] { keeper far(std::string(108, 'p')); }).code() ==
        boost::system::errc::filename_too_long);
}

TEST_CASE("keeper: an ending keeper removes its socket file before the socket stops to listen") {
  const temporary_folder folder = temporary_folder::for_sockets();
  const std::string path = (folder.path() / "keeper").string();
  int late_count = 0;
  for (int round = 0; round < 200; ++round) {
    std::optional<keeper> ending(std::in_place, path);
    const auto client = connect_to(path, std::chrono::seconds(5));
    REQUIRE(client.has_value());
    std::thread end([&] { ending.reset(); });
    std::array<std::byte, 1> buffer = {};
    // Returns when the keeper closes the connection.
    (void)receive_packet(*client, buffer);
    if (std::filesystem::exists(path)) ++late_count;
    end.join();
  }
  CHECK(late_count == 0);
}

TEST_CASE("keeper: a keeper that starts while another keeper ends keeps its socket file") {
  const temporary_folder folder = temporary_folder::for_sockets();
  const std::string path = (folder.path() / "keeper").string();
  std::optional<keeper> ending(std::in_place, path);
  for (int round = 0; round < 1000; ++round) {
    std::optional<keeper> starting;
    std::thread start([&] {
      while (!starting) {
        try {
          starting.emplace(path);
        } catch (const error&) {  // The other keeper still listens.
        }
      }
    });
    ending.reset();
    start.join();
    REQUIRE(std::filesystem::exists(path));
    starting.reset();
    ending.emplace(path);
  }
}

TEST_CASE("keeper: a path is in use while its program accepts no connection") {
  const temporary_folder folder = temporary_folder::for_sockets();
  const std::string path = (folder.path() / "keeper").string();
  const auto listening = listen_at(path, 0600);
  REQUIRE(listening.has_value());
  REQUIRE(::listen(listening->get(), 0) == 0);
  const auto waiting = connect_to(path, std::chrono::seconds(1));
  REQUIRE(waiting.has_value());
  const error refused = error_of([&] { const keeper second(path); });
  CHECK(refused.code() == boost::system::error_code(EADDRINUSE, boost::system::system_category()));
}

TEST_CASE("keeper: attaching can be awaited") {
  kept_file kept;
  kept.keeps->publish("m", loaded_for_sharing(kept.file));
  CHECK(first_difference(get(attach_async(kept.socket, "m", use_future))) == "");
  CHECK(code_of(attach_async(kept.socket, "n", use_future)) == errc::source_not_found);
}

TEST_CASE("keeper: with all connections taken, the next waits, and gets the place of who leaves") {
  kept_file kept;
  kept.keeps.reset();
  keeper_options one;
  one.connections_max = 1;
  keeper keeps(kept.socket, one);
  keeps.publish("m", loaded_for_sharing(kept.file));
  std::optional<model> first = attach(kept.socket, "m");
  CHECK(error_of([&] { attach(kept.socket, "m", std::chrono::milliseconds(20)); }).code() ==
        boost::system::errc::timed_out);
  first.reset();
  CHECK(first_difference(attach(kept.socket, "m")) == "");
}

TEST_CASE("keeper: a limit of 0 connections is refused") {
  const temporary_folder folder = temporary_folder::for_sockets();
  const std::string path = (folder.path() / "keeper").string();
  keeper_options none;
  none.connections_max = 0;
  const error refused = error_of([&] { const keeper unreachable(path, none); });
  CHECK(refused.code() == errc::invalid_options);
  CHECK(holds(refused.what(), "connections_max is 0, expected at least 1"));
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("keeper: the socket of a relative path is removed after a change of the working folder") {
  const std::filesystem::path before = std::filesystem::current_path();
  const temporary_folder folder = temporary_folder::for_sockets();
  std::filesystem::current_path(folder.path());
  std::optional<keeper> keeps(std::in_place, "keeper");
  std::filesystem::current_path(before);
  CHECK(std::filesystem::exists(folder.path() / "keeper"));
  keeps.reset();
  CHECK_FALSE(std::filesystem::exists(folder.path() / "keeper"));
}
