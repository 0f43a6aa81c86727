// SPDX-License-Identifier: Apache-2.0

// The reads of each rank, and the part of a read that another rank needs.

#include "ranks/split_work.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace ringload;
using namespace ringload::detail;

namespace {

tensor_info of_shape(std::vector<std::uint64_t> shape, dtype type = dtype::f32) {
  tensor_info t;
  t.dtype = type;
  t.bytes = bits(type) / 8;
  for (const std::uint64_t size : shape) t.bytes *= size;
  t.stored_bytes = t.bytes;
  t.shape = std::move(shape);
  return t;
}

catalog of_tensors(std::vector<tensor_info> all) {
  catalog out;
  out.tensors = std::move(all);
  return out;
}

// "0:0+2 1:2+2": rank:first row+rows, of each piece of a tensor.
std::string pieces_of(const std::vector<read_piece>& all, std::uint32_t tensor) {
  std::string text;
  for (const read_piece& p : all) {
    if (p.tensor != tensor) continue;
    text += (text.empty() ? "" : " ") + std::to_string(p.rank) + ":" +
            std::to_string(p.rows.begin) + "+" + std::to_string(p.rows.count);
  }
  return text;
}

void copy_now(const row_copy& copy) { copy_rows_on_host({&copy, 1}); }

}  // namespace

TEST_CASE("division: bytes are divided evenly, and tensors cut between rows") {
  const catalog all = of_tensors({of_shape({10, 2}), of_shape({}), of_shape({6, 3})});
  // 80, 4 and 72 bytes: the ranks begin at 0, 52 and 104 of 156.
  const auto pieces = split_work(all, 3, {});
  CHECK(pieces_of(pieces, 0) == "0:0+7 1:7+3");
  CHECK(pieces_of(pieces, 1) == "1:0+1");
  CHECK(pieces_of(pieces, 2) == "1:0+2 2:2+4");
  CHECK_FALSE(pieces[0].whole);
  CHECK(pieces[2].whole);
}

TEST_CASE("division: of one rank, and of more ranks than rows, every row has a reader") {
  const catalog all = of_tensors({of_shape({3})});
  CHECK(pieces_of(split_work(all, 1, {}), 0) == "0:0+3");
  CHECK(pieces_of(split_work(all, 3, {}), 0) == "0:0+1 1:1+1 2:2+1");
  CHECK(pieces_of(split_work(all, 7, {}), 0) == "0:0+1 2:1+1 4:2+1");
  CHECK(split_work(of_tensors({}), 4, {}).empty());
}

TEST_CASE("division: what is encoded, has no rows or no bytes is not cut") {
  tensor_info deflated = of_shape({100});
  deflated.encoding = "deflate";
  tensor_info blocks = of_shape({180}, dtype::u8);
  blocks.original_shape = {320};
  const catalog all = of_tensors({deflated, blocks, of_shape({}), of_shape({0, 5}), of_shape({8})});
  const auto pieces = split_work(all, 2, {});
  for (std::uint32_t t = 0; t < 4; ++t) {
    CHECK(std::ranges::count(pieces, t, &read_piece::tensor) == 1);
  }
  const auto uncut = split_work(all, 2, {false});
  CHECK(uncut.size() == 5);
}

TEST_CASE("division: each rank reads its block of a large tensor") {
  const catalog all = of_tensors({of_shape({4}), of_shape({100, 10}), of_shape({4})});
  const work_division by_blocks = {.block_bytes_min = 1000};
  // The blocks of the second tensor have 1,000 bytes. The other tensors have 16 bytes each.
  const auto pieces = split_work(all, 4, by_blocks);
  CHECK(pieces_of(pieces, 0) == "0:0+2 1:2+2");
  CHECK(pieces_of(pieces, 1) == "0:0+25 1:25+25 2:50+25 3:75+25");
  CHECK(pieces_of(pieces, 2) == "2:0+2 3:2+2");
  CHECK(std::ranges::none_of(pieces, [](const read_piece& p) { return p.whole; }));
  // Five blocks are too small.
  CHECK(pieces_of(split_work(all, 5, by_blocks), 1) == pieces_of(split_work(all, 5, {}), 1));
  CHECK(pieces_of(split_work(all, 1, by_blocks), 1) == "0:0+100");
  CHECK(split_work(all, 4, {false, 1000}).size() == 3);
}

TEST_CASE("division: blocks that differ much in size are not used") {
  const work_division by_blocks = {.block_bytes_min = 1};
  const auto pieces = [&](std::uint64_t rows) {
    return pieces_of(split_work(of_tensors({of_shape({rows})}), 4, by_blocks), 0);
  };
  CHECK(pieces(8) == "0:0+2 1:2+2 2:4+2 3:6+2");
  // Four blocks of 8 rows exceed 31 rows by 1, and 31 / 16 is 1. For 15 and 29 rows, the excess is
  // larger than 1/16 of the rows.
  CHECK(pieces(31) == "0:0+8 1:8+8 2:16+8 3:24+7");
  CHECK(pieces(15) == pieces_of(split_work(of_tensors({of_shape({15})}), 4, {}), 0));
  CHECK(pieces(29) == pieces_of(split_work(of_tensors({of_shape({29})}), 4, {}), 0));
  CHECK(pieces(3) == "0:0+1 1:1+1 2:2+1");
}

