// SPDX-License-Identifier: Apache-2.0
#pragma once

// Defines the handle types of ringload/c.h, which are opaque to C programs.

#include <ringload/c.h>

#include <atomic>
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
  // Shared with operations that have not started yet, and with loads by ranks.
  std::shared_ptr<ringload::loader> value;
};

struct ringload_checkpoint {
  ringload::checkpoint value;
};

struct ringload_selection {
  mutable std::mutex mutex;  // Protects `value`.
  ringload::selection value;
};

struct ringload_checksum_list {
  std::shared_ptr<const ringload::checksum_list> value;  // Shared with the loads that use the list.
};

struct ringload_operation {
  std::shared_ptr<ringload::c::operation_state> state;
  // Ensures that `checksums` is set once, by ringload_operation_saved_checksums().
  std::once_flag checksums_made;
  std::string checksums;
};

struct ringload_loading {
  std::shared_ptr<ringload::c::completion_thread> thread;
  // Shared with operations that have not started yet.
  std::shared_ptr<ringload::load_operation> value;
};

struct ringload_tensor_stream {
  std::shared_ptr<ringload::c::completion_thread> thread;
  // Shared with operations that have not started yet.
  std::shared_ptr<ringload::tensor_stream> value;
};

struct ringload_writer {
  std::shared_ptr<ringload::c::completion_thread> thread;
  // Shared with operations that have not started yet.
  std::shared_ptr<ringload::writer> value;
  // The device of the tensors that set `on_device`.
  ringload::device on;
  // True if the writer adds objects to an existing file. If the file cannot be read, all steps fail
  // with the same error.
  bool appends = false;
  // The failure of a copy. Later steps can fail with the same error. Shared with operations.
  std::shared_ptr<std::atomic<int>> copy_failure = std::make_shared<std::atomic<int>>(0);
};

struct ringload_model {
  ringload::model value;
};

struct ringload_tensor {
  explicit ringload_tensor(ringload::tensor t) : value(std::move(t)), name(value.name()) {}

  ringload::tensor value;
  std::string name;  // A copy of the name that ends with a 0 byte.
};
