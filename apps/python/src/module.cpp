// SPDX-License-Identifier: Apache-2.0

// The module ringload._core. The import creates no thread, no ring and no other resource.

#include <nanobind/nanobind.h>

#include "convert.hpp"
#include "held.hpp"

NB_MODULE(_core, m) {
  namespace nb = nanobind;
  nb::set_leak_warnings(false);  // At exit, waiting threads may hold objects.
  m.doc() = "The library's own objects, as the package ringload wraps them.";
  m.attr("version") = RINGLOAD_VERSION;
  m.attr("has_cuda") = RINGLOAD_PYTHON_CUDA != 0;
  m.attr("has_remote") = RINGLOAD_PYTHON_REMOTE != 0;
  m.attr("has_hdf5") = RINGLOAD_PYTHON_HDF5 != 0;
  m.attr("has_zstd") = RINGLOAD_PYTHON_ZSTD != 0;
  m.attr("has_deflate") = RINGLOAD_PYTHON_DEFLATE != 0;
  nb::register_exception_translator([](const std::exception_ptr& failure, void*) {
    ringload::python::set_python_error(failure);
  });
  ringload::python::bind_tensor(m);
  ringload::python::bind_model(m);
  ringload::python::bind_checkpoint(m);
  ringload::python::bind_operation(m);
  ringload::python::bind_loader(m);
  ringload::python::bind_remote_objects(m);
  ringload::python::bind_writer(m);
  ringload::python::bind_keeper(m);
  ringload::python::bind_group(m);
}