TEST_CASE("division: encoded and quantised tensors have no blocks") {
  tensor_info deflated = of_shape({100});
  deflated.encoding = "deflate";
  tensor_info blocks = of_shape({180}, dtype::u8);
  blocks.original_shape = {320};
  const catalog all = of_tensors({deflated, blocks, of_shape({}), of_shape({0, 5})});
  CHECK(split_work(all, 2, {.block_bytes_min = 1}).size() == 4);
}

TEST_CASE("division: whatever the catalog, each row is read once, and no rank reads much more") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<tensor_info> made;
    const std::size_t count = random() % 9;
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<std::uint64_t> shape(random() % 4);
      for (std::uint64_t& size : shape) size = random() % 12 == 0 ? 0 : 1 + random() % 40;
      made.push_back(of_shape(shape, random() % 2 == 0 ? dtype::f32 : dtype::u8));
    }
    const catalog all = of_tensors(std::move(made));
    const auto ranks = static_cast<std::uint32_t>(1 + random() % 9);
    std::vector<std::uint64_t> read(ranks);
    std::vector<std::uint64_t> next(all.tensors.size());
    std::uint64_t largest_row = 0;
    std::uint64_t excess = 0;
    work_division division;
    if (round % 2 == 1) division.block_bytes_min = 1 + random() % 2000;
    for (const read_piece& p : split_work(all, ranks, division)) {
      const tensor_info& t = all.tensors[p.tensor];
      const std::uint64_t rows = t.shape.empty() ? 1 : t.shape.front();
      REQUIRE(p.rank < ranks);
      CHECK(p.rows.begin == next[p.tensor]);
      next[p.tensor] = p.rows.end();
      CHECK(p.whole == (p.rows.begin == 0 && p.rows.count == rows));
      const std::uint64_t row_bytes = rows == 0 ? 0 : t.bytes / rows;
      largest_row = std::max(largest_row, row_bytes);
      read[p.rank] += p.rows.count * row_bytes;
    }
    for (std::size_t t = 0; t < next.size(); ++t) {
      const tensor_info& info = all.tensors[t];
      CHECK(next[t] == (info.shape.empty() ? 1 : info.shape.front()));
    }
    const std::uint64_t share = all.size_bytes() / ranks;
    // Blocks can be larger than equal parts by 1/16, and by a row for each tensor.
    if (round % 2 == 1) excess = share / 16 + count * largest_row;
    for (const std::uint64_t bytes : read) CHECK(bytes <= share + largest_row + excess + 1);
  }
}

TEST_CASE("division: blocks of ranks are of ceil(size / ranks), and the last may be empty") {
  CHECK(block_of(10, 0, 4) == index_range{0, 3});
  CHECK(block_of(10, 3, 4) == index_range{9, 1});
  CHECK(block_of(4, 3, 4) == index_range{3, 1});
  CHECK(block_of(3, 2, 4) == index_range{2, 1});
  CHECK(block_of(3, 3, 4).count == 0);
  CHECK(block_of(0, 0, 4).count == 0);
  CHECK(block_of(~0ULL, 2, 3).end() == ~0ULL);
  CHECK(intersection({2, 5}, {4, 9}) == index_range{4, 3});
  CHECK(intersection({2, 2}, {4, 9}).count == 0);
}

TEST_CASE("division: a block is taken out of a tensor, and put back, around any dimension") {
  const std::vector<std::uint64_t> shape = {3, 4, 5};
  std::vector<std::byte> all(3 * 4 * 5 * 2);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::byte(i);
  for (std::uint32_t dim = 0; dim < 3; ++dim) {
    const auto of = around(shape, 16, dim);
    REQUIRE(of);
    std::vector<std::byte> again(all.size());
    for (std::uint64_t begin = 0; begin < shape[dim]; begin += 2) {
      const index_range what = {begin, std::min<std::uint64_t>(2, shape[dim] - begin)};
      std::vector<std::byte> block(of->bytes_of(what));
      copy_now(take_block(all.data(), *of, what, block.data()));
      copy_now(put_block(block.data(), what, *of, again.data()));
    }
    CHECK(again == all);
  }
  // [:, 1:3, :] of the second plane begins with its element 5.
  std::vector<std::byte> block(3 * 2 * 5 * 2);
  copy_now(take_block(all.data(), *around(shape, 16, 1), {1, 2}, block.data()));
  CHECK(block[20] == all[(20 + 5) * 2]);
}

TEST_CASE("division: there is no dimension beyond the last, and none that cuts a byte") {
  const std::vector<std::uint64_t> shape = {4, 3};
  CHECK_FALSE(around(shape, 8, 2));
  CHECK_FALSE(around({}, 8, 0));
  CHECK_FALSE(around(shape, 4, 0));
  const std::vector<std::uint64_t> even = {3, 4};
  CHECK(around(even, 4, 0)->inner_bytes == 2);
  CHECK_FALSE(around(even, 4, 1));
}
