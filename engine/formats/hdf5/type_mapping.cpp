// SPDX-License-Identifier: Apache-2.0

#include "formats/hdf5/type_mapping.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "formats/hdf5/attributes.hpp"
#include "formats/hdf5/library.hpp"

namespace ringload::inline v0::h5 {

namespace {

constexpr unsigned type_nesting_max = 4;

element_form make_readable_form(dtype type, H5T_order_t order) {
  element_form out;
  out.is_read = true;
  out.dtype = type;
  out.big_endian = order == H5T_ORDER_BE;
  return out;
}

element_form make_unreadable_form(std::string reason, bool is_numeric) {
  element_form out;
  out.reason = std::move(reason);
  out.numbers = is_numeric;
  return out;
}

bool has_plain_order(hid_t type) {
  const H5T_order_t order = ::H5Tget_order(type);
  return order == H5T_ORDER_LE || order == H5T_ORDER_BE ||
         (order == H5T_ORDER_NONE && ::H5Tget_size(type) == 1);
}

element_form integer_form(hid_t type, bool is_signed) {
  const std::size_t bytes = ::H5Tget_size(type);
  const std::size_t precision = ::H5Tget_precision(type);
  const bool uses_all_bits =
      precision == bytes * 8 && ::H5Tget_offset(type) == 0 && has_plain_order(type);
  const H5T_order_t order = ::H5Tget_order(type);
  switch (uses_all_bits ? bytes : 0) {
    case 1: return make_readable_form(is_signed ? dtype::i8 : dtype::u8, order);
    case 2: return make_readable_form(is_signed ? dtype::i16 : dtype::u16, order);
    case 4: return make_readable_form(is_signed ? dtype::i32 : dtype::u32, order);
    case 8: return make_readable_form(is_signed ? dtype::i64 : dtype::u64, order);
    default:
      return make_unreadable_form("it holds integers of " + std::to_string(precision) +
                                      " bits in " + std::to_string(bytes) + " bytes",
                                  true);
  }
}

struct float_layout {
  std::size_t bytes, exponent_at, exponent_bits, mantissa_bits, bias;
  dtype type;
};

// f8_e4m3fn has no infinities, like H5T_FLOAT_F8E4M3 of HDF5 2.
constexpr std::array<float_layout, 6> float_layouts = {{
    {4, 23, 8, 23, 127, dtype::f32},
    {8, 52, 11, 52, 1023, dtype::f64},
    {2, 10, 5, 10, 15, dtype::f16},
    {2, 7, 8, 7, 127, dtype::bf16},
    {1, 3, 4, 3, 7, dtype::f8_e4m3fn},
    {1, 2, 5, 2, 15, dtype::f8_e5m2},
}};

element_form float_form(hid_t type) {
  const std::size_t bytes = ::H5Tget_size(type);
  std::size_t sign = 0;
  std::size_t exponent = 0;
  std::size_t exponent_bits = 0;
  std::size_t mantissa = 0;
  std::size_t mantissa_bits = 0;
  const bool known =
      ::H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) >= 0 &&
      has_plain_order(type) && ::H5Tget_norm(type) == H5T_NORM_IMPLIED &&
      ::H5Tget_offset(type) == 0 && sign == bytes * 8 - 1 && mantissa == 0;
  for (const float_layout& layout : float_layouts) {
    if (known && layout.bytes == bytes && layout.exponent_at == exponent &&
        layout.exponent_bits == exponent_bits && layout.mantissa_bits == mantissa_bits &&
        layout.bias == ::H5Tget_ebias(type)) {
      return make_readable_form(layout.type, ::H5Tget_order(type));
    }
  }
  return make_unreadable_form("it holds floats of " + std::to_string(::H5Tget_precision(type)) +
                                  " bits in " + std::to_string(bytes) +
                                  " bytes, which no supported type matches",
                              true);
}

element_form complex_of(const element_form& part) {
  if (part.is_read && part.dimensions.empty()) {
    if (part.dtype == dtype::f32)
      return make_readable_form(dtype::c64, part.big_endian ? H5T_ORDER_BE : H5T_ORDER_LE);
    if (part.dtype == dtype::f64)
      return make_readable_form(dtype::c128, part.big_endian ? H5T_ORDER_BE : H5T_ORDER_LE);
  }
  return make_unreadable_form("it holds complex numbers with parts that are neither F32 nor F64",
                              true);
}

std::string member_name(hid_t type, unsigned index) {
  char* const name = ::H5Tget_member_name(type, index);
  const std::string out = name == nullptr ? "" : name;
  ::H5free_memory(name);
  return out;
}

// h5py and PyTables write a complex number as {r, i}. Both parts are floats of the same type.
element_form compound_form(hid_t type) {
  const element_form other_compound =
      make_unreadable_form("its elements are structures (compound)", false);
  if (::H5Tget_nmembers(type) != 2) return other_compound;
  if (member_name(type, 0) != "r" || member_name(type, 1) != "i") return other_compound;
  const handle real(::H5Tget_member_type(type, 0), &::H5Tclose);
  const handle imaginary(::H5Tget_member_type(type, 1), &::H5Tclose);
  if (!real || !imaginary || ::H5Tget_class(real.get()) != H5T_FLOAT) return other_compound;
  const std::size_t bytes = ::H5Tget_size(real.get());
  const bool is_dense = ::H5Tget_member_offset(type, 0) == 0 &&
                        ::H5Tget_member_offset(type, 1) == bytes &&
                        ::H5Tget_size(type) == 2 * bytes;
  if (!is_dense || ::H5Tequal(real.get(), imaginary.get()) <= 0) return other_compound;
  return complex_of(float_form(real.get()));
}

// h5py writes a bool as an enumeration of 8-bit integers: FALSE = 0 and TRUE = 1.
bool is_bool(hid_t type) {
  if (::H5Tget_size(type) != 1 || ::H5Tget_nmembers(type) != 2) return false;
  for (unsigned i = 0; i < 2; ++i) {
    std::uint8_t value = 0;
    if (::H5Tget_member_value(type, i, &value) < 0) return false;
    const std::string name = member_name(type, i);
    if (value > 1 || name != (value == 0 ? "FALSE" : "TRUE")) return false;
  }
  return true;
}

element_form form_of(hid_t type, unsigned depth);

element_form enum_form(hid_t type) {
  if (is_bool(type)) return make_readable_form(dtype::boolean, H5T_ORDER_LE);
  const handle base(::H5Tget_super(type), &::H5Tclose);
  if (!base || ::H5Tget_class(base.get()) != H5T_INTEGER) {
    return make_unreadable_form("its elements are an enumeration without an integer base", false);
  }
  return integer_form(base.get(), ::H5Tget_sign(base.get()) == H5T_SGN_2);
}

element_form array_form(hid_t type, unsigned depth) {
  const handle base(::H5Tget_super(type), &::H5Tclose);
  std::array<hsize_t, H5S_MAX_RANK> sizes = {};
  const int rank = ::H5Tget_array_ndims(type);
  if (!base || rank < 1 || rank > H5S_MAX_RANK || ::H5Tget_array_dims2(type, sizes.data()) < 0) {
    return make_unreadable_form("its elements are arrays that cannot be read", false);
  }
  element_form out = form_of(base.get(), depth + 1);
  out.dimensions.insert(out.dimensions.begin(), sizes.begin(), sizes.begin() + rank);
  return out;
}

// h5py writes bfloat16 and the 8-bit floats of the package ml_dtypes as an opaque type, which
// states only the size of an element.
element_form opaque_form(hid_t type) {
  const std::size_t bytes = ::H5Tget_size(type);
  if (bytes > 2) return make_unreadable_form("its elements are opaque", false);
  return make_unreadable_form(
      "its elements are opaque, of " + std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes") +
          ", and may be numbers whose type the file does not state, as h5py writes ml_dtypes",
      true);
}

element_form form_of(hid_t type, unsigned depth) {
  if (depth > type_nesting_max) return make_unreadable_form("its type is nested too deeply", false);
  switch (::H5Tget_class(type)) {
    case H5T_INTEGER: return integer_form(type, ::H5Tget_sign(type) == H5T_SGN_2);
    case H5T_BITFIELD: return integer_form(type, false);
    case H5T_FLOAT: return float_form(type);
    case H5T_ENUM: return enum_form(type);
    case H5T_COMPOUND: return compound_form(type);
    case H5T_ARRAY: return array_form(type, depth);
    case H5T_STRING: return make_unreadable_form("it holds strings", false);
    case H5T_VLEN: return make_unreadable_form("its elements have different lengths (vlen)", false);
    case H5T_REFERENCE: return make_unreadable_form("it holds references", false);
    case H5T_OPAQUE: return opaque_form(type);
    case H5T_TIME: return make_unreadable_form("it holds times", false);
#if H5_VERSION_GE(2, 0, 0)
    case H5T_COMPLEX: {
      const handle base(::H5Tget_super(type), &::H5Tclose);
      return complex_of(base ? float_form(base.get()) : element_form());
    }
#endif
    default: return make_unreadable_form("its elements are of an unknown class", false);
  }
}

}  // namespace

element_form element_form_of(hid_t type, hid_t dataset) {
  // Keras states the type of a bfloat16 dataset in an attribute.
  const bool is_bf16 = ::H5Tget_class(type) == H5T_OPAQUE && ::H5Tget_size(type) == 2 &&
                       short_text_of(dataset, "dtype") == "bfloat16";
  return is_bf16 ? make_readable_form(dtype::bf16, H5T_ORDER_LE) : form_of(type, 0);
}

}  // namespace ringload::inline v0::h5
