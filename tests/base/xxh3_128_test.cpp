// SPDX-License-Identifier: Apache-2.0

#include "base/xxh3_128.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace ringload;

TEST_CASE("xxh3_128: has the values of the package xxhash, in steps of each size") {
  struct expected_value {
    std::size_t size;
    std::uint64_t high;
    std::uint64_t low;
  };
  // Python: xxhash.xxh3_128(bytes[:size]), of xxhash 4.1.0.
  constexpr expected_value expected[] = {
      {0, 0x99aa06d3014798d8, 0x6001c324468d497f},
      {1, 0xc89f16e01381dd11, 0xc00f9d4f580c0c3a},
      {2, 0xdfff8fb46bf94599, 0xb248061fb52bd64c},
      {3, 0x042980e29fe07a72, 0xe92112d1e602af4a},
      {4, 0x960811bdc2cb9dc3, 0xf38741e1b9ccfbd4},
      {7, 0x89f9a951f84d4b04, 0xe533c8e6e0b450ef},
      {8, 0xff5c240882695f40, 0x9aac4cd28c312a76},
      {9, 0x3ad200a3678150cd, 0x289d4cd1af0c84bd},
      {15, 0x59fb6f9b90d83888, 0xb224dd97f6e0c249},
      {16, 0x09bfcf6d0d0c7508, 0x729073442c453ee7},
      {17, 0xc0e06f2f6b379f4a, 0xd0b31235d80538af},
      {32, 0x0bee74e0e3ef7423, 0x7a78eb27b3aef28b},
      {33, 0xf01a5f3912b24aac, 0x0f2a1f3d6e780688},
      {64, 0x7d7cc02bbb48520e, 0xed9a84b3780fc908},
      {65, 0x559e598dd20cb466, 0xac9b1ce636d915da},
      {96, 0x14adfddcbd9065a3, 0x23c4ecc869a876ae},
      {97, 0x66891c04492fc201, 0x972292c2bfea9946},
      {128, 0xb0c97cf51fbd420e, 0xc14ef9bdf2926d91},
      {129, 0x77672b5beabfd29e, 0x1c66bb88fb267529},
      {159, 0xc17573859ac134ce, 0xdc4ae86d6167ae3f},
      {160, 0xdb8c7991735df886, 0x1f11bf59d5e3a2c8},
      {161, 0x6a6a89a45c857442, 0xa95ca882eeea54d5},
      {239, 0xb9c7a6741ba6770d, 0x3bff140641abd336},
      {240, 0x05fb829868e88d8b, 0x0dfe588c76a0d834},
      {241, 0x19f9ed05e7993896, 0x2cb1ed4a30c8bded},
      {255, 0x42c2c2a055b3ccf1, 0xc77eae9c20c21088},
      {256, 0x1104622b39302212, 0x7fd97c6450f19383},
      {1023, 0x606e53ea537672a5, 0x296b8bdbd696752e},
      {1024, 0x92da9c0cebcc106c, 0x5ec111a1e5a293ae},
      {1025, 0x76c00571248d6978, 0x5ea0264528a903fc},
      {1088, 0x67ee30e57b42f75b, 0x5caa733531330766},
      {2048, 0xab48f2dea3ca5add, 0x82651c64d545e737},
      {2049, 0x4d726fe56f7ab305, 0x35fa9759e87c7270},
      {5000, 0xc2d7138baef35917, 0x215db44dee9150c0},
      {65536, 0x9123c55b6141159c, 0xd062f29c26da8cf9},
  };
  std::vector<std::byte> bytes;
  for (std::uint64_t state = 1; bytes.size() < 65'536;) {
    state = state * 6'364'136'223'846'793'005 + 1'442'695'040'888'963'407;
    bytes.push_back(static_cast<std::byte>(state >> 56U));
  }
  for (const auto& [size, high, low] : expected) {
    CAPTURE(size);
    for (const std::size_t step : {1U, 100U, 1024U, 1'000'000U}) {
      xxh3_128 digest({bytes.data(), size});
      for (std::size_t end = 0; end <= size; end += step) digest.advance(end);
      CHECK(digest.finish() == xxh3_128_value{high, low});
    }
  }
}
