// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the opaque handles of ringload/c.h stand for.

#include <ringload/c.h>

#include <memory>
#include <mutex>
#include <optional>
#include <ringload/checkpoint.hpp>
#include <ringload/device.hpp>
#include <ringload/extension.hpp>
#include <ringload/load_operation.hpp>
#include <ringload/loader.hpp>
#include <ringload/model.hpp>
#include <ringload/selection.hpp>
#include <ringload/tensor.hpp>
#include <ringload/verify.hpp>
#include <ringload/writer.hpp>
#include <string>

namespace ringload::c {
class completion_thread;
class operation_state;
}  // namespace ringload::c

struct ringload_device {
  ringload::device of;
};

struct ringload_extension {
  ringload::extension of;
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

struct ringload_manifest {
  std::shared_ptr<const ringload::manifest> of;  // Shared with the loads that it is given to.
};

struct ringload_operation {
  std::shared_ptr<ringload::c::operation_state> state;
  std::once_flag manifest_made;  // What is given out by ringload_operation_saved_manifest().
  std::string manifest;
};

struct ringload_loading {
  std::shared_ptr<ringload::c::completion_thread> thread;
  std::shared_ptr<ringload::load_operation> of;  // Shared with operations that are yet to begin.
};

struct ringload_writer {
  std::shared_ptr<ringload::c::completion_thread> thread;
  std::shared_ptr<ringload::writer> of;  // Shared with operations that are yet to begin.
  ringload::device on;                   // Of tensors that say so.
};

struct ringload_model {
  ringload::model of;
};

struct ringload_tensor {
  explicit ringload_tensor(ringload::tensor t) : of(std::move(t)), name(of.name()) {}

  ringload::tensor of;
  std::string name;  // That of `of` need not end with a 0 byte.
};
