// SPDX-License-Identifier: Apache-2.0

// Loads of encoded tensors: deflated members of an NPZ archive, Fortran order, and big-endian
// numbers. The test builds the archives.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <cstring>
#include <fstream>
#include <random>
#include <ringload/loader.hpp>
#include <string>
#include <vector>

#include "support/made_checkpoint.hpp"
#include "support/npz_text.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

std::string loaded_bytes(const model& from, const std::string& name) {
  return std::string(testing::bytes_of(from.at(name)));
}

}  // namespace

TEST_CASE("decoded: deflated members of any size are loaded, with any number of slots") {
  std::vector<zip_part> parts;
  std::vector<std::string> originals;
  // Tensors that are much smaller than a slot, and tensors of many slots.
  for (const std::uint64_t bytes : {1U, 100U, 60'000U, 200'000U, 1'500'000U, 3'000'000U, 0U}) {
    originals.push_back(compressible(bytes, bytes + 1));
    const std::string i = std::to_string(originals.size() - 1);
    parts.push_back(member(
        "a" + i, npy_text("|u1", false, std::to_string(bytes) + ",", originals.back()), true));
    parts.push_back(member("raw" + i, npy_text("|u1", false, "5,", "12345"), false));
  }
  const npz_file file(parts);
  for (const std::uint32_t slots : {1U, 2U, 5U}) {
    for (const auto engine : {read_engine::automatic, read_engine::threads}) {
      loader_options within = small_options(slots, engine);
      within.copy_threads = 2;
      loader with(host(), within);
      for (const auto route : {read_route::automatic, read_route::buffered}) {
        make_cold(file.path());
        const model loaded = get(with.load_async(file.name(), by(route), use_future));
        REQUIRE(loaded.size() == 2 * originals.size());
        for (std::size_t i = 0; i < originals.size(); ++i) {
          CAPTURE(slots);
          CHECK((loaded_bytes(loaded, "a" + std::to_string(i)) == originals[i]));
          CHECK(loaded_bytes(loaded, "raw" + std::to_string(i)) == "12345");
        }
      }
    }
  }
}

