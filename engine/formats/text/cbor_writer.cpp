// SPDX-License-Identifier: Apache-2.0

#include "formats/text/cbor_writer.hpp"

#include <bit>
#include <cmath>

#include "base/numeric/convert_float.hpp"
#include "formats/text/cbor_major.hpp"

namespace ringload::inline v0 {

namespace {

constexpr char false_byte = '\xF4';
constexpr char true_byte = '\xF5';
constexpr char null_byte = '\xF6';
constexpr char half_byte = '\xF9';
constexpr char single_byte = '\xFA';
constexpr char double_byte = '\xFB';

}  // namespace

void cbor_writer::big_endian(std::uint64_t value, unsigned bytes) {
  for (unsigned shift = 8 * bytes; shift > 0; shift -= 8) {
    out_ += static_cast<char>(value >> (shift - 8) & 0xFFU);
  }
}

void cbor_writer::head(unsigned major, std::uint64_t argument) {
  const unsigned bytes = argument < 24             ? 0
                         : argument <= 0xFF        ? 1
                         : argument <= 0xFFFF      ? 2
                         : argument <= 0xFFFF'FFFF ? 4
                                                   : 8;
  const unsigned info = bytes == 0 ? static_cast<unsigned>(argument)
                                   : 24 + static_cast<unsigned>(std::countr_zero(bytes));
  out_ += static_cast<char>(major << 5U | info);
  big_endian(argument, bytes);
}

void cbor_writer::map(std::uint64_t pairs) { head(cbor::map, pairs); }
void cbor_writer::array(std::uint64_t items) { head(cbor::array, items); }

void cbor_writer::text(std::string_view value) {
  head(cbor::text, value.size());
  out_ += value;
}

void cbor_writer::bytes(std::span<const std::byte> value) {
  head(cbor::bytes, value.size());
  out_.append(reinterpret_cast<const char*>(value.data()), value.size());
}

void cbor_writer::unsigned_integer(std::uint64_t value) { head(cbor::positive, value); }

// A negative number is stored as -1 - value: -1 is stored as 0, and -2 is stored as 1.
void cbor_writer::integer(std::int64_t value) {
  if (value >= 0) return head(cbor::positive, static_cast<std::uint64_t>(value));
  head(cbor::negative, ~static_cast<std::uint64_t>(value));
}

void cbor_writer::floating(double value) {
  const auto single = static_cast<float>(value);
  const bool fits_single = std::isnan(value) || static_cast<double>(single) == value;
  if (!fits_single) {
    out_ += double_byte;
    return big_endian(std::bit_cast<std::uint64_t>(value), 8);
  }
  using half_bits = float_bits<float_type::f16>;
  const auto word = std::bit_cast<std::uint32_t>(single);
  const std::uint16_t half = half_bits::narrow(word);
  if (std::isnan(value) || half_bits::widen(half) == word) {
    out_ += half_byte;
    return big_endian(std::isnan(value) ? 0x7E00U : half, 2);
  }
  out_ += single_byte;
  big_endian(word, 4);
}

void cbor_writer::boolean(bool value) { out_ += value ? true_byte : false_byte; }
void cbor_writer::null() { out_ += null_byte; }

}  // namespace ringload::inline v0
