// SPDX-License-Identifier: Apache-2.0

#include "formats/onnx/onnx_entry.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "formats/shape.hpp"
#include "formats/text/input_cursor.hpp"
#include "formats/text/path_beneath.hpp"

namespace ringload::inline v0 {

namespace {

// In raw_data, four elements of six bits use three bytes. In int32_data, each of these elements is
// a separate integer. For elements of two or four bits, each integer in int32_data has the value of
// one byte of raw_data.
constexpr unsigned six_bits = 6;

struct onnx_type_row {
  std::uint64_t id;
  ringload::dtype dtype;
  unsigned bits;               // Number of bits of an element.
  std::uint32_t values_field;  // The field with the values if raw_data is not used.
  std::string_view packed;     // The name of the type if an element has fewer than 8 bits.
};
constexpr auto onnx_types = std::to_array<onnx_type_row>({
    {1, dtype::f32, 32, onnx_field::float_data, {}},
    {2, dtype::u8, 8, onnx_field::int32_data, {}},
    {3, dtype::i8, 8, onnx_field::int32_data, {}},
    {4, dtype::u16, 16, onnx_field::int32_data, {}},
    {5, dtype::i16, 16, onnx_field::int32_data, {}},
    {6, dtype::i32, 32, onnx_field::int32_data, {}},
    {7, dtype::i64, 64, onnx_field::int64_data, {}},
    {9, dtype::boolean, 8, onnx_field::int32_data, {}},
    {10, dtype::f16, 16, onnx_field::int32_data, {}},
    {11, dtype::f64, 64, onnx_field::double_data, {}},
    {12, dtype::u32, 32, onnx_field::uint64_data, {}},
    {13, dtype::u64, 64, onnx_field::uint64_data, {}},
    {14, dtype::c64, 64, onnx_field::float_data, {}},
    {15, dtype::c128, 128, onnx_field::double_data, {}},
    {16, dtype::bf16, 16, onnx_field::int32_data, {}},
    {17, dtype::f8_e4m3fn, 8, onnx_field::int32_data, {}},
    {18, dtype::f8_e4m3fnuz, 8, onnx_field::int32_data, {}},
    {19, dtype::f8_e5m2, 8, onnx_field::int32_data, {}},
    {20, dtype::f8_e5m2fnuz, 8, onnx_field::int32_data, {}},
    {21, dtype::u8, 4, onnx_field::int32_data, "u4"},
    {22, dtype::u8, 4, onnx_field::int32_data, "i4"},
    {23, dtype::u8, 4, onnx_field::int32_data, "f4_e2m1"},
    {24, dtype::f8_e8m0, 8, onnx_field::int32_data, {}},
    {25, dtype::u8, 2, onnx_field::int32_data, "u2"},
    {26, dtype::u8, 2, onnx_field::int32_data, "i2"},
    {27, dtype::u8, six_bits, onnx_field::int32_data, "f6_e2m3"},
    {28, dtype::u8, six_bits, onnx_field::int32_data, "f6_e3m2"},
});

const onnx_type_row* type_of(std::uint64_t id) noexcept {
  const auto found = std::ranges::find(onnx_types, id, &onnx_type_row::id);
  return found == onnx_types.end() ? nullptr : &*found;
}

// Packs the low six bits of each value without gaps. The first value is in the lowest bits.
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

class tensor_converter {
 public:
  tensor_converter(const onnx_tensor& tensor, input& from, onnx_files& external_files) noexcept
      : tensor_(tensor), from_(from), external_files_(external_files) {}

  result<entry> converted();

 private:
  std::optional<fault> set_shape();
  std::optional<fault> set_raw();
  std::optional<fault> set_external();
  std::optional<fault> set_values();
  std::optional<fault> gather();
  std::optional<fault> check_varints(std::uint64_t stored);
  fault wrong_bytes(std::uint64_t stored) const;
  // Returns the fault for a wrong number of values in gather(). For a type of six bits, `stored`
  // and `expected` are numbers of elements. For any other type, both are numbers of bytes.
  fault wrong_values(std::uint64_t stored, std::uint64_t expected) const;
  void set_stream(stored_stream stream);