TEST_CASE("decoded: an awaited tensor of a long stream comes, whoever awaits which") {
  std::vector<zip_part> parts;
  std::vector<std::string> originals;
  for (int i = 0; i < 6; ++i) {
    originals.push_back(compressible(900'000, static_cast<std::uint64_t>(i) + 1));
    parts.push_back(
        member("t" + std::to_string(i), npy_text("|u1", false, "900000,", originals.back()), true));
  }
  const npz_file file(parts);
  loader with(host(), small_options(3));
  for (int turn = 0; turn < 5; ++turn) {
    load_operation load = get(with.start_async(file.name(), use_future));
    std::vector<std::future<tensor>> waits;
    for (int i = 5; i >= 0; --i) {
      waits.push_back(load.tensor_async("t" + std::to_string(i), use_future));
    }
    for (int i = 5; i >= 0; --i) {
      const tensor t = get(std::move(waits[static_cast<std::size_t>(5 - i)]));
      CHECK((testing::bytes_of(t) == originals[static_cast<std::size_t>(i)]));
    }
    CHECK(get(load.finish_async(use_future)).size() == 6);
  }
}

TEST_CASE("decoded: Fortran order and big-endian numbers become row-major and little-endian") {
  constexpr std::uint64_t rows = 301;
  constexpr std::uint64_t columns = 203;
  std::string row_major;
  for (std::uint32_t i = 0; i < rows * columns; ++i) row_major += number(i * 2654435761U, 4);
  std::string stored(row_major.size(), '\0');
  for (std::uint64_t r = 0; r < rows; ++r) {
    for (std::uint64_t c = 0; c < columns; ++c) {
      for (std::uint64_t b = 0; b < 4; ++b) {
        stored[(c * rows + r) * 4 + b] = row_major[(r * columns + c) * 4 + 3 - b];
      }
    }
  }
  for (const bool compressed : {false, true}) {
    const npz_file file({member("m", npy_text(">u4", true, "301, 203", stored), compressed)});
    for (const std::uint32_t slots : {1U, 4U}) {
      loader with(host(), small_options(slots));
      const model loaded = get(with.load_async(file.name(), use_future));
      CHECK(loaded.at("m").dtype() == dtype::u32);
      CHECK((loaded_bytes(loaded, "m") == row_major));
      const checkpoint opened = get(with.open_async(file.name(), use_future));
      const model part = get(
          with.load_async(opened, select().slice("m", 0, 100, 7).slice("m", 1, 50, 9), use_future));
      std::string expected;
      for (std::uint64_t r = 100; r < 107; ++r) {
        expected += row_major.substr((r * columns + 50) * 4, 9 * 4);
      }
      CHECK((loaded_bytes(part, "m") == expected));
    }
  }
}

TEST_CASE("decoded: numbers are converted out of a stream") {
  std::string f32_bytes;
  std::string bf16_bytes;
  for (std::uint32_t i = 0; i < 300'000; ++i) {
    const std::uint32_t upper = 0x3F80 + i % 77;  // Exact in a bf16.
    f32_bytes += number(std::uint64_t{upper} << 16U, 4);
    bf16_bytes += number(upper, 2);
  }
  const npz_file file({member("w", npy_text("<f4", false, "300000,", f32_bytes), true)});
  loader with(host(), small_options());
  load_options options;
  options.dtype = dtype::bf16;
  const model loaded = get(with.load_async(file.name(), options, use_future));
  CHECK((loaded_bytes(loaded, "w") == bf16_bytes));
}

TEST_CASE("decoded: a damaged stream fails the load, and names tensor and cause") {
  const std::string original = compressible(500'000, 9);
  zip_part part = member("w", npy_text("|u1", false, "500000,", original), true);
  part.crc ^= 1U;
  const npz_file wrong_sum({part});
  loader with(host(), small_options());
  const auto failed = failure_of(with.load_async(wrong_sum.name(), use_future));
  REQUIRE(failed.has_value());
  CHECK(failed->code() == errc::malformed_stream);
  CHECK(holds(failed->what(), "tensor 'w'"));
  CHECK(holds(failed->what(), "CRC-32"));

  part.crc ^= 1U;
  std::mt19937 random(4);
  int refused = 0;
  for (int i = 0; i < 40; ++i) {
    zip_part damaged = part;
    damaged.stored[200 + random() % (damaged.stored.size() - 200)] ^= 0x20;
    const npz_file file({damaged});
    const auto code = code_of(with.load_async(file.name(), use_future));
    CHECK((code == errc::malformed_stream || code == errc::malformed_header));
    if (code) ++refused;
  }
  CHECK(refused == 40);  // The checksum detects every error.
  const npz_file whole({part});
  CHECK((loaded_bytes(get(with.load_async(whole.name(), use_future)), "w") == original));
}

TEST_CASE("decoded: a load can be cancelled while it decodes, and leaves nothing behind") {
  std::vector<zip_part> parts;
  for (int i = 0; i < 4; ++i) {
    const std::string content = compressible(2'000'000, static_cast<std::uint64_t>(i) + 1);
    parts.push_back(
        member("t" + std::to_string(i), npy_text("|u1", false, "2000000,", content), true));
  }
  const npz_file file(parts);
  for (int turn = 0; turn < 20; ++turn) {
    loader with(host(), small_options(2));
    load_operation load = get(with.start_async(file.name(), use_future));
    auto first = load.tensor_async("t" + std::to_string(turn % 4), use_future);
    if (turn % 2 == 0) get(std::move(first));
    auto whole = load.finish_async(use_future);
    load.cancel();
    const auto code = code_of(std::move(whole));
    CHECK((code == boost::asio::error::operation_aborted || !code));
  }
}
