// SPDX-License-Identifier: Apache-2.0
#pragma once

// Protocol buffers, written by hand for a test.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "binary_text.hpp"

namespace ringload::testing {

inline std::string varint_text(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

inline std::string proto_key(std::uint32_t number, unsigned type) {
  return varint_text(std::uint64_t{number} << 3 | type);
}
inline std::string proto_integer(std::uint32_t number, std::uint64_t value) {
  return proto_key(number, 0) + varint_text(value);
}
inline std::string proto_bytes(std::uint32_t number, std::string_view value) {
  return proto_key(number, 2) + varint_text(value.size()) + std::string(value);
}
inline std::string proto_fixed32(std::uint32_t number, std::uint32_t value) {
  return proto_key(number, 5) + number_text(value);
}
inline std::string varints_text(const std::vector<std::uint64_t>& values) {
  std::string out;
  for (const std::uint64_t value : values) out += varint_text(value);
  return out;
}

// TensorProto. `data` is its further fields.
inline std::string onnx_tensor_text(std::string_view name, std::uint64_t type,
                                    const std::vector<std::uint64_t>& dims, std::string_view data) {
  std::string out;
  for (const std::uint64_t dim : dims) out += proto_integer(1, dim);
  out += proto_integer(2, type);
  if (!name.empty()) out += proto_bytes(8, name);
  return out + std::string(data);
}

// NodeProto with one attribute, which has a name and further fields.
inline std::string onnx_node_text(std::string_view type, std::string_view output,
                                  std::string_view attribute, std::string_view fields) {
  return proto_bytes(2, output) + proto_bytes(4, type) +
         proto_bytes(5, proto_bytes(1, attribute) + std::string(fields));
}

// ModelProto of one GraphProto.
inline std::string onnx_model_text(std::string_view graph) {
  return proto_integer(1, 10) + proto_bytes(7, graph);
}

// A model of one initializer.
inline std::string onnx_text(std::string_view tensor) {
  return onnx_model_text(proto_bytes(5, tensor));
}

}  // namespace ringload::testing
