// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx/onnx_tensor.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "formats/onnx/onnx.hpp"
#include "formats/shape.hpp"
#include "formats/text/protobuf_reader.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::size_t runs_max = std::size_t{1} << 20;

// Four such elements are three bytes of raw_data but four values of int32_data. All other types
// have the same number of bits in both fields.
constexpr unsigned six_bits = 6;

// Field numbers of TensorProto.
namespace tensor_field {
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

struct onnx_type_row {
  std::uint64_t id;
  ringload::dtype dtype;
  unsigned bits;            // Bits of an element.
  std::uint32_t typed;      // The field with the values if raw_data is not used.
  std::string_view packed;  // Type name if elements are smaller than a byte.
};
constexpr auto onnx_types = std::to_array<onnx_type_row>({
    {1, dtype::f32, 32, tensor_field::float_data, {}},
    {2, dtype::u8, 8, tensor_field::int32_data, {}},
    {3, dtype::i8, 8, tensor_field::int32_data, {}},
    {4, dtype::u16, 16, tensor_field::int32_data, {}},
    {5, dtype::i16, 16, tensor_field::int32_data, {}},
    {6, dtype::i32, 32, tensor_field::int32_data, {}},
    {7, dtype::i64, 64, tensor_field::int64_data, {}},
    {9, dtype::boolean, 8, tensor_field::int32_data, {}},
    {10, dtype::f16, 16, tensor_field::int32_data, {}},
    {11, dtype::f64, 64, tensor_field::double_data, {}},
    {12, dtype::u32, 32, tensor_field::uint64_data, {}},
    {13, dtype::u64, 64, tensor_field::uint64_data, {}},
    {14, dtype::c64, 64, tensor_field::float_data, {}},
    {15, dtype::c128, 128, tensor_field::double_data, {}},
    {16, dtype::bf16, 16, tensor_field::int32_data, {}},
    {17, dtype::f8_e4m3fn, 8, tensor_field::int32_data, {}},
    {18, dtype::f8_e4m3fnuz, 8, tensor_field::int32_data, {}},
    {19, dtype::f8_e5m2, 8, tensor_field::int32_data, {}},
    {20, dtype::f8_e5m2fnuz, 8, tensor_field::int32_data, {}},
    {21, dtype::u8, 4, tensor_field::int32_data, "u4"},
    {22, dtype::u8, 4, tensor_field::int32_data, "i4"},
    {23, dtype::u8, 4, tensor_field::int32_data, "f4_e2m1"},
    {24, dtype::f8_e8m0, 8, tensor_field::int32_data, {}},
    {25, dtype::u8, 2, tensor_field::int32_data, "u2"},
    {26, dtype::u8, 2, tensor_field::int32_data, "i2"},
    {27, dtype::u8, six_bits, tensor_field::int32_data, "f6_e2m3"},
    {28, dtype::u8, six_bits, tensor_field::int32_data, "f6_e3m2"},
});

fault tensor_fault(const onnx_tensor& tensor, errc code, std::string cause) {
  return {code, tensor_place(tensor.name) + ", byte " + grouped(tensor.file_byte),
          std::move(cause)};
}

bool read_external(protobuf_reader& in, const protobuf_field& pair, onnx_tensor& out) {
  if (!in.enter(pair)) return false;
  std::string key;
  std::string value;
  protobuf_field part;
  while (in.next(part)) {
    std::string* const to = part.number == 1 ? &key : part.number == 2 ? &value : nullptr;
    if (to != nullptr && !in.text(part, onnx_text_bytes_max, *to)) return false;
  }
  if (in.failed()) return false;
  in.leave();
  const bool known = key == "location" || key == "offset" || key == "length";
  if (!known) return true;  // The key `checksum` covers the whole external file and is ignored.
  const bool again = key == "location" ? out.location.has_value()
                     : key == "offset" ? out.external_offset.has_value()
                                       : out.external_bytes.has_value();
  if (again) {
    return in.fail(pair, errc::malformed_header, "external_data has the key '" + key + "' twice");
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
                       "', which is no number of bytes");
  }
  (key == "offset" ? out.external_offset : out.external_bytes) = number;
  return true;
}

