// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5_dataset.hpp"

#include <doctest/doctest.h>

using namespace ringload;

namespace {

constexpr std::uint64_t file_bytes = 4096;

hdf5_dataset contiguous(std::uint64_t offset, std::uint64_t bytes) {
  hdf5_dataset out;
  out.dtype = dtype::f32;
  out.shape = {10};
  out.layout = hdf5_dataset::kind::contiguous;
  out.offset = offset;
  out.bytes = bytes;
  return out;
}

result<entry> parsed(hdf5_dataset dataset) {
  return hdf5_dataset_parser(std::move(dataset), file_bytes).parse();
}

}  // namespace

TEST_CASE("hdf5_dataset: contiguous elements are loaded where the file has them") {
  const auto tensor = parsed(contiguous(100, 40));
  REQUIRE(tensor.has_value());
  CHECK(tensor->offset == 100);
  CHECK(tensor->bytes == 40);
  CHECK(tensor->stored == nullptr);
}

TEST_CASE("hdf5_dataset: bytes of another size or outside the file are refused") {
  CHECK(parsed(contiguous(100, 39)).error().code == errc::wrong_tensor_bytes);
  CHECK(parsed(contiguous(file_bytes - 39, 40)).error().code == errc::extent_outside_file);
}

TEST_CASE("hdf5_dataset: big-endian elements are swapped") {
  hdf5_dataset big = contiguous(100, 40);
  big.big_endian = true;
  const auto tensor = parsed(big);
  REQUIRE(tensor.has_value());
  REQUIRE(tensor->stored != nullptr);
  CHECK(tensor->stored->swap_bytes == 4);
}

TEST_CASE("hdf5_dataset: a chunk must begin on the grid of chunks, inside the shape") {
  hdf5_dataset chunked = contiguous(0, 0);
  chunked.layout = hdf5_dataset::kind::chunked;
  chunked.chunk_shape = {5};
  chunked.chunks = {{100, 20, 0}, {200, 20, 0}};
  chunked.chunk_origins = {0, 5};
  const auto tensor = parsed(chunked);
  REQUIRE(tensor.has_value());
  CHECK(tensor->stored->pieces.size() == 2);
  chunked.chunk_origins = {0, 4};
  CHECK(parsed(chunked).error().code == errc::malformed_header);
  chunked.chunk_origins = {0, 10};
  CHECK(parsed(chunked).error().code == errc::malformed_header);
  chunked.chunk_origins = {5, 5};
  CHECK(parsed(chunked).error().code == errc::malformed_header);
}
