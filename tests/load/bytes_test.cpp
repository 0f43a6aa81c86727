// SPDX-License-Identifier: Apache-2.0

// Compares every loaded byte with the file, for every engine and route.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <ringload/ringload.hpp>

#include "support/made_checkpoint.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

// The checks of one load.
struct seen {
  std::uint64_t unstaged = 0;
  std::uint64_t staged = 0;
};

// Loads the files by each engine and each route, cold and warm, and has_digest.
seen check_by_all_ways(const std::string& source, const std::vector<std::filesystem::path>& files,
                       std::size_t tensors) {
  seen all;
  for (const read_engine engine : {read_engine::ring, read_engine::threads}) {
    std::unique_ptr<loader> with;
    try {
      with = std::make_unique<loader>(host(), small_options(4, engine));
    } catch (const error& e) {
      REQUIRE(e.code() == errc::engine_unavailable);
      skip("no io_uring");
      continue;
    }
    for (const read_route route :
         {read_route::automatic, read_route::direct, read_route::buffered}) {
      for (const bool cold : {true, false}) {
        for (const auto& file : files) {
          if (cold) make_cold(file);
          if (!cold) file_bytes(file.string(), 0, std::filesystem::file_size(file));
        }
        CAPTURE(int(engine));
        CAPTURE(int(route));
        CAPTURE(cold);
        auto future = with->load_async(source, by(route), use_future);
        try {
          const model loaded = get(std::move(future));
          const load_stats& s = loaded.stats();
          CHECK(loaded.size() == tensors);
          CHECK(first_difference(loaded) == "");
          CHECK((route != read_route::direct || s.bytes_buffered == 0));
          CHECK((route != read_route::buffered || s.bytes_direct == 0));
          all.unstaged += s.bytes_unstaged;
          all.staged += s.bytes_direct + s.bytes_buffered - s.bytes_unstaged;
        } catch (const error& e) {
          REQUIRE(e.code() == errc::direct_unavailable);
          REQUIRE(route == read_route::direct);
          skip("no direct reads of files in the temporary folder");
        }
      }
    }
  }
  return all;
}

seen check_by_all_ways(const made_file& file, std::size_t tensors) {
  return check_by_all_ways(file.name(), {file.path()}, tensors);
}

}  // namespace

TEST_CASE("bytes: headers of every length modulo 8, tensors of odd sizes") {
  seen all;
  for (std::size_t spaces = 0; spaces < 8; ++spaces) {
    const made_file file({{"a", 1},
                          {"b", 4095},
                          {"c", 4097},
                          f32("d", 1001),
                          {"e", 65'537},
                          {"f", 3},
                          f32("g", 40'000),
                          {"h", 200'003}},
                         spaces);
    const seen now = check_by_all_ways(file, 8);
    all.unstaged += now.unstaged;
    all.staged += now.staged;
  }
  // Both unstaged and staged reads were made.
  CHECK(all.unstaged > 0);
  CHECK(all.staged > 0);
}

TEST_CASE("bytes: tensors that lie misaligned for their type") {
  for (std::size_t spaces = 0; spaces < 4; ++spaces) {
    const made_file file({{"odd", 1},
                          {"f64", 80'000, "F64", 8},
                          {"one", 1},
                          {"bf16", 70'002, "BF16", 2},
                          {"three", 3},
                          f32("f32", 70'001),
                          {"i64", 8, "I64", 8}},
                         spaces);
    const seen all = check_by_all_ways(file, 7);
    // Only direct reads need the slots, and a file system in memory has none.
    if (!is_in_memory(file.path())) CHECK(all.staged > 0);
  }
}

TEST_CASE("bytes: tensors of 0 bytes between others, at the beginning and at the end") {
  const made_file file(
      {{"begin", 0}, {"a", 70'000}, {"middle", 0}, f32("none", 0), {"b", 70'001}, {"end", 0}});
  check_by_all_ways(file, 6);
}

TEST_CASE("bytes: one tensor of some slots, and of a slot and a byte") {
  check_by_all_ways(made_file(equal_tensors(1, 10 * small_slot + 1)), 1);
  check_by_all_ways(made_file({f32("large", 3 * small_slot)}, 1), 1);
  check_by_all_ways(made_file({{"a", small_slot + 1}, {"b", small_slot - 1}}), 2);
}

TEST_CASE("bytes: a file of less than a block") {
  check_by_all_ways(made_file(equal_tensors(1, 5)), 1);
}

TEST_CASE("bytes: shards") {
  const temporary_folder folder;
  std::vector<std::filesystem::path> files;
  for (unsigned i = 1; i <= 3; ++i) {
    const std::string n = std::to_string(i);
    files.push_back(folder.path() / ("model-0000" + n + "-of-00003.safetensors"));
    write_file(files.back(),
               checkpoint_text({{"a" + n, 70'000 + i}, f32("b" + n, 30'000), {"c" + n, 0}}, i, i));
  }
  check_by_all_ways(folder.path().string(), files, 9);
}

TEST_CASE("bytes: 20,000 tiny tensors") {
  std::vector<made_tensor> tiny;
  for (unsigned i = 0; i < 20'000; ++i) {
    const std::string name = "layer." + std::to_string(i);
    tiny.push_back(i % 3 == 0 ? f32(name, 1 + i % 5) : made_tensor{name, i % 23});
  }
  const std::string text = checkpoint_text(tiny, 1);
  const made_file file(made_file::as_it_is::text, text);
  for (const read_engine engine : {read_engine::automatic, read_engine::threads}) {
    for (const read_route route : {read_route::automatic, read_route::buffered}) {
      make_cold(file.path());
      loader with(host(), small_options(4, engine));
      load_operation load = get(with.start_async(file.name(), by(route), use_future));
      const tensor last = get(load.tensor_async("layer.19999", use_future));
      CHECK(last.size_bytes() == 19'999 % 23);
      const model loaded = get(load.finish_async(use_future));
      REQUIRE(loaded.size() == 20'000);
      unsigned wrong = 0;
      for (std::size_t i = 0; i < loaded.size(); ++i) {
        const tensor_info& info = loaded.catalog().tensors[i];
        const auto wanted = std::string_view(text).substr(info.offset, info.bytes);
        if (bytes_of(loaded[i]) != wanted || !loaded.find(info.name)) ++wrong;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("bytes: every tensor has the alignment that the load requires") {
  std::vector<made_tensor> tensors = {{"a", 999}, f32("b", 20'000), {"none", 0}, {"c", 150'001}};
  for (std::uint64_t i = 0; i < 20; ++i) {
    tensors.push_back({"t" + std::to_string(i), 7 + 4099 * i});
  }
  const made_file file(tensors);
  loader with(host(), small_options());
  for (const allocation memory :
       {allocation::per_load, allocation::per_file, allocation::per_tensor}) {
    for (const std::uint32_t alignment : {1U, 64U, 512U, 4096U}) {
      load_options options;
      options.allocation = memory;
      options.tensor_alignment = alignment;
      const model loaded = get(with.load_async(file.name(), options, use_future));
      CHECK(first_difference(loaded) == "");
      for (const tensor& t : loaded) {
        CAPTURE(t.name());
        CHECK(reinterpret_cast<std::uintptr_t>(t.data()) % alignment == 0);
      }
    }
  }
  for (const std::uint32_t alignment : {0U, 3U, 8192U}) {
    load_options options;
    options.tensor_alignment = alignment;
    const auto failed = failure_of(with.load_async(file.name(), options, use_future));
    REQUIRE(failed);
    CHECK(failed->code() == errc::invalid_options);
    CHECK(failed->place() == "load_options::tensor_alignment");
  }
}