bool read_typed(protobuf_reader& in, const protobuf_field& values, onnx_tensor& out) {
  if (out.typed_field != 0 && out.typed_field != values.number) {
    return in.fail(values, errc::malformed_header,
                   "the tensor has values in the fields " + grouped(out.typed_field) + " and " +
                       grouped(values.number));
  }
  if (out.typed.size() == runs_max) {
    return in.fail(values, errc::malformed_header,
                   "the tensor's values stand in more than " + grouped(runs_max) + " places");
  }
  out.typed_field = values.number;
  const bool floats =
      values.number == tensor_field::float_data && values.type == wire_type::fixed32;
  const bool doubles =
      values.number == tensor_field::double_data && values.type == wire_type::fixed64;
  const bool integers = values.number != tensor_field::float_data &&
                        values.number != tensor_field::double_data &&
                        values.type == wire_type::varint;
  if (values.type != wire_type::bytes && !floats && !doubles && !integers) {
    return in.fail(values, errc::malformed_header,
                   "field " + grouped(values.number) + " has values of another kind");
  }
  if (values.bytes > 0) out.typed.push_back({values.offset, values.bytes});
  return true;
}

bool read_field(protobuf_reader& in, const protobuf_field& part, onnx_tensor& out) {
  switch (part.number) {
    case tensor_field::dims: return in.integers(part, onnx_rank_max, out.dims);
    case tensor_field::float_data:
    case tensor_field::int32_data:
    case tensor_field::int64_data:
    case tensor_field::double_data:
    case tensor_field::uint64_data: return read_typed(in, part, out);
    case tensor_field::name_field: return in.text(part, onnx_text_bytes_max, out.name);
    case tensor_field::external_data: return read_external(in, part, out);
    case tensor_field::raw_data:
      if (part.type != wire_type::bytes) {
        return in.fail(part, errc::malformed_header, "raw_data must be bytes");
      }
      out.raw = onnx_run{part.offset, part.bytes};
      return true;
    case tensor_field::data_type:
    case tensor_field::data_location:
      if (part.type != wire_type::varint) {
        return in.fail(part, errc::malformed_header,
                       "field " + grouped(part.number) + " must be an integer");
      }
      if (part.number == tensor_field::data_type) out.data_type = part.value;
      if (part.number == tensor_field::data_location) out.external = part.value == 1;
      return true;
    case tensor_field::segment:
      return in.fail(part, errc::unsupported_feature, "tensors in segments are not read");
    default: return true;
  }
}

// Singular fields must not occur twice, because readers differ in which one they use.
bool is_singular(std::uint32_t number) noexcept {
  return number == tensor_field::data_type || number == tensor_field::name_field ||
         number == tensor_field::raw_data || number == tensor_field::data_location ||
         number == tensor_field::segment;
}

const onnx_type_row* type_of(std::uint64_t id) noexcept {
  const auto found = std::ranges::find(onnx_types, id, &onnx_type_row::id);
  return found == onnx_types.end() ? nullptr : &*found;
}

// The normalised path. Empty if the path would leave the folder.
std::string beneath(std::string_view location) {
  if (location.empty() || location.front() == '/' ||
      location.find_first_of(std::string_view("\0\\", 2)) != std::string_view::npos) {
    return {};
  }
  std::string out;
  while (!location.empty()) {
    const std::string_view part = location.substr(0, location.find('/'));
    location.remove_prefix(std::min(location.size(), part.size() + 1));
    if (part.empty() || part == ".") continue;
    if (part == "..") return {};
    if (!out.empty()) out += '/';
    out += part;
  }
  return out;
}

// Packs the low six bits of each byte, with the first in the lowest bits.
std::vector<std::byte> packed_sixes(const std::vector<std::byte>& values) {
  std::vector<std::byte> out((values.size() * six_bits + 7) / 8);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t bit = i * six_bits;
    const unsigned placed = (std::to_integer<unsigned>(values[i]) & 0x3FU) << bit % 8;
    out[bit / 8] |= static_cast<std::byte>(placed);
    if (placed > 0xFF) out[bit / 8 + 1] |= static_cast<std::byte>(placed >> 8U);
  }
  return out;
}

// Converts one tensor step by step.
class tensor_converter {
 public:
  tensor_converter(const onnx_tensor& tensor, input& from, onnx_files& beside) noexcept
      : tensor_(tensor), from_(from), beside_(beside) {}

  result<entry> converted();

 private:
  std::optional<fault> set_shape();
  std::optional<fault> set_raw();
  std::optional<fault> set_external();
  std::optional<fault> set_typed();
  std::optional<fault> gather();
  std::optional<fault> check_varints(std::uint64_t stored);
  fault wrong_bytes(std::uint64_t found) const;
  void set_stream(stored_stream stream);

  const onnx_tensor& tensor_;
  input& from_;
  onnx_files& beside_;
  const onnx_type_row* type_ = nullptr;
  entry out_;
};

fault tensor_converter::wrong_bytes(std::uint64_t found) const {
  return tensor_fault(tensor_, errc::wrong_tensor_bytes,
                      std::string(type_->packed.empty() ? name(out_.dtype) : type_->packed) + " " +
                          shape_text(tensor_.dims) + " needs " + grouped(out_.bytes) +
                          " bytes, and it has " + grouped(found));
}

