// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the opaque handles of ringload/c.h stand for.

#include <ringload/c.h>

#include <memory>
#include <optional>
#include <ringload/checkpoint.hpp>
#include <ringload/device.hpp>
#include <ringload/loader.hpp>
#include <ringload/loading.hpp>
#include <ringload/model.hpp>
#include <ringload/selection.hpp>
#include <ringload/tensor.hpp>
#include <string>

namespace ringload::c {
class completion_thread;
class operation_state;
}  // namespace ringload::c

struct ringload_device {
  ringload::device of;
};

struct ringload_loader {
  std::shared_ptr<ringload::c::completion_thread> thread;
  std::shared_ptr<ringload::loader> of;  // Shared with operations that are yet to begin.
};

struct ringload_checkpoint {
  ringload::checkpoint of;
};

struct ringload_selection {
  ringload::selection of;
};

struct ringload_operation {
  std::shared_ptr<ringload::c::operation_state> state;
};

struct ringload_loading {
  std::shared_ptr<ringload::c::completion_thread> thread;
  std::shared_ptr<ringload::loading> of;  // Shared with operations that are yet to begin.
};

struct ringload_model {
  ringload::model of;
};

struct ringload_tensor {
  explicit ringload_tensor(ringload::tensor t) : of(std::move(t)), name(of.name()) {}

  ringload::tensor of;
  std::string name;  // That of `of` need not end with a 0 byte.
};
