// SPDX-License-Identifier: Apache-2.0
#pragma once

// Operations that Python has begun, and what keeps what they run on.

#include <nanobind/nanobind.h>

#include <boost/asio/execution_context.hpp>
#include <cstddef>
#include <memory>
#include <ringload/device.hpp>
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
class loader;
class load_operation;
}  // namespace v0
}  // namespace ringload

namespace ringload::python {

/// A loader, or a writer, and the context that its operations complete in. The context is destroyed
/// last, in a thread of Python's.
template <class T>
struct running {
  boost::asio::execution_context context;
  std::shared_ptr<T> of;
  /// Operations that `of` must outlive. Touched with the GIL.
  std::vector<std::weak_ptr<operation_state>> calls;
};

/// A group, and which load's calls it is in. Touched with the GIL.
struct used_group {
  std::shared_ptr<group> of;
  std::weak_ptr<operation_state> last_call;
  const void* last_caller = nullptr;
};

/// What Python's Operation holds.
struct held_operation {
  held_operation(std::shared_ptr<void> ran_by, std::shared_ptr<operation_state> s,
                 nanobind::object used)
      : of(parts{std::move(ran_by), std::move(s), std::move(used), {}, nullptr, nullptr, 1}) {}
  /// Cancels what has not ended, and waits for what still uses memory of Python's objects.
  ~held_operation();

  struct parts {
    std::shared_ptr<void> runner;
    std::shared_ptr<operation_state> state;
    nanobind::object kept;                // Python's objects whose memory it uses.
    nanobind::object taken;               // The result, once somebody has asked for it.
    std::shared_ptr<running<loader>> by;  // For a loading, which outlives this.
    std::shared_ptr<used_group> ranks;    // For a load of ranks.
    std::size_t devices = 1;              // Of the loader, for a model.
  };
  of_this_process<parts> of;
};

/// Begins an operation that gives a T: `initiate` is given its handler.
template <class T, class Runner, class Initiate>
std::unique_ptr<held_operation> begin(const std::shared_ptr<Runner>& runner, Initiate initiate,
                                      nanobind::object kept = nanobind::none()) {
  auto state = std::make_shared<operation_state>();
  initiate(settling_handler<T>(state, settling_executor(runner->context)));
  return std::make_unique<held_operation>(runner, std::move(state), std::move(kept));
}

/// A loading as Python's object, with the loader that runs it.
nanobind::object object_of(load_operation of, const std::shared_ptr<running<loader>>& by);

/// A group, and what a rank has of a load, as Python's objects.
nanobind::object object_of(std::shared_ptr<group> of);
nanobind::object object_of(group_load of, const std::shared_ptr<running<loader>>& by,
                           const std::shared_ptr<used_group>& ranks);

/// Begins a load of ranks; `ranks` is a Group. Throws exceptions of Python's.
std::unique_ptr<held_operation> begin_group_load(const std::shared_ptr<running<loader>>& by,
                                                 nanobind::handle ranks, const std::string& source,
                                                 const std::string& reading,
                                                 const nanobind::dict& how);
/// Cancels what must end before the loader goes, and waits for it. Without the GIL.
void end_all(const std::vector<std::weak_ptr<operation_state>>& calls);

/// "cpu", "shared", "cuda", "cuda:1". Throws usage_error.
device device_of(std::string_view name);

/// Throws an exception of Python's in a child of the process that made it.
void refuse_inherited(bool inherited, const char* what);

}  // namespace ringload::python