  const onnx_tensor& tensor_;
  input& from_;
  onnx_files& external_files_;
  const onnx_type_row* type_ = nullptr;
  entry out_;
};

fault tensor_converter::wrong_bytes(std::uint64_t stored) const {
  return onnx_fault(tensor_, errc::wrong_tensor_bytes,
                    std::string(type_->packed.empty() ? name(out_.dtype) : type_->packed) + " " +
                        shape_text(tensor_.dims) + " needs " + grouped(out_.bytes) +
                        " bytes, but it has " + grouped(stored));
}

fault tensor_converter::wrong_values(std::uint64_t stored, std::uint64_t expected) const {
  if (type_->bits != six_bits) return wrong_bytes(stored);
  return onnx_fault(tensor_, errc::wrong_tensor_bytes,
                    std::string(type_->packed) + " " + shape_text(tensor_.dims) + " needs " +
                        grouped(expected) + " values, but it has " + grouped(stored));
}

std::optional<fault> tensor_converter::set_shape() {
  for (const std::uint64_t dim : tensor_.dims) {
    if (dim >> 63U != 0)
      return onnx_fault(tensor_, errc::malformed_header, "a dimension is negative");
  }
  const auto count = element_count(tensor_.dims);
  const auto bits = count ? checked_multiply(*count, type_->bits) : count;
  const auto rounded = bits ? checked_add(*bits, 7) : bits;
  if (!rounded) {
    return onnx_fault(tensor_, errc::size_overflow,
                      "the size of " + shape_text(tensor_.dims) + " does not fit in 64 bits");
  }
  out_.dtype = type_->dtype;
  out_.bytes = *rounded / 8;
  out_.shape = tensor_.dims;
  if (type_->packed.empty()) return std::nullopt;
  out_.type = type_->packed;
  out_.original_shape = tensor_.dims;
  // An empty original_shape would mean that the elements are not packed, so a scalar has one
  // dimension.
  if (out_.original_shape.empty()) out_.original_shape = {1};
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
  if (tensor_.raw || !tensor_.value_runs.empty()) {
    return onnx_fault(tensor_, errc::malformed_header,
                      "its data is external, but the tensor also contains data");
  }
  if (!tensor_.location) {
    return onnx_fault(tensor_, errc::malformed_header, "its data is external, but has no location");
  }
  const std::string path = path_beneath(*tensor_.location);
  if (path.empty()) {
    return onnx_fault(tensor_, errc::path_outside_source,
                      "its data is in '" + printable(*tensor_.location) +
                          "', expected a path inside the model's folder");
  }
  if (tensor_.external_bytes.value_or(out_.bytes) != out_.bytes) {
    return wrong_bytes(*tensor_.external_bytes);
  }
  stored_stream stream;
  stream.offset = tensor_.external_offset.value_or(0);
  stream.bytes = stream.decoded_bytes = out_.bytes;
  if (!checked_add(stream.offset, stream.bytes)) {
    return onnx_fault(tensor_, errc::size_overflow, "the end of its data does not fit in 64 bits");
  }
  const auto number = static_cast<std::uint32_t>(external_files_.paths.size() + 1);
  const auto [known, is_new] = external_files_.numbers.emplace(path, number);
  if (is_new) external_files_.paths.push_back(path);
  stream.file = known->second;
  set_stream(std::move(stream));
  return std::nullopt;
}

// Checks that `stored` bytes can encode the base-128 integers of the tensor. Each integer is one
// element, or one byte of elements with fewer than 8 bits.
std::optional<fault> tensor_converter::check_varints(std::uint64_t stored) {
  const std::uint64_t count = out_.bytes / (bits(out_.dtype) / 8);
  const std::uint64_t count_min =
      stored / varint_bytes_max + (stored % varint_bytes_max == 0 ? 0 : 1);
  if (count_min <= count && count <= stored) return std::nullopt;
  return onnx_fault(tensor_, errc::wrong_tensor_bytes,
                    "it needs " + grouped(count) + " base-128 integers, but " + grouped(stored) +
                        " bytes cannot encode this number");
}

std::optional<fault> tensor_converter::gather() {
  std::uint64_t stored = 0;
  // The sum cannot overflow, because the runs are disjoint and in one file.
  for (const onnx_run& run : tensor_.value_runs) stored += run.bytes;
  if (stored > onnx_values_bytes_max || out_.bytes > onnx_values_bytes_max) {
    return onnx_fault(tensor_, errc::unsupported_feature,
                      "its values must be read into memory, because they are in several ranges or "
                      "have six bits; expected at most " +
                          grouped(onnx_values_bytes_max) + " bytes of values");
  }
  const std::size_t width = bits(out_.dtype) / 8;
  const bool integers = tensor_.values_field != onnx_field::float_data &&
                        tensor_.values_field != onnx_field::double_data;
  // Elements of six bits are not packed yet, and use one byte each.
  const std::uint64_t expected_bytes =
      type_->bits == six_bits ? element_count(tensor_.dims).value_or(0) : out_.bytes;
  auto values = std::make_shared<std::vector<std::byte>>();
  values->reserve(static_cast<std::size_t>(expected_bytes));
  input_cursor in(from_, tensor_.value_runs.front().offset, from_.bytes());
  std::uint64_t value = 0;
  unsigned shift = 0;
  for (const onnx_run& run : tensor_.value_runs) {
    in.seek(run.offset);
    for (std::uint64_t i = 0; i < run.bytes; ++i) {
      std::uint8_t byte = 0;
      if (!in.number(byte)) return in.error();
      if (values->size() > expected_bytes) return wrong_values(values->size(), expected_bytes);
      if (!integers) {
        values->push_back(std::byte{byte});
        continue;
      }
      if (shift >= 7 * varint_bytes_max) {
        return onnx_fault(tensor_, errc::malformed_header,
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
  if (values->size() != expected_bytes || shift != 0)
    return wrong_values(values->size(), expected_bytes);
  if (type_->bits == six_bits) *values = packed_sixes(*values);
  stored_stream stream;
  stream.offset = tensor_.value_runs.front().offset;
  stream.bytes = stream.decoded_bytes = out_.bytes;
  stream.in_memory = std::move(values);
  set_stream(std::move(stream));
  return std::nullopt;
}

std::optional<fault> tensor_converter::set_values() {
  if (tensor_.values_field != 0 && tensor_.values_field != type_->values_field) {
    return onnx_fault(tensor_, errc::malformed_header,
                      "values of its type cannot be in field " + grouped(tensor_.values_field));
  }
  // A tensor without data has no elements: read_onnx_tensor() refuses tensors that have elements
  // but no data.
  if (tensor_.value_runs.empty()) return std::nullopt;
  if (tensor_.value_runs.size() > 1 || type_->bits == six_bits) return gather();
  const onnx_run& run = tensor_.value_runs.front();
  stored_stream stream;
  stream.offset = run.offset;
  stream.bytes = run.bytes;
  stream.decoded_bytes = out_.bytes;
  if (tensor_.values_field == onnx_field::float_data ||
      tensor_.values_field == onnx_field::double_data) {
    if (run.bytes != out_.bytes) return wrong_bytes(run.bytes);
    // The elements are contiguous and little-endian, so no decoding is needed.
    out_.offset = run.offset;
    return std::nullopt;
  }
  if (auto failure = check_varints(run.bytes)) return failure;
  stream.stored_codec = codec::varint;
  set_stream(std::move(stream));
  return std::nullopt;
}

result<entry> tensor_converter::converted() {
  type_ = type_of(tensor_.data_type);
  if (type_ == nullptr) {
    return onnx_fault(
        tensor_, errc::unsupported_feature,
        "its type has the number " + grouped(tensor_.data_type) + ", which is unknown");
  }
  if (auto failure = set_shape()) return *failure;
  if (tensor_.raw && tensor_.values_field != 0) {
    return onnx_fault(
        tensor_, errc::malformed_header,
        "the tensor has both raw_data and values in field " + grouped(tensor_.values_field));
  }
  auto failure = tensor_.external ? set_external() : tensor_.raw ? set_raw() : set_values();
  if (failure) return *failure;
  return std::move(out_);
}

}  // namespace

result<entry> entry_of(const onnx_tensor& tensor, input& from, onnx_files& external_files) {
  return tensor_converter(tensor, from, external_files).converted();
}

}  // namespace ringload::inline v0
