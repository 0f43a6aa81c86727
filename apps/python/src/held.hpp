// SPDX-License-Identifier: Apache-2.0
#pragma once

// The library's handles, as objects of Python hold them.

#include <nanobind/nanobind.h>

#include <memory>
#include <ringload/checkpoint.hpp>
#include <ringload/model.hpp>
#include <ringload/save.hpp>
#include <ringload/tensor.hpp>
#include <utility>

#include "fork.hpp"

namespace ringload::python {

struct held_tensor {
  explicit held_tensor(tensor t) : of(std::move(t)) {}
  of_this_process<tensor> of;
};

struct held_model {
  explicit held_model(model m) : of(std::move(m)) {}
  of_this_process<model> of;
};

struct held_progress {
  std::shared_ptr<save_progress> of = std::make_shared<save_progress>();
};

struct held_checkpoint {
  explicit held_checkpoint(checkpoint c) : of(std::move(c)) {}
  of_this_process<checkpoint> of;
};

/// An object of Python that holds the handle, of which there is no other.
template <class Held, class Handle>
nanobind::object object_of(Handle handle) {
  return nanobind::cast(new Held(std::move(handle)), nanobind::rv_policy::take_ownership);
}

void bind_tensor(nanobind::module_& in);
void bind_checkpoint(nanobind::module_& in);
void bind_operation(nanobind::module_& in);
void bind_loader(nanobind::module_& in);
void bind_writer(nanobind::module_& in);
void bind_keeper(nanobind::module_& in);
void bind_group(nanobind::module_& in);

}  // namespace ringload::python
