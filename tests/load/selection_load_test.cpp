// SPDX-License-Identifier: Apache-2.0

// Open checkpoints, and the bytes of slices, shards and fused tensors.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <fstream>
#include <random>
#include <ringload/loader.hpp>
#include <string>
#include <vector>

#include "support/made_checkpoint.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

struct shaped {
  std::string name;
  std::string dtype;
  std::uint64_t element_bytes;
  std::vector<std::uint64_t> shape;
};

std::uint64_t dense_bytes(const shaped& t) {
  std::uint64_t bytes = t.element_bytes;
  for (const std::uint64_t each : t.shape) bytes *= each;
  return bytes;
}

std::string text_of(const std::vector<shaped>& tensors, std::size_t spaces) {
  std::string header = "{";
  std::uint64_t at = 0;
  for (const shaped& t : tensors) {
    std::string sizes;
    for (const std::uint64_t each : t.shape) {
      sizes += (sizes.empty() ? "" : ",") + std::to_string(each);
    }
    if (header.size() > 1) header += ',';
    header += tensor_text(t.name, t.dtype, sizes, at, at + dense_bytes(t));
    at += dense_bytes(t);
  }
  return safetensors_text(header + '}' + std::string(spaces, ' '), noise(at, spaces));
}

// Returns the bytes of a box of a row-major tensor, element by element.
std::string box_of(const std::string& whole, const shaped& t,
                   const std::vector<std::pair<std::uint64_t, std::uint64_t>>& ranges) {
  std::string out;
  std::vector<std::uint64_t> at;
  for (const auto& [begin, end] : ranges) {
    if (begin == end) return out;
    at.push_back(begin);
  }
  for (;;) {
    std::uint64_t index = 0;
    for (std::size_t d = 0; d < at.size(); ++d) index = index * t.shape[d] + at[d];
    out += whole.substr(index * t.element_bytes, t.element_bytes);
    std::size_t d = at.size();
    while (d > 0 && ++at[d - 1] == ranges[d - 1].second) {
      at[d - 1] = ranges[d - 1].first;
      --d;
    }
    if (d == 0) return out;
  }
}

std::string original(const checkpoint& from, const std::string& name) {
  const tensor_info& info = from.at(name);
  return file_bytes(from.catalog().files[info.file].path, info.offset, info.bytes);
}

}  // namespace

