// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "formats/text/protobuf_reader.hpp"

namespace ringload::inline v0 {

// Limits for the text of a model's metadata, for the number of tensors, and for values that are
// kept in memory.
inline constexpr std::uint64_t onnx_metadata_bytes_max = std::uint64_t{16} << 20;
inline constexpr std::size_t onnx_tensors_max = 250'000;
inline constexpr std::uint64_t onnx_values_bytes_max = std::uint64_t{16} << 20;

// Limit for the sum of the lengths of all names. The name of a tensor begins with the names of the
// nodes that contain its subgraph. Without the limit, a small file could have one long node name
// that is repeated in the names of many tensors.
inline constexpr std::uint64_t onnx_name_bytes_max = std::uint64_t{16} << 20;

inline constexpr std::size_t onnx_rank_max = 64;
inline constexpr std::uint64_t onnx_text_bytes_max = std::uint64_t{64} << 10;

// Field numbers of AttributeProto.
namespace onnx_attribute {
enum field : std::uint32_t {
  name = 1,
  number = 2,
  integer = 3,
  text = 4,
  tensor = 5,
  graph = 6,
  numbers = 7,
  integers = 8,
  texts = 9,
  tensors = 10,
  graphs = 11,
  sparse = 22,
  sparses = 23,
};
}

// Field numbers of TensorProto.
namespace onnx_field {
enum field : std::uint32_t {
  dims = 1,
  data_type = 2,
  segment = 3,
  float_data = 4,
  int32_data = 5,
  string_data = 6,
  int64_data = 7,
  name_field = 8,
  raw_data = 9,
  double_data = 10,
  uint64_data = 11,
  external_data = 13,
  data_location = 14,
};
}

// A range of the file that contains values of a tensor.
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
  // Number of the field with the values, such as float_data. 0 if no field has values.
  std::uint32_t values_field = 0;
  std::vector<onnx_run> value_runs;  // The values in `values_field`.
  bool external = false;
  std::optional<std::string> location;
  std::optional<std::uint64_t> external_offset;
  std::optional<std::uint64_t> external_bytes;
};

constexpr std::uint64_t onnx_f32_type = 1;
constexpr std::uint64_t onnx_i64_type = 7;
constexpr std::uint64_t onnx_string_type = 8;

// Returns a fault with the name of the tensor and its byte offset in the file.
fault onnx_fault(const onnx_tensor& tensor, errc code, std::string cause);

// Reads the tensor in a message that in.next() has returned.
bool read_onnx_tensor(protobuf_reader& in, const protobuf_field& message, onnx_tensor& out);

// Some attributes, for example `value_float`, state the value of a Constant node as numbers or
// texts. If `attribute_name` is the name of one of these attributes, returns the number of the
// field that has the value. Otherwise returns 0, for example for `value`, which is a tensor.
std::uint32_t onnx_value_field(std::string_view attribute_name) noexcept;

// Reads the value of an attribute for which onnx_value_field() has returned `field`. `in` must have
// entered `message`. Reads to the end of the message, and leaves the message. Does not store texts:
// `out` has only the type and the number of the texts. Sets `has_value` to false if the attribute
// should have one value but has no value.
bool read_onnx_value(protobuf_reader& in, const protobuf_field& message, std::uint32_t field,
                     onnx_tensor& out, bool& has_value);

}  // namespace ringload::inline v0
