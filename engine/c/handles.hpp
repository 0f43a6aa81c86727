// SPDX-License-Identifier: Apache-2.0
#pragma once

// Definitions of the opaque handles of ringload/c.h.

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
  ringload::device value;
};

struct ringload_extension {
  ringload::extension value;
};

struct ringload_loader {
  std::shared_ptr<ringload::c::completion_thread> thread;
  std::shared_ptr<ringload::loader> value;  // Shared with operations that have not begun.
};

struct ringload_checkpoint {
  ringload::checkpoint value;
};

struct ringload_selection {
  ringload::selection value;
};

struct ringload_manifest {
  std::shared_ptr<const ringload::manifest> value;  // Shared with the loads that use it.
};

struct ringload_operation {
  std::shared_ptr<ringload::c::operation_state> state;
  std::once_flag manifest_made;  // Guards `manifest`, see ringload_operation_saved_manifest().
  std::string manifest;
};

struct ringload_loading {
  std::shared_ptr<ringload::c::completion_thread> thread;
  std::shared_ptr<ringload::load_operation> value;  // Shared with operations that have not begun.
};

struct ringload_writer {
  std::shared_ptr<ringload::c::completion_thread> thread;
  std::shared_ptr<ringload::writer> value;  // Shared with operations that have not begun.
  ringload::device on;                      // Device of tensors with on_device set.
};

struct ringload_model {
  ringload::model value;
};

struct ringload_tensor {
  explicit ringload_tensor(ringload::tensor t) : value(std::move(t)), name(value.name()) {}

  ringload::tensor value;
  std::string name;  // Copy with a 0 byte at the end.
};
