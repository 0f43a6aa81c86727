// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx/onnx_entry.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>

using namespace ringload;

namespace {

onnx_tensor tensor_of_f32(std::vector<std::uint64_t> dims) {
  onnx_tensor out;
  out.name = "t";
  out.data_type = 1;
  out.dims = std::move(dims);
  return out;
}

result<entry> converted(const onnx_tensor& tensor, onnx_files& beside) {
  static const std::array<std::byte, 64> file = {};
  memory_input from(file);
  return entry_of(tensor, from, beside);
}

}  // namespace

TEST_CASE("onnx_entry: raw data is loaded where the file has it") {
  onnx_files beside;
  onnx_tensor tensor = tensor_of_f32({2, 3});
  tensor.raw = onnx_run{16, 24};
  const auto found = converted(tensor, beside);
  REQUIRE(found.has_value());
  CHECK(found->offset == 16);
  CHECK(found->bytes == 24);
  tensor.raw = onnx_run{16, 23};
  CHECK(converted(tensor, beside).error().code == errc::wrong_tensor_bytes);
}

TEST_CASE("onnx_entry: files with external data are numbered once each") {
  onnx_files beside;
  onnx_tensor tensor = tensor_of_f32({4});
  tensor.external = true;
  tensor.location = "./weights.bin";
  REQUIRE(converted(tensor, beside).has_value());
  tensor.location = "weights.bin";
  const auto found = converted(tensor, beside);
  REQUIRE(found.has_value());
  CHECK(found->stored->pieces.at(0).stored.file == 1);
  CHECK(beside.paths == std::vector<std::string>{"weights.bin"});
  tensor.location = "../weights.bin";
  CHECK(converted(tensor, beside).error().code == errc::path_outside_source);
}

TEST_CASE("onnx_entry: an unknown type and a shape beyond 64 bits are refused") {
  onnx_files beside;
  onnx_tensor tensor = tensor_of_f32({std::uint64_t{1} << 62});
  CHECK(converted(tensor, beside).error().code == errc::size_overflow);
  tensor.data_type = 99;
  CHECK(converted(tensor, beside).error().code == errc::unsupported_feature);
}
