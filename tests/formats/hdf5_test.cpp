// SPDX-License-Identifier: Apache-2.0

// Descriptions of HDF5 files, possibly from a process that a malicious file controls, and the
// resulting tensors.

#include "formats/hdf5.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace ringload;

namespace {

constexpr std::uint64_t file_bytes = 10'000;

// [3, 4] of F32 in chunks of [2, 3]: four of 24 bytes each, from byte 1,000 on.
hdf5_dataset chunked() {
  hdf5_dataset out;
  out.names = {"x"};
  out.dtype = dtype::f32;
  out.shape = {3, 4};
  out.layout = hdf5_dataset::kind::chunked;
  out.chunk_shape = {2, 3};
  out.chunk_origins = {0, 0, 0, 3, 2, 0, 2, 3};
  for (std::uint64_t i = 0; i < 4; ++i) out.chunks.push_back({1000 + 24 * i, 24, 0});
  return out;
}

hdf5_dataset contiguous() {
  hdf5_dataset out;
  out.names = {"x"};
  out.dtype = dtype::f32;
  out.shape = {3, 4};
  out.offset = 1000;
  out.bytes = 48;
  return out;
}

result<file_entries> parsed(hdf5_dataset one, strictness strictness = strictness::strict) {
  hdf5_contents all;
  all.datasets.push_back(std::move(one));
  return parse_hdf5(std::move(all), file_bytes, strictness);
}

errc refused(hdf5_dataset one) {
  const auto found = parsed(std::move(one));
  REQUIRE_FALSE(found.has_value());
  CHECK(found.error().where().find("'x'") != std::string::npos);
  return static_cast<errc>(found.error().code.value());
}

}  // namespace

TEST_CASE("hdf5: a contiguous dataset is an extent of the file") {
  const auto found = parsed(contiguous());
  REQUIRE(found.has_value());
  const entry& x = found->tensors.at(0);
  CHECK(x.offset == 1000);
  CHECK(x.bytes == 48);
  CHECK(x.stored == nullptr);
}

TEST_CASE("hdf5: what a contiguous dataset says of itself must agree, and lie in the file") {
  auto one = contiguous();
  one.bytes = 44;
  CHECK(refused(one) == errc::wrong_tensor_bytes);
  one = contiguous();
  one.offset = file_bytes - 48;
  CHECK(parsed(one).has_value());
  one.offset += 1;
  CHECK(refused(one) == errc::extent_outside_file);
  one.offset = ~std::uint64_t{0} - 8;
  CHECK(refused(one) == errc::extent_outside_file);
  one = contiguous();
  one.shape = {std::uint64_t{1} << 40, std::uint64_t{1} << 40};
  CHECK(refused(one) == errc::size_overflow);
  one = contiguous();
  one.dtype = static_cast<dtype>(99);
  CHECK(refused(one) == errc::malformed_header);
  one = contiguous();
  one.fill.resize(3);
  CHECK(refused(one) == errc::malformed_header);
  one = contiguous();
  one.layout = static_cast<hdf5_dataset::kind>(7);
  CHECK(refused(one) == errc::malformed_header);
}

TEST_CASE("hdf5: chunks at the edge are cut, and keep their own strides") {
  const auto found = parsed(chunked());
  REQUIRE(found.has_value());
  const auto& pieces = found->tensors.at(0).stored->pieces;
  REQUIRE(pieces.size() == 4);
  CHECK(pieces[3].origin == std::vector<std::uint64_t>{2, 3});
  CHECK(pieces[3].extent == std::vector<std::uint64_t>{1, 1});
  CHECK(pieces[3].stride_bytes == std::vector<std::uint64_t>{12, 4});
  CHECK(pieces[3].stored.offset == 1072);
}

TEST_CASE("hdf5: chunks that cannot be are refused") {
  auto one = chunked();
  one.chunk_origins[6] = 0;  // The last chunk has the place of the second chunk.
  CHECK(refused(one) == errc::malformed_header);
  one = chunked();
  one.chunk_origins[2] = 1;
  CHECK(refused(one) == errc::malformed_header);
  one = chunked();
  one.chunk_origins[6] = 4;  // Outside of the dataset.
  CHECK(refused(one) == errc::malformed_header);
  one = chunked();
  one.chunk_origins.pop_back();
  CHECK(refused(one) == errc::malformed_header);
  one = chunked();
  one.chunk_shape = {2};
  CHECK(refused(one) == errc::malformed_header);
  one = chunked();
  one.chunk_shape = {2, 0};
  CHECK(refused(one) == errc::malformed_header);
  one = chunked();
  one.chunks[1].bytes = 20;
  CHECK(refused(one) == errc::wrong_tensor_bytes);
  one = chunked();
  one.chunks[1].offset = file_bytes;
  CHECK(refused(one) == errc::extent_outside_file);
  one = chunked();
  one.filters = {{chain_filter::kind::zlib, 0}, {chain_filter::kind::zlib, 0}};
  CHECK(refused(one) == errc::unsupported_feature);
  one.filters = {{static_cast<chain_filter::kind>(9), 0}};
  CHECK(refused(one) == errc::malformed_header);
}

