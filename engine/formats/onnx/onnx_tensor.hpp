// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads one TensorProto and converts it to a catalog entry.

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

// Bytes of the file that contain values of a typed field.
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
  std::uint32_t typed_field = 0;  // Number of float_data or a similar field. 0: no such field.
  std::vector<onnx_run> typed;
  bool external = false;
  std::optional<std::string> location;
  std::optional<std::uint64_t> external_offset;
  std::optional<std::uint64_t> external_bytes;
};

constexpr std::uint64_t onnx_string_type = 8;

// Reads the fields of a message that in.next() returned.
bool read_onnx_tensor(protobuf_reader& in, const protobuf_field& message, onnx_tensor& out);

// Reads the numbers of an attribute, f32 or i64, possibly from several fields. The caller must set
// the tensor's dims. `count` is the number of values.
bool read_onnx_numbers(protobuf_reader& in, const protobuf_field& values, bool floats,
                       onnx_tensor& out, std::uint64_t& count);

// The files with external data, numbered from 1.
struct onnx_files {
  std::vector<std::string> paths;
  std::unordered_map<std::string, std::uint32_t> numbers;
};

// Converts everything except the name. Values in several runs are read from the file into memory.
result<entry> entry_of(const onnx_tensor& tensor, input& from, onnx_files& beside);

}  // namespace ringload::inline v0
