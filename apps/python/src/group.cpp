// SPDX-License-Identifier: Apache-2.0

// The Python classes for groups, and for loads by ranks.
//
// Calls of a load run in a thread of the load, which uses the group and the loader. Therefore
// Loader.close() ends these calls first. Only one load at a time uses a group.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <pthread.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <ringload/device.hpp>
#include <ringload/group.hpp>
#include <ringload/group_load.hpp>
#if RINGLOAD_PYTHON_CUDA
#include <ringload/nccl.hpp>
#endif
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "convert.hpp"
#include "gil.hpp"
#include "held.hpp"
#include "loader.hpp"
#include "path.hpp"

namespace ringload::python {

namespace {

using begun = std::unique_ptr<held_operation>;

struct held_group {
  explicit held_group(std::shared_ptr<used_group> g) : of(std::move(g)) {}
  held_group(const held_group&) = delete;
  held_group& operator=(const held_group&) = delete;
  // The end of a group of NCCL waits for the other ranks, which may be threads of this process.
  ~held_group() {
    if (of.inherited()) return;
    const without_gil waiting;
    *of = nullptr;
  }

  const std::shared_ptr<used_group>& checked() const {
    refuse_inherited(of.inherited(), "the Group");
    return *of;
  }

  of_this_process<std::shared_ptr<used_group>> of;
};

// The load of one rank. The last owner, an operation or the Python GroupLoad, waits for the running
// calls. Calls whose operations were destroyed are cancelled.
struct group_loading {
  group_loading(group_load l, std::shared_ptr<running<loader>> with, std::shared_ptr<used_group> r)
      : of(std::move(l)), by(std::move(with)), ranks(std::move(r)), context(by->context) {}
  group_loading(const group_loading&) = delete;
  group_loading& operator=(const group_loading&) = delete;
  ~group_loading() {
    const without_gil waiting;
    of = group_load();
  }