std::optional<fault> tensor_converter::set_shape() {
  for (const std::uint64_t dim : tensor_.dims) {
    if (dim >> 63U != 0)
      return tensor_fault(tensor_, errc::malformed_header, "a dimension is negative");
  }
  const auto count = element_count(tensor_.dims);
  const auto bits = count ? checked_multiply(*count, type_->bits) : count;
  const auto rounded = bits ? checked_add(*bits, 7) : bits;
  if (!rounded) {
    return tensor_fault(tensor_, errc::size_overflow,
                        "the size of " + shape_text(tensor_.dims) + " does not fit in 64 bits");
  }
  out_.dtype = type_->dtype;
  out_.bytes = *rounded / 8;
  out_.shape = tensor_.dims;
  if (type_->packed.empty()) return std::nullopt;
  out_.type = type_->packed;
  out_.original_shape = tensor_.dims;
  out_.shape = {out_.bytes};
  return std::nullopt;
}

void tensor_converter::set_stream(stored_stream stream) {
  if (out_.bytes == 0) return;
  out_.offset = stream.offset;
  out_.stored = one_stream(std::move(stream), out_.shape, bits(out_.dtype) / 8);
}

std::optional<fault> tensor_converter::set_raw() {
  if (tensor_.raw->bytes != out_.bytes) return wrong_bytes(tensor_.raw->bytes);
  out_.offset = tensor_.raw->offset;
  return std::nullopt;
}

std::optional<fault> tensor_converter::set_external() {
  if (tensor_.raw || !tensor_.typed.empty()) {
    return tensor_fault(tensor_, errc::malformed_header,
                        "its data is external, and it has data of its own");
  }
  if (!tensor_.location) {
    return tensor_fault(tensor_, errc::malformed_header,
                        "its data is external, and has no location");
  }
  const std::string path = beneath(*tensor_.location);
  if (path.empty()) {
    return tensor_fault(tensor_, errc::path_outside_source,
                        "its data is in '" + printable(*tensor_.location) +
                            "', which is no path inside of the model's folder");
  }
  if (tensor_.external_bytes.value_or(out_.bytes) != out_.bytes) {
    return wrong_bytes(*tensor_.external_bytes);
  }
  stored_stream stream;
  stream.offset = tensor_.external_offset.value_or(0);
  stream.bytes = stream.decoded_bytes = out_.bytes;
  if (!checked_add(stream.offset, stream.bytes)) {
    return tensor_fault(tensor_, errc::size_overflow,
                        "the end of its data does not fit in 64 bits");
  }
  const auto number = static_cast<std::uint32_t>(beside_.paths.size() + 1);
  const auto [known, is_new] = beside_.numbers.emplace(path, number);
  if (is_new) beside_.paths.push_back(path);
  stream.file = known->second;
  set_stream(std::move(stream));
  return std::nullopt;
}

// Each integer becomes one element, or one byte of smaller elements.
std::optional<fault> tensor_converter::check_varints(std::uint64_t stored) {
  const std::uint64_t count = out_.bytes / (bits(out_.dtype) / 8);
  if (stored >= count && stored / varint_bytes_max <= count) return std::nullopt;
  return tensor_fault(tensor_, errc::wrong_tensor_bytes,
                      "it has " + grouped(count) + " elements, and " + grouped(stored) +
                          " bytes of base-128 integers cannot encode this number");
}

std::optional<fault> tensor_converter::gather() {
  std::uint64_t stored = 0;
  for (const onnx_run& run : tensor_.typed)
    stored += run.bytes;  // No overflow: the runs are disjoint and in one file.
  if (stored > onnx_values_bytes_max || out_.bytes > onnx_values_bytes_max) {
    return tensor_fault(tensor_, errc::unsupported_feature,
                        "its values stand in " + grouped(tensor_.typed.size()) +
                            " places and are not packed; that is read up to " +
                            grouped(onnx_values_bytes_max) + " bytes");
  }
  const std::size_t width = bits(out_.dtype) / 8;
  const bool integers = tensor_.typed_field != tensor_field::float_data &&
                        tensor_.typed_field != tensor_field::double_data;
  // Elements of six bits use one byte each until packed_sixes().
  const std::uint64_t room =
      type_->bits == six_bits ? element_count(tensor_.dims).value_or(0) : out_.bytes;
  auto values = std::make_shared<std::vector<std::byte>>();
  values->reserve(static_cast<std::size_t>(room));
  input_cursor in(from_, tensor_.typed.front().offset, from_.bytes());
  std::uint64_t value = 0;
  unsigned shift = 0;
  for (const onnx_run& run : tensor_.typed) {
    in.seek(run.offset);
    for (std::uint64_t i = 0; i < run.bytes; ++i) {
      std::uint8_t byte = 0;
      if (!in.number(byte)) return in.error();
      if (values->size() > room) return wrong_bytes(values->size());
      if (!integers) {
        values->push_back(std::byte{byte});
        continue;
      }
      if (shift >= 7 * varint_bytes_max) {
        return tensor_fault(tensor_, errc::malformed_header,
                            "a base-128 integer has more than 10 bytes");
      }
      value |= std::uint64_t{byte & 0x7FU} << shift;
      shift += 7;
      if ((byte & 0x80U) != 0) continue;
      for (std::size_t b = 0; b < width; ++b) {
        values->push_back(static_cast<std::byte>(value >> (8 * b)));
      }
      value = 0;
      shift = 0;
    }
  }
  if (values->size() != room || shift != 0) return wrong_bytes(values->size());
  if (type_->bits == six_bits) *values = packed_sixes(*values);
  stored_stream stream;
  stream.offset = tensor_.typed.front().offset;
  stream.bytes = stream.decoded_bytes = out_.bytes;
  stream.in_memory = std::move(values);
  set_stream(std::move(stream));
  return std::nullopt;
}

