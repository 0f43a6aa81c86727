// SPDX-License-Identifier: Apache-2.0
#pragma once

// The handles of the library as members of Python objects.

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <ringload/checkpoint.hpp>
#include <ringload/device.hpp>
#include <ringload/model.hpp>
#include <ringload/save.hpp>
#include <ringload/tensor.hpp>
#include <string>
#include <utility>

#include "fork.hpp"

namespace ringload::python {

struct held_tensor {
  explicit held_tensor(tensor t) : of(std::move(t)) {}
  of_this_process<tensor> of;
};

struct held_model {
  explicit held_model(model m, std::size_t device_count = 1)
      : of(std::move(m)), devices(device_count) {}
  of_this_process<model> of;
  std::size_t devices;  // Number of devices of the loader.
};

struct held_progress {
  std::shared_ptr<save_progress> of = std::make_shared<save_progress>();
};

struct held_checkpoint {
  explicit held_checkpoint(checkpoint c) : of(std::move(c)) {}
  of_this_process<checkpoint> of;
};

/// Creates a Python object that owns the only copy of the handle.
template <class Held, class Handle>
nanobind::object object_of(Handle handle) {
  return nanobind::cast(new Held(std::move(handle)), nanobind::rv_policy::take_ownership);
}

/// Returns "cpu", the name of the host in Python libraries, or "cuda:0".
std::string device_name(const device& device);
/// Calls a function of ringload._convert.
nanobind::object convert(const char* function, const nanobind::tuple& arguments);

void bind_tensor(nanobind::module_& in);
void bind_model(nanobind::module_& in);
void bind_checkpoint(nanobind::module_& in);
void bind_operation(nanobind::module_& in);
void bind_loader(nanobind::module_& in);
void bind_remote_objects(nanobind::module_& in);
void bind_writer(nanobind::module_& in);
void bind_keeper(nanobind::module_& in);
void bind_group(nanobind::module_& in);

}  // namespace ringload::python
