// SPDX-License-Identifier: Apache-2.0
#include "save/zt_layout.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace ringload;

namespace {

constexpr std::uint64_t huge = std::uint64_t{1} << 62;

}  // namespace

TEST_CASE("zt_layout: tensors follow each other in order, aligned, and the manifest is last") {
  const std::vector<layout_tensor> tensors = {{"a", dtype::u8, {100}}, {"b", dtype::f32, {2, 3}}};
  const std::vector<std::uint32_t> bytes_of = {0, 1};
  for (const std::uint64_t alignment : {std::uint64_t{64}, std::uint64_t{4096}}) {
    zt_settings settings;
    settings.alignment = alignment;
    settings.bytes_of = bytes_of;
    const auto layout = lay_out_zt(tensors, settings);
    REQUIRE(layout.has_value());
    REQUIRE(layout->files.size() == 1);
    REQUIRE(layout->tensors.size() == 2);
    const auto& [a, b] = std::pair(layout->tensors[0], layout->tensors[1]);
    CHECK(a.offset % alignment == 0);
    CHECK(b.offset % alignment == 0);
    CHECK(a.offset >= layout->files[0].head.size());
    CHECK(b.offset >= a.offset + 100);
    CHECK(b.bytes == 24);
    CHECK(layout->files[0].bytes == b.offset + 24 + layout->files[0].tail.size());
  }
}

TEST_CASE("zt_layout: a tensor with the bytes of an earlier one gets its offset") {
  const std::vector<layout_tensor> tensors = {{"a", dtype::u8, {100}}, {"b", dtype::u8, {100}}};
  const std::vector<std::uint32_t> bytes_of = {0, 0};
  zt_settings settings;
  settings.bytes_of = bytes_of;
  const auto layout = lay_out_zt(tensors, settings);
  REQUIRE(layout.has_value());
  CHECK(layout->tensors[0].offset == layout->tensors[1].offset);
}

TEST_CASE("zt_layout: what a .zt file cannot hold is refused by name") {
  const std::vector<std::uint32_t> bytes_of = {0, 1, 2};
  zt_settings settings;
  settings.bytes_of = bytes_of;
  const auto refused = [&](const std::vector<layout_tensor>& tensors) {
    const auto layout = lay_out_zt(tensors, settings);
    REQUIRE_FALSE(layout.has_value());
    CHECK(layout.error().where().find("'x'") != std::string::npos);
    return layout.error().code;
  };
  CHECK(refused({{"x", dtype::f64, {huge, huge}}}) == errc::size_overflow);
  const layout_tensor large = {"large", dtype::u8, {huge - 4096}};
  CHECK(refused({large, {"x", dtype::u8, {huge}}}) == errc::size_overflow);
}

TEST_CASE("zt_layout: invalid settings are refused") {
  zt_settings settings;
  for (const unsigned alignment : {0U, 32U, 96U, 4U << 20}) {
    settings.alignment = alignment;
    CHECK(lay_out_zt({}, settings).error().code == errc::invalid_saving);
  }
  settings.alignment = 64;
  const std::vector<std::pair<std::string, std::string>> twice = {{"k", "1"}, {"k", "2"}};
  settings.metadata = twice;
  CHECK(lay_out_zt({}, settings).error().code == errc::invalid_saving);
  const std::vector<std::pair<std::string, std::string>> latin = {{"k", "\xE4"}};
  settings.metadata = latin;
  CHECK(lay_out_zt({}, settings).error().code == errc::invalid_saving);
}
