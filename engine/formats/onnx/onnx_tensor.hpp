// SPDX-License-Identifier: Apache-2.0
#pragma once

// One TensorProto: what its fields say, and what tensor that makes.

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/text/protobuf_reader.hpp"

namespace ringload::inline v0 {

inline constexpr std::size_t onnx_rank_max = 64;
inline constexpr std::uint64_t onnx_text_bytes_max = std::uint64_t{64} << 10;

// Bytes of the file that hold values of a typed field.
struct onnx_run {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct onnx_tensor {
  std::uint64_t file_byte = 0;
  std::string name;
  std::vector<std::uint64_t> dims;
  std::uint64_t data_type = 0;
  std::optional<onnx_run> raw;
  std::uint32_t typed_field = 0;  // float_data and the like; 0: none.
  std::vector<onnx_run> typed;
  bool external = false;
  std::optional<std::string> location;
  std::optional<std::uint64_t> external_offset;
  std::optional<std::uint64_t> external_bytes;
};

constexpr std::uint64_t onnx_string_type = 8;

// The fields of a message that `in` has just given.
bool read_onnx_tensor(protobuf_reader& in, const protobuf_field& message, onnx_tensor& out);

// The numbers of an attribute, which may stand in several fields: f32, or else i64. The tensor's
// dims are the caller's; `count` is how many numbers came.
bool read_onnx_numbers(protobuf_reader& in, const protobuf_field& values, bool floats,
                       onnx_tensor& out, std::uint64_t& count);

// The files that hold external data, numbered from 1 on.
struct onnx_files {
  std::vector<std::string> paths;
  std::unordered_map<std::string, std::uint32_t> numbers;
};

// All but the name. Values that do not lie in one run are gathered from the file.
result<entry> entry_of(const onnx_tensor& tensor, input& from, onnx_files& beside);

}  // namespace ringload::inline v0
