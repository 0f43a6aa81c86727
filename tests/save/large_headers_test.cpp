// SPDX-License-Identifier: Apache-2.0

// Headers at the limits of size. Under a sanitizer each takes up to a minute and shows nothing that
// a small header does not show, so these are a separate file, which those builds leave out.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/safetensors/safetensors.hpp"
#include "save/safetensors_layout.hpp"
#include "save/zt_layout.hpp"

using namespace ringload;

namespace {

using text_pairs = std::vector<std::pair<std::string, std::string>>;

boost::system::error_code refusal(const std::vector<layout_tensor>& tensors,
                                  const safetensors_settings& settings = {}) {
  const auto layout = lay_out_safetensors(tensors, settings);
  return layout ? boost::system::error_code() : layout.error().code;
}

}  // namespace

TEST_CASE("safetensors layout: a header of more than 100,000,000 bytes is refused") {
  safetensors_settings settings;
  const text_pairs large = {{"a", std::string(100'000'000, 'a')}};
  settings.metadata = large;
  CHECK(refusal({}, settings) == errc::header_too_large);
}

TEST_CASE("safetensors layout: a file that strict reading would refuse is not laid out") {
  std::vector<std::string> names(150'000);
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = std::to_string(i);
  std::vector<layout_tensor> tensors;
  for (const std::string& name : names) tensors.push_back({name, dtype::u8, {0}});
  CHECK(refusal(tensors) == errc::header_too_large);
  safetensors_settings shards;
  shards.folder = true;
  shards.shards.count = 2;
  CHECK(refusal(tensors, shards) == errc::header_too_large);
  tensors.push_back({"with bytes", dtype::u8, {30 << 20}});
  const auto layout = lay_out_safetensors(tensors, {});
  REQUIRE(layout.has_value());
  const file_layout& file = layout->files.front();
  const auto header = std::as_bytes(std::span(file.head)).subspan(8);
  const auto read = parse_safetensors(header, file.bytes, strictness::strict);
  REQUIRE(read.has_value());
  CHECK(read->tensors.size() == tensors.size());
  tensors.resize(120'000);
  CHECK_FALSE(refusal(tensors));

  text_pairs many_keys;
  for (std::size_t i = 0; i <= 100'000; ++i) many_keys.emplace_back(std::to_string(i), "");
  safetensors_settings settings;
  settings.metadata = many_keys;
  CHECK(refusal({}, settings) == errc::malformed_header);
}

TEST_CASE("safetensors layout: an index of more than 100,000,000 bytes is refused") {
  const std::string long_name(60'000'000, 'n');
  const std::string other_name = "x" + long_name;
  const std::vector<layout_tensor> tensors = {{long_name, dtype::u8, {60 << 20}},
                                              {other_name, dtype::u8, {60 << 20}}};
  safetensors_settings shards;
  shards.folder = true;
  shards.shards.count = 2;
  const auto layout = lay_out_safetensors(tensors, shards);
  REQUIRE_FALSE(layout.has_value());
  CHECK(layout.error().code == errc::header_too_large);
  CHECK(layout.error().where() == "model.safetensors.index.json");
}

TEST_CASE("zt_layout: a file that strict reading would refuse is not laid out") {
  std::vector<std::string> names(150'000);
  std::vector<std::uint32_t> bytes_of(names.size());
  std::vector<layout_tensor> tensors;
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    names[i] = std::to_string(i);
    bytes_of[i] = i;
    tensors.push_back({names[i], dtype::u8, {0}});
  }
  zt_settings settings;
  settings.bytes_of = bytes_of;
  const auto refused = lay_out_zt(tensors, settings);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == errc::header_too_large);
  tensors.resize(130'000);
  CHECK(lay_out_zt(tensors, settings).has_value());
}
