// SPDX-License-Identifier: Apache-2.0

// The Python classes Operation and Waker, with which Python waits for the engine.

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "convert.hpp"
#include "gil.hpp"
#include "held.hpp"
#include "loader.hpp"

namespace ringload::python {

namespace {

// Threads of the library share a waker by a C++ pointer. The pointer of nanobind would release a
// Python object in these threads, and so wait for the GIL.
struct held_waker {
  std::shared_ptr<waker> of = std::make_shared<waker>();
};

// The interval between two checks for signals, which is the longest delay of Ctrl-C.
constexpr std::chrono::milliseconds signal_interval{20};

bool wait_a_while(operation_state& state, std::chrono::milliseconds time) {
  const without_gil waiting;
  return state.wait_for(time);
}

// Returns true when the operation has ended, and false after `seconds`.
bool wait(const held_operation& self, std::optional<double> seconds) {
  using clock = std::chrono::steady_clock;
  refuse_inherited(self.of.inherited(), "the operation");
  const auto state = self.of->state;
  const bool forever = !seconds || !(*seconds < 1e9);
  const auto until =
      clock::now() + std::chrono::duration_cast<clock::duration>(
                         std::chrono::duration<double>(forever ? 0 : std::fmax(*seconds, 0)));
  while (true) {
    auto time = signal_interval;
    if (!forever) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now());
      time = std::clamp(left, std::chrono::milliseconds(0), signal_interval);
    }
    if (wait_a_while(*state, time)) return true;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!forever && clock::now() >= until) return false;
  }
}

nb::object result_of(any_result result, const held_operation& of) {
  return std::visit(
      [&](auto&& value) -> nb::object {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return nb::none();
        } else if constexpr (std::is_same_v<T, checkpoint>) {
          return object_of<held_checkpoint>(std::move(value));
        } else if constexpr (std::is_same_v<T, model>) {
          return nb::cast(new held_model(std::move(value), of.of->devices),
                          nb::rv_policy::take_ownership);
        } else if constexpr (std::is_same_v<T, tensor>) {
          if (!value) return nb::none();
          return object_of<held_tensor>(std::move(value));
        } else if constexpr (std::is_same_v<T, load_operation> ||
                             std::is_same_v<T, tensor_stream>) {
          return object_of(std::move(value), of.of->by);
        } else if constexpr (std::is_same_v<T, group_load>) {
          return object_of(std::move(value), of.of->by, of.of->ranks);
        } else if constexpr (std::is_same_v<T, std::shared_ptr<group>>) {
          return object_of(std::move(value));
        } else if constexpr (std::is_same_v<T, fill_result>) {
          nb::dict done;
          nb::list missing;
          for (const auto& name : value.missing) missing.append(str_of(name));
          nb::list unexpected;
          for (const auto& name : value.unexpected) unexpected.append(str_of(name));
          done["missing"] = missing;
          done["unexpected"] = unexpected;
          done["stats"] = dict_of(value.stats);
          return done;
        } else if constexpr (std::is_same_v<T, save_result> || std::is_same_v<T, delta_result> ||
                             std::is_same_v<T, update_result>) {
          return dict_of(value);
        } else if constexpr (std::is_same_v<T, write_result>) {
          const auto* bytes = reinterpret_cast<const char*>(value.file.data());
          nb::dict done;
          done["nbytes"] = value.bytes;
          done["bytes_direct"] = value.bytes_direct;
          done["writes"] = value.writes;
          done["seconds"] = value.seconds;
          return nb::make_tuple(value.bytes, nb::bytes(bytes, value.file.size()), done);
        } else {
          return nb::int_(value);
        }
      },
      std::move(result));
}

// A signal may interrupt the caller before the result is stored, so the result can be taken again.
nb::object take(held_operation& self) {
  refuse_inherited(self.of.inherited(), "the operation");
  if (!self.of->taken) self.of->taken = result_of(self.of->state->take(), self);
  return self.of->taken;
}

}  // namespace

void refuse_inherited(bool inherited, const char* what) {
  if (!inherited) return;
  const std::string text = std::string(what) +
                           " was made before this process was forked, and its threads are the "
                           "parent's: make a Loader in the child";
  throw nb::builtin_exception(nb::exception_type::runtime_error, text.c_str());
}

held_operation::~held_operation() {
  if (of.inherited() || of->state->ended()) return;
  of->state->cancel();
  if (of->kept.is_none()) return;
  const without_gil waiting;
  while (!of->state->wait_for(std::chrono::hours(1))) {
  }
}

void bind_operation(nb::module_& in) {
  nb::class_<held_operation>(in, "Begun", "An operation that the engine works on.")
      .def("ended",
           [](const held_operation& self) {
             return !self.of.inherited() && self.of->state->ended();
           })
      .def("wait", &wait, nb::arg("seconds") = nb::none(),
           "Waits without the GIL; signals are handled meanwhile. Whether it has ended.")
      .def("cancel",
           [](const held_operation& self) {
             if (!self.of.inherited()) self.of->state->cancel();
           })
      .def("take", &take, "The result, or raises what it failed with.")
      .def(
          "subscribe",
          [](const held_operation& self, const held_waker& with, std::uint64_t token) {
            refuse_inherited(self.of.inherited(), "the operation");
            self.of->state->subscribe(with.of, token);
          },
          nb::arg("waker"), nb::arg("token"));

  nb::class_<held_waker>(in, "Waker", "A descriptor that is readable when operations have ended.")
      .def(nb::init<>())
      .def("fileno", [](const held_waker& self) { return self.of->descriptor(); })
      .def("drain", [](const held_waker& self) {
        nb::list tokens;
        for (const std::uint64_t token : self.of->drain()) tokens.append(token);
        return tokens;
      });
}

}  // namespace ringload::python
