// SPDX-License-Identifier: Apache-2.0

// The Python class Keeper, and the function that attaches to a keeper.

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <boost/asio/execution_context.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <ringload/keeper.hpp>
#include <ringload/metrics.hpp>
#include <string>
#include <utility>
#include <vector>

#include "convert.hpp"
#include "gil.hpp"
#include "held.hpp"
#include "loader.hpp"
#include "path.hpp"

namespace ringload::python {

namespace {

class held_keeper {
 public:
  held_keeper(const path_argument& socket, unsigned mode, std::vector<unsigned> users,
              std::uint32_t connections_max)
      : of_(nullptr) {
    keeper_options how;
    how.mode = mode;
    how.users = std::move(users);
    how.connections_max = connections_max;
    const without_gil waiting;
    *of_ = std::make_shared<keeper>(socket.bytes, std::move(how));
  }
  ~held_keeper() { close(); }

  void publish(const std::string& name, const held_model& what) {
    // Another thread may call close() while this thread waits.
    std::shared_ptr<keeper> publisher = open_keeper();
    const model published = *what.of;
    const without_gil waiting;
    publisher->publish(name, published);
    publisher.reset();  // May be the last owner, which must not wait with the GIL.
  }

  bool withdraw(const std::string& name) { return open_keeper()->withdraw(name); }

  nb::list models() {
    nb::list all;
    for (const kept_model& one : open_keeper()->models()) {
      nb::dict of;
      of["name"] = str_of(one.name);
      of["version"] = one.version;
      of["nbytes"] = one.bytes;
      of["attached"] = one.attached;
      all.append(of);
    }
    return all;
  }

  nb::str metrics() { return str_of(keeper_metrics(open_keeper()->models())); }

  void close() {
    if (of_.inherited()) return;
    std::shared_ptr<keeper> last = std::move(*of_);
    const without_gil waiting;
    last.reset();
  }

 private:
  std::shared_ptr<keeper> open_keeper() {
    refuse_inherited(of_.inherited(), "the Keeper");
    if (!*of_) {
      throw nb::builtin_exception(nb::exception_type::runtime_error, "the Keeper is closed");
    }
    return *of_;
  }

  of_this_process<std::shared_ptr<keeper>> of_;
};

std::chrono::milliseconds timeout_of(double seconds) {
  if (!(seconds > 0 && seconds < 1e6))
    throw usage_error("timeout must be above 0 and below 1e6 seconds");
  return std::chrono::milliseconds(std::llround(std::ceil(seconds * 1000)));
}

// Has the execution context of the completions of an attach.
struct attach_runner {
  boost::asio::execution_context context;
};

std::unique_ptr<held_operation> begin_attach_next(const path_argument& socket,
                                                  const std::string& name,
                                                  const kept_version& current) {
  return begin<model>(std::make_shared<attach_runner>(), [&](auto handler) {
    attach_next_async(socket.bytes, name, current, std::move(handler));
  });
}

kept_version served(const path_argument& socket, const std::string& name, double seconds) {
  const auto timeout = timeout_of(seconds);
  const without_gil waiting;
  return served_version(socket.bytes, name, timeout);
}

nb::object attach_to(const path_argument& socket, const std::string& name, double seconds) {
  const auto timeout = timeout_of(seconds);
  model found;
  {
    const without_gil waiting;
    found = attach(socket.bytes, name, timeout);
  }
  return object_of<held_model>(std::move(found));
}

}  // namespace

void bind_keeper(nb::module_& in) {
  nb::class_<held_keeper>(in, "Keeper", "Serves models to other processes, at a Unix socket.")
      .def(nb::init<const path_argument&, unsigned, std::vector<unsigned>, std::uint32_t>(),
           nb::arg("socket"), nb::arg("mode"), nb::arg("users"), nb::arg("connections_max"))
      .def("publish", &held_keeper::publish, nb::arg("name"), nb::arg("model"))
      .def("withdraw", &held_keeper::withdraw, nb::arg("name"))
      .def("models", &held_keeper::models)
      .def("metrics", &held_keeper::metrics)
      .def("close", &held_keeper::close);
  nb::class_<kept_version>(in, "KeptVersion", "Identifies a model that a Keeper has published.")
      .def(nb::init<>())
      .def_ro("keeper", &kept_version::keeper)
      .def_ro("number", &kept_version::number)
      .def("__eq__",
           [](const kept_version& self, const nb::object& other) {
             return nb::isinstance<kept_version>(other) &&
                    self == nb::cast<const kept_version&>(other);
           })
      .def("__hash__", [](const kept_version& self) {
        return static_cast<std::int64_t>((self.keeper ^ self.number) >> 1U);
      });
  in.def("attach", &attach_to, nb::arg("socket"), nb::arg("name"), nb::arg("seconds"));
  in.def("attach_next", &begin_attach_next, nb::arg("socket"), nb::arg("name"), nb::arg("current"));
  in.def("served_version", &served, nb::arg("socket"), nb::arg("name"), nb::arg("seconds"));
}

}  // namespace ringload::python