TEST_CASE("open: a checkpoint is opened once, for several loads of several loaders") {
  const made_file file(equal_tensors(5, 100'000));
  checkpoint opened;
  {
    loader first(host(), small_options());
    opened = get(first.open_async(file.name(), use_future));
    CHECK(opened.size() == 5);
    CHECK(opened.contains("t3"));
    CHECK(opened.find("t5") == nullptr);
    CHECK(opened.at("t3").bytes == 100'000);
    CHECK_THROWS_AS(opened.at("t5"), error);
    CHECK(opened.matching("t[12]") == std::vector<std::string_view>{"t1", "t2"});
    auto one = first.load_async(opened, use_future);
    auto two = first.load_async(opened, use_future);
    CHECK(first_difference(get(std::move(one))) == "");
    CHECK(first_difference(get(std::move(two))) == "");
  }
  // The loader that opened the checkpoint, and the name, are no longer needed.
  std::filesystem::rename(file.path(), file.path().string() + ".moved");
  loader second(host(), small_options(4, read_engine::threads));
  const model again = get(second.load_async(opened, opened.only("t4"), use_future));
  REQUIRE(again.size() == 1);
  CHECK(again[0].name() == "t4");
  std::filesystem::rename(file.path().string() + ".moved", file.path());
  CHECK(bytes_of(again[0]) == original(opened, "t4"));
}

TEST_CASE("open: one tensor of a checkpoint costs one read") {
  const made_file file(equal_tensors(50, 20'000));
  loader with(host(), small_options());
  const checkpoint opened = get(with.open_async(file.name(), use_future));
  for (const char* name : {"t0", "t17", "t49"}) {
    make_cold(file.path());
    const model one = get(with.load_async(opened, opened.only(name), use_future));
    CHECK(bytes_of(one.at(name)) == original(opened, name));
    CHECK(one.stats().reads == 1);
  }
}

TEST_CASE("open: a file that was written to since is refused, and a failed open says why") {
  const made_file file(equal_tensors(3, 5'000));
  loader with(host(), small_options());
  const checkpoint opened = get(with.open_async(file.name(), use_future));
  {
    std::fstream out(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(-1, std::ios::end);
    out.put('x');
  }
  CHECK(code_of(with.load_async(opened, use_future)) == errc::changed_file);
  std::filesystem::resize_file(file.path(), 3'000);
  CHECK(code_of(with.load_async(opened, use_future)) == errc::truncated_file);
  CHECK(code_of(with.open_async(file.name() + "x", use_future)) == errc::source_not_found);
  CHECK(code_of(with.open_async(std::vector<std::string>(), use_future)) ==
        errc::invalid_source_name);
}

TEST_CASE("open: files of a list, and of a folder, are one checkpoint") {
  const made_file a(std::vector<made_tensor>{{"a", 7'000}});
  const made_file b(std::vector<made_tensor>{{"b", 9'000}});
  loader with(host(), small_options());
  const checkpoint both =
      get(with.open_async(std::vector<std::string>{a.name(), b.name()}, use_future));
  CHECK(both.size() == 2);
  CHECK(first_difference(get(with.load_async(both, use_future))) == "");
  const temporary_folder folder;
  write_file(folder.path() / "x.safetensors", checkpoint_text({{"x", 10}}));
  write_file(folder.path() / "y.safetensors", checkpoint_text({{"y", 10}}));
  open_options each;
  each.independent_files = true;
  CHECK(get(with.open_async(folder.path().string(), each, use_future)).size() == 2);
}

TEST_CASE("open: the route is the load's, though the files are open for both") {
  const made_file file(equal_tensors(4, 256 * 1024));
  loader with(host(), small_options(8));
  const checkpoint opened = get(with.open_async(file.name(), use_future));
  make_cold(file.path());
  load_options how;
  how.route = read_route::buffered;
  const model loaded = get(with.load_async(opened, how, use_future));
  CHECK(loaded.stats().bytes_direct == 0);
  CHECK(loaded.stats().bytes_buffered >= 4 * 256 * 1024);
}

TEST_CASE("open: a catalog is read without a loader as well, from all that can be opened") {
  const temporary_folder folder;
  const std::vector<std::string> files = {folder.path() / "x.safetensors",
                                          folder.path() / "y.safetensors"};
  write_file(files[0], checkpoint_text({{"x", 10}}));
  write_file(files[1], checkpoint_text({{"y", 20}}));
  open_options each;
  each.independent_files = true;
  CHECK(read_catalog(files, open_options()).size_bytes() == 30);
  CHECK(read_catalog(folder.path().string(), each).size_bytes() == 30);
  CHECK(read_catalog(files[1], open_options()).size_bytes() == 20);
  CHECK_THROWS_AS(read_catalog(folder.path().string(), open_options()), error);
}

TEST_CASE("selection: only what is chosen is read") {
  const made_file file(equal_tensors(40, 256 * 1024));
  loader with(host(), small_options(8));
  const checkpoint opened = get(with.open_async(file.name(), use_future));
  make_cold(file.path());
  const model some = get(with.load_async(opened, select().matching("t1?"), use_future));
  CHECK(some.size() == 10);
  for (const tensor t : some) CHECK(bytes_of(t) == original(opened, std::string(t.name())));
  CHECK(some.stats().bytes_total == 10 * 256 * 1024);
  CHECK(some.stats().bytes_direct + some.stats().bytes_buffered <= 10 * 256 * 1024 + 2 * 4096);
  CHECK(code_of(with.load_async(opened, select().names({"t40"}), use_future)) ==
        errc::no_such_tensor);
}

TEST_CASE("selection: any box of any tensor is that box, dense and row-major") {
  std::mt19937 random(3);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  for (int turn = 0; turn < 40; ++turn) {
    std::vector<shaped> tensors;
    for (int i = 0; i < 6; ++i) {
      const bool wide = below(3) == 0;
      const bool half = below(2) == 0;
      shaped t = {"t" + std::to_string(i),
                  wide   ? "F64"
                  : half ? "BF16"
                         : "U8",
                  wide   ? 8U
                  : half ? 2U
                         : 1U,
                  {}};
      for (auto n = below(4); n > 0; --n) t.shape.push_back(1 + below(n > 1 ? 60 : 300));
      tensors.push_back(t);
    }
    const made_file file(made_file::as_it_is::text, text_of(tensors, below(5000)));
    loader with(host(), small_options(1 + static_cast<std::uint32_t>(below(5))));
    const checkpoint opened = get(with.open_async(file.name(), use_future));
    selection wanted;
    std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> boxes;
    for (const shaped& t : tensors) {
      std::vector<std::pair<std::uint64_t, std::uint64_t>> box;
      for (std::uint32_t d = 0; d < t.shape.size(); ++d) {
        std::uint64_t begin = 0;
        std::uint64_t end = t.shape[d];
        if (below(2) == 0) {
          begin = below(t.shape[d]);
          end = begin + below(t.shape[d] - begin + 1);
          wanted.slice(t.name, d, begin, end - begin);
        }
        box.emplace_back(begin, end);
      }
      boxes.push_back(box);
    }
    if (below(2) == 0) make_cold(file.path());
    const model loaded = get(with.load_async(opened, wanted, use_future));
    REQUIRE(loaded.size() == tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const tensor t = loaded.at(tensors[i].name);
      const std::string expected = box_of(original(opened, tensors[i].name), tensors[i], boxes[i]);
      CAPTURE(turn);
      CAPTURE(tensors[i].name);
      REQUIRE(t.size_bytes() == expected.size());
      REQUIRE((bytes_of(t) == expected));
      for (std::size_t d = 0; d < boxes[i].size(); ++d) {
        REQUIRE(t.shape()[d] == boxes[i][d].second - boxes[i][d].first);
      }
    }
  }
}

TEST_CASE("selection: shards are converted too, and fused tensors lie behind each other") {
  const std::vector<shaped> tensors = {{"q", "U8", 1, {10, 300}},
                                       {"other", "U8", 1, {5'000}},
                                       {"k", "U8", 1, {4, 300}},
                                       {"v", "U8", 1, {4, 300}}};
  const made_file file(made_file::as_it_is::text, text_of(tensors, 11));
  loader with(host(), small_options());
  const checkpoint opened = get(with.open_async(file.name(), use_future));
  for (const std::uint32_t dim : {0U, 1U}) {
    selection wanted = select().fused("kv", {"v", "k"}, dim).names({"q"});
    wanted.shard("*", 1 - dim, 1, 3);
    const model loaded = get(with.load_async(opened, wanted, use_future));
    REQUIRE(loaded.size() == 2);
    const tensor kv = loaded.at("kv");
    const std::uint64_t along = dim == 0 ? 300 : 4;
    const std::uint64_t block = (along + 2) / 3;
    const std::pair<std::uint64_t, std::uint64_t> part = {block, std::min(along, 2 * block)};
    const std::pair<std::uint64_t, std::uint64_t> all = {0, tensors[2].shape[dim]};
    const auto v = box_of(original(opened, "v"), tensors[3],
                          dim == 0 ? std::vector{all, part} : std::vector{part, all});
    const auto k = box_of(original(opened, "k"), tensors[2],
                          dim == 0 ? std::vector{all, part} : std::vector{part, all});
    std::string expected = v + k;
    if (dim == 1) {  // Compares row by row.
      expected.clear();
      for (std::uint64_t row = 0; row < part.second - part.first; ++row) {
        expected += v.substr(row * 300, 300) + k.substr(row * 300, 300);
      }
    }
    CHECK((bytes_of(kv) == expected));
    CHECK(kv.shape()[dim] == 2 * all.second);
  }
}

TEST_CASE("selection: an empty part of a fused tensor is loaded") {
  const std::vector<shaped> tensors = {
      {"a", "U8", 1, {3, 8}}, {"b", "U8", 1, {3, 8}}, {"c", "U8", 1, {0, 8}}};
  const made_file file(made_file::as_it_is::text, text_of(tensors, 7));
  loader with(host(), small_options());
  const checkpoint opened = get(with.open_async(file.name(), use_future));
  for (const std::uint64_t rank : {0U, 2U, 3U}) {
    const selection wanted = select().shard("[ab]", 0, rank, 4).fused("f", {"a", "b"}, 1);
    const model loaded = get(with.load_async(opened, wanted, use_future));
    const tensor fused = loaded.at("f");
    CHECK(fused.shape()[0] == (rank < 3 ? 1 : 0));
    CHECK(fused.shape()[1] == 16);
    const auto row = [&](const char* name) {
      return rank < 3 ? original(opened, name).substr(rank * 8, 8) : std::string();
    };
    CHECK((bytes_of(fused) == row("a") + row("b")));
  }
  const auto both = [&](const char* one, const char* other) {
    const selection wanted = select().fused("f", {one, other}, 0);
    const model loaded = get(with.load_async(opened, wanted, use_future));
    return std::string(bytes_of(loaded.at("f")));
  };
  CHECK((both("a", "c") == original(opened, "a")));
  CHECK((both("c", "b") == original(opened, "b")));
}
