// SPDX-License-Identifier: Apache-2.0
#pragma once

// File names as arguments: a str, which is encoded like os.fsencode(), or bytes. File names of
// Linux are bytes and need not be UTF-8.

#include <nanobind/nanobind.h>

#include <string>

namespace ringload::python {

struct path_argument {
  std::string bytes;
};

}  // namespace ringload::python

namespace nanobind::detail {

template <>
struct type_caster<ringload::python::path_argument> {
  NB_TYPE_CASTER(ringload::python::path_argument, const_name("str"))

  bool from_python(handle source, std::uint8_t, cleanup_list*) noexcept {
    object encoded = borrow(source);
    if (PyUnicode_Check(source.ptr()) != 0) {
      encoded = steal(PyUnicode_EncodeFSDefault(source.ptr()));
      if (!encoded.is_valid()) {
        PyErr_Clear();
        return false;
      }
    }
    char* text = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_Check(encoded.ptr()) == 0 ||
        PyBytes_AsStringAndSize(encoded.ptr(), &text, &size) != 0) {
      PyErr_Clear();
      return false;
    }
    try {
      value.bytes.assign(text, static_cast<std::size_t>(size));
    } catch (...) {
      return false;
    }
    return true;
  }
};

}  // namespace nanobind::detail
