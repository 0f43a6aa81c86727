// SPDX-License-Identifier: Apache-2.0

#include "formats/onnx/onnx_tensor.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/printable.hpp"
#include "formats/text/protobuf_reader.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::size_t value_runs_max = std::size_t{1} << 20;

bool read_external(protobuf_reader& in, const protobuf_field& pair, onnx_tensor& out) {
  if (!in.enter(pair)) return false;
  std::string key;
  std::string value;
  protobuf_field part;
  while (in.next(part)) {
    std::string* const target = part.number == 1 ? &key : part.number == 2 ? &value : nullptr;
    if (target != nullptr && !in.text(part, onnx_text_bytes_max, *target)) return false;
  }
  if (in.failed()) return false;
  in.leave();
  const bool known = key == "location" || key == "offset" || key == "length";
  // The key `checksum` is ignored, because the checksum covers the whole external file.
  if (!known) return true;
  const bool is_duplicate = key == "location" ? out.location.has_value()
                            : key == "offset" ? out.external_offset.has_value()
                                              : out.external_bytes.has_value();
  if (is_duplicate) {
    return in.fail(pair, errc::malformed_header, "duplicate key '" + key + "' of external_data");
  }
  if (key == "location") {
    out.location = value;
    return true;
  }
  std::uint64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto read = std::from_chars(value.data(), end, number);
  if (value.empty() || read.ec != std::errc() || read.ptr != end) {
    return in.fail(pair, errc::malformed_header,
                   "the " + key + " of external data is '" + printable(value) +
                       "', expected a number of bytes");
  }
  (key == "offset" ? out.external_offset : out.external_bytes) = number;
  return true;
}

bool read_values(protobuf_reader& in, const protobuf_field& values, onnx_tensor& out) {
  if (out.values_field != 0 && out.values_field != values.number) {
    return in.fail(values, errc::malformed_header,
                   "the tensor has values in the fields " + grouped(out.values_field) + " and " +
                       grouped(values.number));
  }
  if (out.value_runs.size() == value_runs_max) {
    return in.fail(values, errc::malformed_header,
                   "the tensor's values are in more than " + grouped(value_runs_max) + " ranges");
  }
  out.values_field = values.number;
  const bool floats = values.number == onnx_field::float_data && values.type == wire_type::fixed32;
  const bool doubles =
      values.number == onnx_field::double_data && values.type == wire_type::fixed64;
  const bool integers = values.number != onnx_field::float_data &&
                        values.number != onnx_field::double_data &&
                        values.type == wire_type::varint;
  if (values.type != wire_type::bytes && !floats && !doubles && !integers) {
    return in.fail(values, errc::malformed_header,
                   "field " + grouped(values.number) + " has values of another kind");
  }
  if (values.bytes > 0) out.value_runs.push_back({values.offset, values.bytes});
  return true;
}

bool read_field(protobuf_reader& in, const protobuf_field& part, onnx_tensor& out) {
  switch (part.number) {
    case onnx_field::dims: return in.integers(part, onnx_rank_max, out.dims);
    case onnx_field::float_data:
    case onnx_field::int32_data:
    case onnx_field::int64_data:
    case onnx_field::double_data:
    case onnx_field::uint64_data: return read_values(in, part, out);
    case onnx_field::name_field: return in.text(part, onnx_text_bytes_max, out.name);
    case onnx_field::external_data: return read_external(in, part, out);
    case onnx_field::raw_data:
      if (part.type != wire_type::bytes) {
        return in.fail(part, errc::malformed_header, "raw_data must be bytes");
      }
      out.raw = onnx_run{part.offset, part.bytes};
      return true;
    case onnx_field::data_type:
    case onnx_field::data_location:
      if (part.type != wire_type::varint) {
        return in.fail(part, errc::malformed_header,
                       "field " + grouped(part.number) + " must be an integer");
      }
      if (part.number == onnx_field::data_type) out.data_type = part.value;
      if (part.number == onnx_field::data_location) out.external = part.value == 1;
      return true;
    case onnx_field::segment:
      return in.fail(part, errc::unsupported_feature, "tensors in segments are not supported");
    default: return true;
  }
}