TEST_CASE("hdf5: filters in the usual order need no chain, masked ones are left out") {
  auto one = chunked();
  one.filters = {{chain_filter::kind::shuffle, 4},
                 {chain_filter::kind::zlib, 0},
                 {chain_filter::kind::fletcher32, 0}};
  one.chunks[1].filter_mask = 7;
  one.chunks[2].filter_mask = 5;
  const auto found = parsed(one);
  REQUIRE(found.has_value());
  const auto& pieces = found->tensors.at(0).stored->pieces;
  CHECK(pieces[0].stored.stored_codec == codec::zlib);
  CHECK(pieces[0].stored.shuffle_bytes == 4);
  CHECK(pieces[0].stored.fletcher32);
  CHECK(pieces[0].stored.chain == nullptr);
  CHECK(pieces[1].stored.stored_codec == codec::raw);
  CHECK(pieces[2].stored.stored_codec == codec::zlib);
  CHECK(pieces[2].stored.shuffle_bytes == 0);
  std::swap(one.filters[0], one.filters[2]);
  const auto other = parsed(one);
  REQUIRE(other.has_value());
  CHECK(other->tensors.at(0).stored->pieces[0].stored.chain != nullptr);
}

TEST_CASE("hdf5: what is not compressed has the length of its chunk, and that of its checksum") {
  auto one = chunked();
  one.filters = {{chain_filter::kind::shuffle, 4}};
  CHECK(parsed(one).has_value());
  one.chunks[1].bytes -= 4;
  CHECK(refused(one) == errc::wrong_tensor_bytes);
  one = chunked();
  one.filters = {{chain_filter::kind::shuffle, 4}, {chain_filter::kind::fletcher32, 0}};
  CHECK(refused(one) == errc::wrong_tensor_bytes);
  for (auto& each : one.chunks) each.bytes += 4;
  CHECK(parsed(one).has_value());
}

TEST_CASE("hdf5: a compressed chunk has bytes beside its checksum") {
  auto one = chunked();
  one.filters = {{chain_filter::kind::zlib, 0}};
  one.chunks[1].bytes = 1;
  CHECK(parsed(one).has_value());
  one.chunks[1].bytes = 0;
  CHECK(refused(one) == errc::wrong_tensor_bytes);
  one.filters.push_back({chain_filter::kind::fletcher32, 0});
  one.chunks[1].bytes = 4;
  CHECK(refused(one) == errc::wrong_tensor_bytes);
}

TEST_CASE("hdf5: partial chunks may be without filters") {
  auto one = chunked();
  one.filters = {{chain_filter::kind::zlib, 0}};
  one.partial_chunks_unfiltered = true;
  const auto found = parsed(one);
  REQUIRE(found.has_value());
  const auto& pieces = found->tensors.at(0).stored->pieces;
  CHECK(pieces[0].stored.stored_codec == codec::zlib);
  CHECK(pieces[1].stored.stored_codec == codec::raw);
}

TEST_CASE("hdf5: a shape of more than the file can hold is refused before memory is taken") {
  auto one = contiguous();
  one.bytes = 0;  // Never written.
  one.shape = {std::uint64_t{1} << 28};
  CHECK(parsed(one).has_value());  // The maximum usual size.
  one.shape = {(std::uint64_t{1} << 28) + 1};
  const auto found = parsed(one);
  REQUIRE_FALSE(found.has_value());
  CHECK(found.error().code == errc::header_too_large);
}

TEST_CASE("hdf5: names") {
  auto one = contiguous();
  one.names = {"a", "b"};
  const auto both = parsed(one);
  REQUIRE(both.has_value());
  CHECK(both->tensors.at(0).offset == both->tensors.at(1).offset);
  one.names = {"a", "a"};
  CHECK(parsed(one).error().code == errc::duplicate_tensor);
  one.names = {"\xFF"};
  CHECK(parsed(one).error().code == errc::malformed_header);
  one.names.clear();
  CHECK(parsed(one).error().code == errc::malformed_header);
}

TEST_CASE("hdf5: numbers that are not read fail strict, and all else is a note") {
  hdf5_contents all;
  all.left_out = {{"t", "it holds strings", false}, {"n", "it is packed", true}};
  const auto strict = parse_hdf5(all, file_bytes, strictness::strict);
  REQUIRE_FALSE(strict.has_value());
  CHECK(message_of(strict.error()) == "tensor 'n': it is packed");
  const auto reference = parse_hdf5(all, file_bytes, strictness::reference);
  REQUIRE(reference.has_value());
  CHECK(reference->notes.size() == 2);
  all.left_out.pop_back();
  CHECK(parse_hdf5(all, file_bytes, strictness::strict)->notes.size() == 1);
}

TEST_CASE("hdf5: attributes are metadata, with their types") {
  hdf5_contents all;
  hdf5_attribute one;
  one.name = "layer_names";
  one.texts = {"a\"b", "c"};
  one.is_list = true;
  all.attributes.push_back(one);
  one.texts = {"tensorflow"};
  one.is_list = false;
  all.attributes.push_back(one);
  one.value_kind = hdf5_attribute::kind::integers;
  one.integers = {-5};
  all.attributes.push_back(one);
  all.attributes_left_out = 2;
  const auto found = parse_hdf5(all, file_bytes, strictness::strict);
  REQUIRE(found.has_value());
  CHECK(found->metadata.at(0).second == attribute::json(R"(["a\"b", "c"])"));
  CHECK(found->metadata.at(1).second == "tensorflow");
  CHECK(found->metadata.at(2).second == attribute(-5));
  CHECK(found->notes.size() == 1);
}
