// SPDX-License-Identifier: Apache-2.0
#include "formats/zt/zt_component.hpp"

#include <doctest/doctest.h>

using namespace ringload;

namespace {

constexpr zt_blob_rules blobs = {8, 1024, 64, false};

zt_component component(std::uint64_t offset, std::uint64_t length) {
  zt_component out;
  out.name = "data";
  out.dtype = dtype::f32;
  out.offset = offset;
  out.length = length;
  return out;
}

result<entry> shaped(const zt_component& part, std::uint64_t elements) {
  zt_object object;
  object.name = "t";
  file_entries found;
  return zt_component_converter(object, blobs, found).shaped(part, {elements});
}

}  // namespace

TEST_CASE("zt_component: a raw component becomes a tensor where it is stored") {
  const auto tensor = shaped(component(64, 40), 10);
  REQUIRE(tensor.has_value());
  CHECK(tensor->offset == 64);
  CHECK(tensor->bytes == 40);
  CHECK(tensor->stored == nullptr);
}

TEST_CASE("zt_component: offset, length and shape must agree with the file and with each other") {
  CHECK(shaped(component(65, 40), 10).error().code == errc::invalid_offsets);
  CHECK(shaped(component(0, 40), 10).error().code == errc::invalid_offsets);
  CHECK(shaped(component(1024, 4), 1).error().code == errc::extent_outside_file);
  CHECK(shaped(component(64, 40), 9).error().code == errc::wrong_tensor_bytes);
  zt_component without_length = component(64, 40);
  without_length.length.reset();
  CHECK(shaped(without_length, 10).error().code == errc::malformed_header);
}

TEST_CASE("zt_component: a zstd stream that cannot become the stated bytes is refused") {
  zt_component packed = component(64, 16);
  packed.zstd = true;
  packed.uncompressed_length = 40;
  const auto tensor = shaped(packed, 10);
  REQUIRE(tensor.has_value());
  CHECK(tensor->stored != nullptr);
  packed.uncompressed_length = std::uint64_t{4} << 30;
  CHECK(shaped(packed, std::uint64_t{1} << 30).error().code == errc::wrong_tensor_bytes);
  packed.uncompressed_length.reset();
  CHECK(shaped(packed, 10).error().code == errc::malformed_header);
}
