// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts attributes from and to Python values: int, float, bool, None, str, bytes, list and dict.

#include <nanobind/nanobind.h>

#include <ringload/attribute.hpp>

namespace ringload::python {

namespace nb = nanobind;

nb::object value_of(const attribute& from);
nb::dict dict_of(const attributes& from);

/// Scalars and arrays of NumPy become numbers and lists. Throws nb::type_error for any other type.
attribute attribute_of(nb::handle value);
attributes attributes_of(const nb::dict& values);

}  // namespace ringload::python