  group_load of;
  const std::shared_ptr<running<loader>> by;
  const std::shared_ptr<used_group> ranks;
  boost::asio::execution_context& context;
};

struct held_group_load {
  explicit held_group_load(std::shared_ptr<group_loading> l) : of(std::move(l)) {}
  of_this_process<std::shared_ptr<group_loading>> of;
};

std::chrono::milliseconds timeout_of(double seconds) {
  if (!(seconds > 0 && seconds < 1e6))
    throw usage_error("timeout must be above 0 and below 1e6 seconds");
  return std::chrono::milliseconds(std::llround(std::ceil(seconds * 1000)));
}

// Throws if another load uses the group. Calls of one load wait for each other. `caller` is null if
// a load begins.
void claim(const used_group& ranks, const void* caller) {
  if (ranks.belongs_to_another) throw usage_error("the Group belongs to a group of NCCL");
  const auto last = ranks.last_call.lock();
  if (last && !last->ended() && (caller == nullptr || ranks.last_caller != caller)) {
    throw usage_error("the Group is busy in a call of another load");
  }
}

void note(running<loader>& by, used_group& ranks, const std::shared_ptr<operation_state>& call,
          const void* caller) {
  std::erase_if(by.calls, [](const std::weak_ptr<operation_state>& each) {
    const auto alive = each.lock();
    return !alive || alive->ended();
  });
  by.calls.push_back(call);
  ranks.last_call = call;
  ranks.last_caller = caller;
}

group_loading& checked(const held_group_load& self) {
  refuse_inherited(self.of.inherited(), "the load");
  return **self.of;
}

template <class T = tensor, class Initiate>
begun call(const held_group_load& self, Initiate initiate) {
  group_loading& load = checked(self);
  if (!load.by->of) {
    throw nb::builtin_exception(nb::exception_type::runtime_error, "the Loader is closed");
  }
  claim(*load.ranks, &load);
  begun started = begin<T>(*self.of, [&](auto handler) { initiate(load.of, std::move(handler)); });
  note(*load.by, *load.ranks, started->of->state, &load);
  return started;
}

begun tensor_of(const held_group_load& self, const std::string& name) {
  return call(self,
              [&](group_load& of, auto handler) { of.tensor_async(name, std::move(handler)); });
}

begun shard_of(const held_group_load& self, const std::string& name, std::uint32_t dim) {
  return call(self,
              [&](group_load& of, auto handler) { of.shard_async(name, dim, std::move(handler)); });
}

begun fused_of(const held_group_load& self, const std::string& as, std::vector<std::string> names,
               std::uint32_t dim) {
  return call(self, [&](group_load& of, auto handler) {
    of.fused_async(as, std::move(names), dim, std::move(handler));
  });
}

begun push_of(const held_group_load& self, const std::string& name, std::uint32_t to) {
  return call(self,
              [&](group_load& of, auto handler) { of.push_async(name, to, std::move(handler)); });
}

begun model_of(const held_group_load& self, std::optional<std::vector<std::string>> names) {
  return call<model>(self, [&](group_load& of, auto handler) {
    if (!names) return of.model_async(std::move(handler));
    of.model_async(std::move(*names), std::move(handler));
  });
}

nb::list infos_of(const held_group_load& self) {
  nb::list all;
  for (const tensor_info& each : checked(self).of.catalog().tensors) all.append(dict_of(each));
  return all;
}

// Creates a group in a separate thread, so that a signal can interrupt the waiting Python thread.
// The destructor of the operation stops the thread and waits for its end, which needs no GIL.
begun begin_group(std::function<std::shared_ptr<group>(std::stop_token)> make) {
  auto state = std::make_shared<operation_state>();
  const auto thread = std::make_shared<std::jthread>();
  ::sigset_t all;
  ::sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::exception_ptr refused;
  try {
    *thread = std::jthread([state, make = std::move(make)](std::stop_token stop) {
      std::exception_ptr failure;
      std::shared_ptr<group> created;
      try {
        created = make(std::move(stop));
      } catch (...) {
        failure = std::current_exception();
      }
      state->settle(std::move(failure), std::move(created));
    });
  } catch (...) {
    refused = std::current_exception();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (refused) std::rethrow_exception(refused);
  state->set_cancel([stop = thread->get_stop_source()](boost::asio::cancellation_type) mutable {
    stop.request_stop();
  });
  return std::make_unique<held_operation>(thread, std::move(state), nb::none());
}

begun join(const path_argument& address_argument, std::uint32_t rank, std::uint32_t ranks,
           double seconds) {
  const auto timeout = timeout_of(seconds);
  return begin_group([address = address_argument.bytes, rank, ranks,
                      timeout](std::stop_token stop) -> std::shared_ptr<group> {
    return join_group(address, rank, ranks, timeout, std::move(stop));
  });
}

// Only the new group may use `hosts` afterwards. A cancellation interrupts `hosts`, which also ends
// the setup of NCCL.
begun begin_nccl(const held_group& hosts, const std::string& device, std::uintptr_t stream,
                 const std::string& library, double seconds) {
  const auto timeout = timeout_of(seconds);
#if RINGLOAD_PYTHON_CUDA
  const int index = device_of(device).index();
  if (device_of(device).kind() != device_kind::cuda) {
    throw usage_error("the device of a group of NCCL is '" + device + "', expected a GPU");
  }
  const std::shared_ptr<used_group> used = hosts.checked();
  claim(*used, nullptr);
  begun started = begin_group([all = used->of, index, stream, library,
                               timeout](const std::stop_token& stop) -> std::shared_ptr<group> {
    const std::stop_callback interruption(stop, [&all] { all->interrupt(); });
    return nccl_group(all, index, reinterpret_cast<void*>(stream), library, timeout);
  });
  used->belongs_to_another = true;
  return started;
#else
  (void)hosts, (void)stream, (void)library, (void)timeout;
  (void)device_of(device);  // Throws for a GPU.
  throw usage_error("the device of a group of NCCL is '" + device + "', expected a GPU");
#endif
}

nb::list groups_of_threads(std::uint32_t ranks, double seconds) {
  nb::list all;
  for (auto& each : make_thread_ranks(ranks, timeout_of(seconds))) {
    all.append(object_of(std::shared_ptr<group>(std::move(each))));
  }
  return all;
}

}  // namespace

nb::object object_of(std::shared_ptr<group> of) {
  auto used = std::make_shared<used_group>();
  used->of = std::move(of);
  return object_of<held_group>(std::move(used));
}

nb::object object_of(group_load of, const std::shared_ptr<running<loader>>& by,
                     const std::shared_ptr<used_group>& ranks) {
  return object_of<held_group_load>(std::make_shared<group_loading>(std::move(of), by, ranks));
}

begun begin_group_load(const std::shared_ptr<running<loader>>& by, nb::handle ranks, source from,
                       const std::string& reading, const nb::dict& how) {
  if (!nb::isinstance<held_group>(ranks))
    throw nb::type_error("the ranks must be given as a Group");
  const std::shared_ptr<used_group> of = nb::cast<const held_group&>(ranks).checked();
  const loading_options options(how);
  group_options chosen;
  chosen.load = options.of;
  chosen.reading = group_reading_of(reading);
  claim(*of, nullptr);
  begun made = begin<group_load>(by, [&](auto handler) {
    load_async(*by->of, of->of, std::move(from), chosen, std::move(handler));
  });
  made->of->by = by;
  made->of->ranks = of;
  note(*by, *of, made->of->state, nullptr);
  return made;
}

void end_all(const std::vector<std::weak_ptr<operation_state>>& calls) {
  for (const auto& each : calls) {
    if (const auto alive = each.lock()) alive->cancel();
  }
  for (const auto& each : calls) {
    const auto alive = each.lock();
    while (alive && !alive->wait_for(std::chrono::hours(1))) {
    }
  }
}

void bind_group(nb::module_& in) {
  nb::class_<held_group>(in, "Group",
                         "The membership of a rank in a group of threads of this process, or of "
                         "processes of one or several machines. Dropping it leaves the group.")
      .def_prop_ro("rank", [](const held_group& self) { return self.checked()->of->rank(); })
      .def_prop_ro(
          "size", [](const held_group& self) { return self.checked()->of->size(); },
          "The number of ranks.")
      .def("__repr__", [](const held_group& self) {
        const group& of = *self.checked()->of;
        return "<ringload.Group: rank " + std::to_string(of.rank()) + " of " +
               std::to_string(of.size()) + ">";
      });
  nb::class_<held_group_load>(in, "GroupLoading", "The part of a load on one rank.")
      .def("tensor", &tensor_of, nb::arg("name"))
      .def("shard", &shard_of, nb::arg("name"), nb::arg("dim"))
      .def("fused", &fused_of, nb::arg("as_name"), nb::arg("names"), nb::arg("dim"))
      .def("push", &push_of, nb::arg("name"), nb::arg("to"))
      .def("model", &model_of, nb::arg("names").none())
      .def("stats", [](const held_group_load& self) { return dict_of(checked(self).of.stats()); })
      .def("infos", &infos_of);
  in.def("join_group", &join, nb::arg("address"), nb::arg("rank"), nb::arg("ranks"),
         nb::arg("seconds"));
  in.def("nccl_group", &begin_nccl, nb::arg("hosts"), nb::arg("device"), nb::arg("stream"),
         nb::arg("library"), nb::arg("seconds"));
  in.def("make_thread_ranks", &groups_of_threads, nb::arg("ranks"), nb::arg("seconds"));
}

}  // namespace ringload::python
