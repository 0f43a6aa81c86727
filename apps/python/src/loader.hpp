// SPDX-License-Identifier: Apache-2.0
#pragma once

// Operations that Python has started, and the objects that they need.

#include <nanobind/nanobind.h>

#include <boost/asio/execution_context.hpp>
#include <cstddef>
#include <memory>
#include <ringload/device.hpp>
#include <ringload/loader.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fork.hpp"
#include "operation.hpp"

namespace ringload {
inline namespace v0 {
class group;
class group_load;
}  // namespace v0
}  // namespace ringload

namespace ringload::python {

/// A loader or a writer, and the context of its completions. The context is destroyed last, in a
/// Python thread.
template <class T>
struct running {
  boost::asio::execution_context context;
  std::shared_ptr<T> of;
  /// Operations that must end before `of` is destroyed. Accessed with the GIL.
  std::vector<std::weak_ptr<operation_state>> calls;
};

/// A group, and the load that uses the group. Accessed with the GIL.
struct used_group {
  std::shared_ptr<group> of;
  std::weak_ptr<operation_state> last_call;
  const void* last_caller = nullptr;
  bool belongs_to_another = false;  // True if another group sends messages through this group.
};

/// The state of Python's Operation.
struct held_operation {
  held_operation(std::shared_ptr<void> ran_by, std::shared_ptr<operation_state> s,
                 nanobind::object used)
      : of(parts{std::move(ran_by), std::move(s), std::move(used), {}, nullptr, nullptr, 1}) {}
  /// Cancels the operation, and waits until no memory of Python objects is used.
  ~held_operation();

  struct parts {
    std::shared_ptr<void> runner;
    std::shared_ptr<operation_state> state;
    nanobind::object kept;   // Python objects whose memory the operation uses.
    nanobind::object taken;  // The result, after it was requested.
    // The loader of a Loading, which must outlive this object.
    std::shared_ptr<running<loader>> by;
    std::shared_ptr<used_group> ranks;  // The group of a load by ranks.
    std::size_t devices = 1;            // Number of devices of the loader, for a model.
  };
  of_this_process<parts> of;
};

/// Starts an operation with a result of type T. `initiate` receives the completion handler.
template <class T, class Runner, class Initiate>
std::unique_ptr<held_operation> begin(const std::shared_ptr<Runner>& runner, Initiate initiate,
                                      nanobind::object kept = nanobind::none()) {
  auto state = std::make_shared<operation_state>();
  initiate(settling_handler<T>(state, settling_executor(runner->context)));
  return std::make_unique<held_operation>(runner, std::move(state), std::move(kept));
}

/// Creates the Python object of a load_operation, with the loader that runs it.
nanobind::object object_of(load_operation of, const std::shared_ptr<running<loader>>& by);
nanobind::object object_of(tensor_stream of, const std::shared_ptr<running<loader>>& by);

/// Create the Python objects of a group and of the load of one rank.
nanobind::object object_of(std::shared_ptr<group> of);
nanobind::object object_of(group_load of, const std::shared_ptr<running<loader>>& by,
                           const std::shared_ptr<used_group>& ranks);

/// Starts a load by ranks. `ranks` must be a Group. Throws Python exceptions.
std::unique_ptr<held_operation> begin_group_load(const std::shared_ptr<running<loader>>& by,
                                                 nanobind::handle ranks, source from,
                                                 const std::string& reading,
                                                 const nanobind::dict& how);
/// Cancels the operations that must end before the loader is destroyed, and waits for them. Must be
/// called without the GIL.
void end_all(const std::vector<std::weak_ptr<operation_state>>& calls);

/// Parses "cpu", "shared", "cuda" or "cuda:1". Throws usage_error.
device device_of(std::string_view name);

/// Throws a Python exception if this process is a child of the process that created the object.
void refuse_inherited(bool inherited, const char* what);

}  // namespace ringload::python
