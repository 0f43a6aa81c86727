// SPDX-License-Identifier: Apache-2.0
#include "attributes.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "convert.hpp"

namespace ringload::python {

namespace {

constexpr unsigned depth_max = 64;  // Maximum depth of nested lists and dictionaries.

// The major types of CBOR (RFC 8949, 3.1).
enum kind : unsigned { positive, negative, bytes, text, list, map, tag, simple };
constexpr unsigned indefinite = 31;
constexpr std::uint64_t positive_bignum = 2;
constexpr std::uint64_t negative_bignum = 3;

nb::object steal(PyObject* made) {
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

nb::object int_of(std::string_view big_endian) {
  return nb::module_::import_("builtins")
      .attr("int")
      .attr("from_bytes")(nb::bytes(big_endian.data(), big_endian.size()), "big");
}

nb::object minus_one_minus(const nb::object& number) {
  return steal(PyNumber_Invert(number.ptr()));
}

double half_float(unsigned word) {
  const unsigned exponent = word >> 10U & 31U;
  const double fraction = word & 1023U;
  double value = 0;
  if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else if (exponent == 31) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else {
    value = std::ldexp(fraction + 1024, static_cast<int>(exponent) - 25);
  }
  return (word & 0x8000U) != 0 ? -value : value;
}

// Decodes the CBOR of an `attribute`, which is one complete and valid value.
class decoder {
 public:
  explicit decoder(std::string_view encoded) : left_(encoded) {}

  nb::object value() {
    const head at = next();
    switch (at.of) {
      case positive: return nb::int_(at.argument);
      case negative: return minus_one_minus(nb::int_(at.argument));
      case bytes: {
        const std::string all = string(at);
        return nb::bytes(all.data(), all.size());
      }
      case text: return str_of(string(at));
      case list: return list_of(at);
      case map: return dict_of(at);
      case tag: return tagged(at);
      default: return simple_value(at);
    }
  }

 private:
  struct head {
    unsigned of = 0;
    unsigned info = 0;
    std::uint64_t argument = 0;
  };

  std::string_view take(std::uint64_t count) {
    const auto found = left_.substr(0, static_cast<std::size_t>(count));
    left_.remove_prefix(found.size());
    return found;
  }

  head next() {
    const unsigned first = static_cast<unsigned char>(take(1).at(0));
    head out = {first >> 5U, first & 31U, first & 31U};
    if (out.info < 24 || out.info == indefinite) return out;
    out.argument = 0;
    for (const char each : take(std::uint64_t{1} << (out.info - 24))) {
      out.argument = out.argument << 8U | static_cast<unsigned char>(each);
    }
    return out;
  }

  bool at_break() {
    if (left_.empty() || left_.front() != '\xFF') return false;
    left_.remove_prefix(1);
    return true;
  }

  std::string string(const head& at) {
    if (at.info != indefinite) return std::string(take(at.argument));
    std::string all;
    while (!at_break()) all += take(next().argument);
    return all;
  }

  nb::object list_of(const head& at) {
    nb::list all;
    for (std::uint64_t i = 0; at.info == indefinite ? !at_break() : i < at.argument; ++i) {
      all.append(value());
    }
    return all;
  }

  nb::object dict_of(const head& at) {
    nb::dict all;
    for (std::uint64_t i = 0; at.info == indefinite ? !at_break() : i < at.argument; ++i) {
      nb::object key = value();
      all[key] = value();
    }
    return all;
  }

  nb::object tagged(const head& at) {
    const bool is_bytes =
        !left_.empty() && static_cast<unsigned char>(left_.front()) >> 5U == bytes;
    if (!is_bytes || (at.argument != positive_bignum && at.argument != negative_bignum)) {
      return value();
    }
    nb::object number = int_of(string(next()));
    return at.argument == negative_bignum ? minus_one_minus(number) : number;
  }

  static nb::object simple_value(const head& at) {
    switch (at.info) {
      case 20: return nb::bool_(false);
      case 21: return nb::bool_(true);
      case 22:
      case 23: return nb::none();  // 23 is "undefined".
      case 25: return nb::float_(half_float(static_cast<unsigned>(at.argument)));
      case 26:
        return nb::float_(double{std::bit_cast<float>(static_cast<std::uint32_t>(at.argument))});
      case 27: return nb::float_(std::bit_cast<double>(at.argument));
      default: return nb::int_(at.argument);
    }
  }

  std::string_view left_;
};

std::string head_of(kind of, std::uint64_t argument) {
  std::string out = attribute(argument).encoded();
  out.front() = static_cast<char>(static_cast<unsigned char>(out.front()) | of << 5U);
  return out;
}

void encode(nb::handle value, std::string& out, unsigned depth);

void encode_int(nb::handle value, std::string& out) {
  nb::object magnitude = nb::borrow(value);
  const int compared = PyObject_RichCompareBool(value.ptr(), nb::int_(0).ptr(), Py_LT);
  if (compared < 0) throw nb::python_error();
  const bool is_negative = compared > 0;
  if (is_negative) magnitude = minus_one_minus(magnitude);
  const auto bits = nb::cast<std::size_t>(magnitude.attr("bit_length")());
  if (bits <= 64) {
    out += head_of(is_negative ? negative : positive, nb::cast<std::uint64_t>(magnitude));
    return;
  }
  const auto all = nb::cast<nb::bytes>(magnitude.attr("to_bytes")((bits + 7) / 8, "big"));
  out += head_of(tag, is_negative ? negative_bignum : positive_bignum);
  out += head_of(bytes, all.size());
  out.append(all.c_str(), all.size());
}

void encode_items(nb::handle value, std::string& out, unsigned depth) {
  out += head_of(list, nb::len(value));
  for (nb::handle each : value) encode(each, out, depth - 1);
}

void encode_dict(nb::handle value, std::string& out, unsigned depth) {
  out += head_of(map, nb::len(value));
  for (const auto& [key, each] : nb::borrow<nb::dict>(value)) {
    encode(key, out, depth - 1);
    encode(each, out, depth - 1);
  }
}

void encode(nb::handle value, std::string& out, unsigned depth) {
  if (depth == 0) throw nb::value_error("an attribute has too many values inside each other");
  PyObject* const of = value.ptr();
  if (value.is_none()) {
    out += attribute().encoded();
  } else if (PyBool_Check(of)) {
    out += attribute(nb::cast<bool>(value)).encoded();
  } else if (PyLong_Check(of)) {
    encode_int(value, out);
  } else if (PyFloat_Check(of)) {
    out += attribute(nb::cast<double>(value)).encoded();
  } else if (PyUnicode_Check(of)) {
    Py_ssize_t size = 0;
    const char* const utf8 = PyUnicode_AsUTF8AndSize(of, &size);
    if (utf8 == nullptr) throw nb::python_error();
    out += attribute(std::string_view(utf8, static_cast<std::size_t>(size))).encoded();
  } else if (PyBytes_Check(of) || PyByteArray_Check(of) || PyMemoryView_Check(of)) {
    const nb::object all = steal(PyBytes_FromObject(of));
    out += head_of(bytes, nb::len(all));
    out.append(nb::borrow<nb::bytes>(all).c_str(), nb::len(all));
  } else if (PyList_Check(of) || PyTuple_Check(of)) {
    encode_items(value, out, depth);
  } else if (PyDict_Check(of)) {
    encode_dict(value, out, depth);
  } else if (nb::hasattr(value, "tolist")) {  // Scalars and arrays of NumPy.
    encode(value.attr("tolist")(), out, depth - 1);
  } else {
    const auto name = nb::cast<std::string>(nb::str(value.type()));
    throw nb::type_error(("an attribute cannot be " + name).c_str());
  }
}

}  // namespace

nb::object value_of(const attribute& from) { return decoder(from.encoded()).value(); }

nb::dict dict_of(const attributes& from) {
  nb::dict all;
  for (const auto& [key, value] : from) all[str_of(key)] = value_of(value);
  return all;
}

attribute attribute_of(nb::handle value) {
  std::string encoded;
  encode(value, encoded, depth_max);
  return attribute::cbor(std::move(encoded));
}

attributes attributes_of(const nb::dict& values) {
  attributes all;
  for (const auto& [key, value] : values) {
    if (!PyUnicode_Check(key.ptr())) throw nb::type_error("the key of an attribute must be a str");
    all.emplace_back(nb::cast<std::string>(key), attribute_of(value));
  }
  return all;
}

}  // namespace ringload::python
