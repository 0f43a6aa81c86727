// SPDX-License-Identifier: Apache-2.0

// Files that are truncated, written, replaced or deleted while they are loaded.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <ringload/ringload.hpp>

#include "support/counted_device.hpp"
#include "support/made_checkpoint.hpp"
#include "support/scripted_loader.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

std::vector<made_tensor> some_tensors() { return {{"a", 999}, f32("b", 50'000), {"c", 250'000}}; }

read_script::rule all_held(read_fate::hold until) {
  return [=](const io_request&, std::uint64_t) { return read_fate{.until_released = until}; };
}

// Begins a load, holds its reads, calls `meddle` on the file, and releases the reads.
template <class Meddle>
std::future<model> load_meanwhile(scripted_loader& with, read_script& script, const made_file& file,
                                  read_route route, Meddle meddle) {
  auto loaded = with.load_async(file.name(), by(route), use_future);
  if (!script.wait_until_held(1)) throw std::runtime_error("no read is begun");
  meddle();
  script.release_all();
  return loaded;
}

}  // namespace

TEST_CASE("a file that is cut while it is loaded is truncated_file, with tensor and byte") {
  for (const read_engine engine : {read_engine::automatic, read_engine::threads}) {
    for (const read_route route : {read_route::buffered, read_route::automatic}) {
      for (const std::uint64_t left : {0U, 4096U, 100'001U, 450'000U}) {
        CAPTURE(left);
        const made_file file(some_tensors(), 3);
        make_cold(file.path());
        read_script script(all_held(read_fate::hold::start));
        scripted_loader with(script, small_options(8, engine), counted_host());
        const auto failed = failure_of(load_meanwhile(
            with, script, file, route, [&] { std::filesystem::resize_file(file.path(), left); }));
        REQUIRE(failed);
        CHECK(failed->code() == errc::truncated_file);
        CHECK(holds(failed->what(), "model.safetensors: tensor '"));
        CHECK(holds(failed->what(), ": byte "));
        CHECK(arenas_taken == 0);
      }
    }
  }
}

TEST_CASE("a file that is cut when all is read is truncated_file, with both sizes") {
  const made_file file(some_tensors(), 3);
  const auto bytes = std::filesystem::file_size(file.path());
  std::uint64_t reads = 0;
  {
    loader plain(host(), small_options(16));
    reads = get(plain.load_async(file.name(), use_future)).stats().reads;
  }
  REQUIRE(reads <= 16);
  read_script script(all_held(read_fate::hold::completion));
  scripted_loader with(script, small_options(16), counted_host());
  auto loaded = with.load_async(file.name(), {}, use_future);
  REQUIRE(script.wait_until_held(reads));
  std::filesystem::resize_file(file.path(), 4'000);
  script.release_all();
  const auto failed = failure_of(std::move(loaded));
  REQUIRE(failed);
  CHECK(failed->code() == errc::truncated_file);
  CHECK(bytes > 451'000);
  CHECK(holds(failed->what(), "451,"));
  CHECK(holds(failed->what(), "4,000"));
  CHECK(arenas_taken == 0);
}

TEST_CASE("a file that grows or is written while it is loaded is changed_file") {
  const made_file file(some_tensors(), 3);
  read_script script(all_held(read_fate::hold::start));
  scripted_loader with(script, small_options(8), counted_host());
  std::future<model> loaded;
  SUBCASE("it grows") {
    loaded = load_meanwhile(with, script, file, read_route::automatic, [&] {
      std::ofstream(file.path(), std::ios::app | std::ios::binary) << "more";
    });
  }
  SUBCASE("only its time of modification changes") {
    loaded = load_meanwhile(with, script, file, read_route::automatic, [&] {
      const auto later = std::filesystem::last_write_time(file.path()) + std::chrono::seconds(1);
      std::filesystem::last_write_time(file.path(), later);
    });
  }
  const auto failed = failure_of(std::move(loaded));
  REQUIRE(failed);
  CHECK(failed->code() == errc::changed_file);
  CHECK(holds(failed->what(), "model.safetensors"));
  CHECK(arenas_taken == 0);
}

TEST_CASE("a file that is deleted or replaced while it is loaded is loaded as it was") {
  const std::string text = checkpoint_text(some_tensors(), 3);
  const made_file file(made_file::as_it_is::text, text);
  read_script script(all_held(read_fate::hold::start));
  scripted_loader with(script, small_options(8));
  std::future<model> loaded;
  SUBCASE("deleted") {
    loaded = load_meanwhile(with, script, file, read_route::automatic,
                            [&] { std::filesystem::remove(file.path()); });
  }
  SUBCASE("replaced") {
    loaded = load_meanwhile(with, script, file, read_route::automatic, [&] {
      const auto other = file.path().parent_path() / "other";
      write_file(other, checkpoint_text(some_tensors(), 3, 99));
      std::filesystem::rename(other, file.path());
    });
  }
  const model whole = get(std::move(loaded));
  REQUIRE(whole.size() == 3);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const tensor_info& info = whole.catalog().tensors[i];
    CHECK(bytes_of(whole[i]) == std::string_view(text).substr(info.offset, info.bytes));
  }
}