// Returns true for fields that must not occur twice, because different readers may use different
// occurrences.
bool is_singular(std::uint32_t number) noexcept {
  return number == onnx_field::data_type || number == onnx_field::name_field ||
         number == onnx_field::raw_data || number == onnx_field::data_location ||
         number == onnx_field::segment;
}

struct value_attribute {
  std::string_view name;
  std::uint32_t field;
};
constexpr auto value_attributes = std::to_array<value_attribute>({
    {"value_float", onnx_attribute::number},
    {"value_floats", onnx_attribute::numbers},
    {"value_int", onnx_attribute::integer},
    {"value_ints", onnx_attribute::integers},
    {"value_string", onnx_attribute::text},
    {"value_strings", onnx_attribute::texts},
});

// Reads a field of numbers in an attribute: f32 if `floats` is true, otherwise i64. Adds the number
// of values to `count`.
bool read_numbers(protobuf_reader& in, const protobuf_field& values, bool floats, onnx_tensor& out,
                  std::uint64_t& count) {
  protobuf_field typed_values = values;
  typed_values.number = floats ? onnx_field::float_data : onnx_field::int64_data;
  if (out.file_byte == 0) out.file_byte = values.offset;
  if (!read_values(in, typed_values, out)) return false;
  if (floats) {
    if (values.bytes % sizeof(float) != 0) {
      return in.fail(values, errc::wrong_tensor_bytes, "the packed floats end inside a float");
    }
    count += values.bytes / sizeof(float);
    return true;
  }
  std::vector<std::uint64_t> numbers;
  if (!in.integers(values, onnx_values_bytes_max / sizeof(std::uint64_t), numbers)) return false;
  count += numbers.size();
  return true;
}

}  // namespace

fault onnx_fault(const onnx_tensor& tensor, errc code, std::string cause) {
  return {code, tensor_place(tensor.name) + ", byte " + grouped(tensor.file_byte),
          std::move(cause)};
}

std::uint32_t onnx_value_field(std::string_view attribute_name) noexcept {
  const auto found = std::ranges::find(value_attributes, attribute_name, &value_attribute::name);
  return found == value_attributes.end() ? 0 : found->field;
}

bool read_onnx_value(protobuf_reader& in, const protobuf_field& message, std::uint32_t field,
                     onnx_tensor& out, bool& has_value) {
  const bool floats = field == onnx_attribute::number || field == onnx_attribute::numbers;
  const bool text = field == onnx_attribute::text || field == onnx_attribute::texts;
  const bool list = field == onnx_attribute::numbers || field == onnx_attribute::integers ||
                    field == onnx_attribute::texts;
  out.data_type = text ? onnx_string_type : floats ? onnx_f32_type : onnx_i64_type;
  std::uint64_t count = 0;
  protobuf_field part;
  while (in.next(part)) {
    if (part.number != field) continue;
    if (text) {
      count += 1;
    } else if (!read_numbers(in, part, floats, out, count)) {
      return false;
    }
  }
  if (in.failed()) return false;
  in.leave();
  if (list) out.dims = {count};
  has_value = list || count > 0;
  if (list || count <= 1) return true;
  return in.fail(message, errc::malformed_header, "duplicate value of a constant");
}

bool read_onnx_tensor(protobuf_reader& in, const protobuf_field& message, onnx_tensor& out) {
  out.file_byte = message.offset;
  if (!in.enter(message)) return false;
  std::uint32_t seen = 0;
  protobuf_field part;
  while (in.next(part)) {
    if (is_singular(part.number)) {
      const std::uint32_t bit = 1U << part.number;
      if ((seen & bit) != 0) {
        return in.fail(part, errc::malformed_header,
                       "duplicate field " + grouped(part.number) + " of a tensor");
      }
      seen |= bit;
    }
    if (!read_field(in, part, out)) return false;
  }
  if (in.failed()) return false;
  in.leave();
  // A tensor with elements must have data, so that a small file cannot declare many large tensors.
  const bool has_data = out.raw || !out.value_runs.empty() || out.external;
  const bool empty = std::ranges::find(out.dims, std::uint64_t{0}) != out.dims.end();
  if (has_data || empty || out.data_type == onnx_string_type) return true;
  return in.fail(onnx_fault(out, errc::wrong_tensor_bytes, "it has no data"));
}

}  // namespace ringload::inline v0