std::optional<fault> tensor_converter::set_typed() {
  if (tensor_.typed_field != 0 && tensor_.typed_field != type_->typed) {
    return tensor_fault(tensor_, errc::malformed_header,
                        "values of its type do not stand in field " + grouped(tensor_.typed_field));
  }
  if (tensor_.typed.empty()) return std::nullopt;  // No elements, as read_onnx_tensor() checked.
  if (tensor_.typed.size() > 1 || type_->bits == six_bits) return gather();
  const onnx_run& run = tensor_.typed.front();
  stored_stream stream;
  stream.offset = run.offset;
  stream.bytes = run.bytes;
  stream.decoded_bytes = out_.bytes;
  if (tensor_.typed_field == tensor_field::float_data ||
      tensor_.typed_field == tensor_field::double_data) {
    if (run.bytes != out_.bytes) return wrong_bytes(run.bytes);
    out_.offset = run.offset;  // Contiguous little-endian elements need no stored form.
    return std::nullopt;
  }
  if (auto failure = check_varints(run.bytes)) return failure;
  stream.how = codec::varint;
  set_stream(std::move(stream));
  return std::nullopt;
}

result<entry> tensor_converter::converted() {
  type_ = type_of(tensor_.data_type);
  if (type_ == nullptr) {
    return tensor_fault(
        tensor_, errc::unsupported_feature,
        "its type has the number " + grouped(tensor_.data_type) + ", which is not known");
  }
  if (auto failure = set_shape()) return *failure;
  if (tensor_.raw && tensor_.typed_field != 0) {
    return tensor_fault(tensor_, errc::malformed_header,
                        "it has raw_data, and values in field " + grouped(tensor_.typed_field));
  }
  auto failure = tensor_.external ? set_external() : tensor_.raw ? set_raw() : set_typed();
  if (failure) return *failure;
  return std::move(out_);
}

}  // namespace

bool read_onnx_numbers(protobuf_reader& in, const protobuf_field& values, bool floats,
                       onnx_tensor& out, std::uint64_t& count) {
  protobuf_field typed = values;
  typed.number = floats ? tensor_field::float_data : tensor_field::int64_data;
  out.data_type = floats ? 1 : 7;
  if (out.file_byte == 0) out.file_byte = values.offset;
  if (!read_typed(in, typed, out)) return false;
  if (floats) {
    if (values.bytes % sizeof(float) != 0) {
      return in.fail(values, errc::wrong_tensor_bytes, "packed floats end inside of one");
    }
    count += values.bytes / sizeof(float);
    return true;
  }
  std::vector<std::uint64_t> numbers;
  if (!in.integers(values, onnx_values_bytes_max / sizeof(std::uint64_t), numbers)) return false;
  count += numbers.size();
  return true;
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
                       "a tensor has the field " + grouped(part.number) + " twice");
      }
      seen |= bit;
    }
    if (!read_field(in, part, out)) return false;
  }
  if (in.failed()) return false;
  in.leave();
  // Checked for each tensor, so that a small file cannot declare many tensors without data.
  const bool has_data = out.raw || !out.typed.empty() || out.external;
  const bool empty = std::ranges::find(out.dims, std::uint64_t{0}) != out.dims.end();
  if (has_data || empty || out.data_type == onnx_string_type) return true;
  return in.fail(tensor_fault(out, errc::wrong_tensor_bytes, "it has no data"));
}

result<entry> entry_of(const onnx_tensor& tensor, input& from, onnx_files& beside) {
  return tensor_converter(tensor, from, beside).converted();
}

}  // namespace ringload::inline v0
