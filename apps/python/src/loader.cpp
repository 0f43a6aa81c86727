// SPDX-License-Identifier: Apache-2.0

// Loader and Loading: every operation of the library, begun from Python.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <ringload/loader.hpp>
#include <string>
#include <utility>
#include <vector>

#if RINGLOAD_PYTHON_CUDA
#include <ringload/cuda.hpp>
#endif
#if RINGLOAD_PYTHON_HDF5
#include <ringload/hdf5.hpp>
#endif
#if RINGLOAD_PYTHON_REMOTE
#include <ringload/remote.hpp>
#endif

#include "cache_reports.hpp"
#include "convert.hpp"
#include "gil.hpp"
#include "held.hpp"
#include "loader.hpp"
#include "path.hpp"

namespace ringload::python {

namespace {

using begun = std::unique_ptr<held_operation>;

// Formats and sources that are read only where they are asked for.
std::vector<extension> extensions(bool with_hdf5, const std::optional<nb::dict>& remote_settings) {
  std::vector<extension> all;
#if RINGLOAD_PYTHON_HDF5
  if (with_hdf5) all.push_back(hdf5());
#else
  if (with_hdf5) throw usage_error("hdf5=True: this ringload was built without libhdf5");
#endif
#if RINGLOAD_PYTHON_REMOTE
  if (remote_settings) all.push_back(remote(remote_options_of(*remote_settings)));
#else
  if (remote_settings) throw usage_error("remote: this ringload was built without remote sources");
#endif
  return all;
}

bool is_path(nb::handle source) {
  return nb::isinstance<nb::str>(source) || nb::isinstance<nb::bytes>(source);
}

class held_loader {
 public:
  held_loader(const std::vector<std::string>& on, const nb::dict& within, bool with_hdf5,
              const std::optional<nb::dict>& remote_settings)
      : of_(std::make_shared<running<loader>>()) {
    std::vector<device> targets;
    for (const std::string& name : on) targets.push_back(device_of(name));
    const loader_options bounds = loader_options_of(within);
    auto with = extensions(with_hdf5, remote_settings);
    const without_gil waiting;
    (*of_)->of = std::make_shared<loader>(std::move(targets), bounds, std::move(with));
  }
  ~held_loader() {
    if (!of_.inherited()) close();
  }

  // Cancels what is in flight, and waits until nobody writes to memory of ours.
  void close() {
    if (of_.inherited()) return;
    std::shared_ptr<loader> last = std::move((*of_)->of);
    const auto calls = std::exchange((*of_)->calls, {});
    const without_gil waiting;
    end_all(calls);
    last.reset();
  }
  bool closed() const { return !(*of_)->of; }

  begun open(const nb::object& source, const nb::dict& how) {
    loader& with = open_loader();
    const open_options options = open_options_of(how);
    return begin<checkpoint>(*of_, [&](auto handler) {
      if (is_path(source)) {
        with.open_async(nb::cast<path_argument>(source).bytes, options, std::move(handler));
      } else {
        std::vector<std::string> paths;
        for (nb::handle each : source) paths.push_back(nb::cast<path_argument>(each).bytes);
        with.open_async(std::move(paths), options, std::move(handler));
      }
    });
  }

  begun load(const nb::object& source, const selection* wanted, const nb::dict& how) {
    loader& with = open_loader();
    const loading_options options(how);
    selection some = wanted != nullptr ? *wanted : selection();
    begun loaded = begin<model>(*of_, [&](auto handler) {
      if (is_path(source)) {
        with.load_async(nb::cast<path_argument>(source).bytes, std::move(some), options.of,
                        std::move(handler));
      } else {
        with.load_async(*nb::cast<const held_checkpoint&>(source).of, std::move(some), options.of,
                        std::move(handler));
      }
    });
    loaded->of->devices = with.devices().size();
    return loaded;
  }

  begun start(const nb::object& source, const selection* wanted, const nb::dict& how) {
    loader& with = open_loader();
    const loading_options options(how);
    selection some = wanted != nullptr ? *wanted : selection();
    begun started = begin<load_operation>(*of_, [&](auto handler) {
      if (is_path(source)) {
        with.start_async(nb::cast<path_argument>(source).bytes, std::move(some), options.of,
                         std::move(handler));
      } else {
        with.start_async(*nb::cast<const held_checkpoint&>(source).of, std::move(some), options.of,
                         std::move(handler));
      }
    });
    started->of->by = *of_;
    return started;
  }

  begun group_load(nb::handle ranks, const path_argument& source, const std::string& reading,
                   const nb::dict& how) {
    static_cast<void>(open_loader());
    return begin_group_load(*of_, ranks, source.bytes, reading, how);
  }

  begun fill(const held_checkpoint& file, const nb::sequence& into, const nb::dict& policies,
             const selection* wanted, const nb::dict& how) {
    loader& with = open_loader();
    const loading_options options(how);
    auto destinations = destinations_of(into, with.device());
    return begin<fill_result>(
        *of_,
        [&](auto handler) {
          with.fill_async(*file.of, std::move(destinations), fill_options_of(policies),
                          wanted != nullptr ? *wanted : selection(), options.of,
                          std::move(handler));
        },
        into);
  }

  begun save(const path_argument& path, const nb::sequence& tensors, const nb::dict& how) {
    loader& with = open_loader();
    auto views = refs_of(tensors, with.device());
    return begin<save_result>(
        *of_,
        [&](auto handler) {
          with.save_async(path.bytes, std::move(views), save_options_of(how), std::move(handler));
        },
        tensors);
  }

  begun copy(const held_tensor& from, const std::optional<std::string>& to,
             const std::optional<std::string>& as) {
    loader& with = open_loader();
    const device target = to ? device_of(*to) : from.of->device();
    const std::optional<dtype> type = as ? std::optional(dtype_of(*as)) : std::nullopt;
    return begin<tensor>(
        *of_, [&](auto handler) { with.copy_async(*from.of, target, type, std::move(handler)); });
  }

  nb::dict stats() { return dict_of(open_loader().stats()); }

  nb::dict memory() {
    const memory_use use = open_loader().memory();
    nb::dict all;
    all["tensor_bytes"] = use.tensor_bytes;
    all["tensor_bytes_peak"] = use.tensor_bytes_peak;
    all["tensor_allocations"] = use.tensor_allocations;
    all["pinned_bytes"] = use.pinned_bytes;
    all["mapped_bytes"] = use.mapped_bytes;
    all["mappings"] = use.mappings;
    return all;
  }

 private:
  loader& open_loader() {
    refuse_inherited(of_.inherited(), "the Loader");
    if (closed()) {
      throw nb::builtin_exception(nb::exception_type::runtime_error, "the Loader is closed");
    }
    return *(*of_)->of;
  }

  of_this_process<std::shared_ptr<running<loader>>> of_;
};

nb::tuple drained(const held_cache_reports& self) {
  const auto [files, over] = self.of->drain();
  nb::list all;
  for (const cached_file& each : files) {
    nb::dict one;
    one["name"] = str_of(each.name);
    one["whole"] = each.whole;
    one["missing_bytes"] = each.missing_bytes;
    one["why"] = str_of(each.why);
    all.append(one);
  }
  return nb::make_tuple(all, over);
}

// A load in flight. Dropping it cancels it.
struct held_load_operation {
  struct parts {
    std::shared_ptr<running<loader>> by;
    load_operation of;
  };
  held_load_operation(std::shared_ptr<running<loader>> by, load_operation of)
      : parts_(parts{std::move(by), std::move(of)}) {}

  parts& checked() {
    refuse_inherited(parts_.inherited(), "the load");
    return *parts_;
  }

  of_this_process<parts> parts_;
};

void bind_loading(nb::module_& in) {
  nb::class_<held_load_operation>(in, "Loading", "A load in flight.")
      .def("tensor",
           [](held_load_operation& self, const std::string& name) {
             auto& [by, of] = self.checked();
             return begin<tensor>(by,
                                  [&](auto handler) { of.tensor_async(name, std::move(handler)); });
           })
      .def("next",
           [](held_load_operation& self) {
             auto& [by, of] = self.checked();
             return begin<std::optional<tensor>>(
                 by, [&](auto handler) { of.next_async(std::move(handler)); });
           })
      .def("finish",
           [](held_load_operation& self) {
             auto& [by, of] = self.checked();
             begun finishing =
                 begin<model>(by, [&](auto handler) { of.finish_async(std::move(handler)); });
             if (by->of) finishing->of->devices = by->of->devices().size();
             return finishing;
           })
      .def("progress",
           [](held_load_operation& self) { return dict_of(self.checked().of.progress()); })
      .def("progress_of_files",
           [](held_load_operation& self) {
             const load_operation& of = self.checked().of;
             return list_of(of.progress_of_files(), of.catalog());
           })
      .def("infos",
           [](held_load_operation& self) {
             nb::list all;
             for (const tensor_info& t : self.checked().of.catalog().tensors) {
               all.append(dict_of(t));
             }
             return all;
           })
      .def("cancel", [](held_load_operation& self) {
        if (!self.parts_.inherited()) self.parts_->of.cancel();
      });
}

}  // namespace

device device_of(std::string_view name) {
  if (name == "cpu" || name == "host") return host();
  if (name == "shared") return shared_host();
#if RINGLOAD_PYTHON_CUDA
  if (name == "cuda") return cuda_device(0);
  if (name.starts_with("cuda:") && name.size() > 5 && name.size() < 9 &&
      name.find_first_not_of("0123456789", 5) == name.npos) {
    return cuda_device(std::stoi(std::string(name.substr(5))));
  }
#else
  if (name.starts_with("cuda")) {
    throw usage_error("this ringload was built without CUDA: the devices are 'cpu' and 'shared'");
  }
#endif
  throw usage_error("there is no device '" + std::string(name) + "'");
}

nb::object object_of(load_operation of, const std::shared_ptr<running<loader>>& by) {
  return nb::cast(new held_load_operation(by, std::move(of)), nb::rv_policy::take_ownership);
}

void bind_loader(nb::module_& in) {
  nb::class_<held_progress>(in, "SaveProgress", "How far a save has come.")
      .def(nb::init<>())
      .def_prop_ro("bytes", [](const held_progress& self) { return self.of->bytes(); })
      .def_prop_ro("bytes_total", [](const held_progress& self) { return self.of->bytes_total(); });
  nb::class_<held_cache_reports>(in, "CacheReports", "What became of files for the local cache.")
      .def(nb::init<>())
      .def("fileno", [](const held_cache_reports& self) { return self.of->descriptor(); })
      .def("drain", &drained, "Those since the last call, and whether there are no more.");
  nb::class_<held_loader>(in, "Engine", nb::is_weak_referenceable(),
                          "The library's loader: its threads, its ring, its buffers.")
      .def(nb::init<const std::vector<std::string>&, const nb::dict&, bool,
                    const std::optional<nb::dict>&>(),
           nb::arg("devices"), nb::arg("limits"), nb::arg("hdf5"), nb::arg("remote").none())
      .def("open", &held_loader::open, nb::arg("source"), nb::arg("options"))
      .def("load", &held_loader::load, nb::arg("source"), nb::arg("select").none(),
           nb::arg("options"))
      .def("start", &held_loader::start, nb::arg("source"), nb::arg("select").none(),
           nb::arg("options"))
      .def("group_load", &held_loader::group_load, nb::arg("group"), nb::arg("source"),
           nb::arg("reading"), nb::arg("options"))
      .def("fill", &held_loader::fill, nb::arg("file"), nb::arg("into"), nb::arg("policies"),
           nb::arg("select").none(), nb::arg("options"))
      .def("save", &held_loader::save, nb::arg("path"), nb::arg("tensors"), nb::arg("options"))
      .def("copy", &held_loader::copy, nb::arg("tensor"), nb::arg("device").none(),
           nb::arg("dtype").none())
      .def("stats", &held_loader::stats)
      .def("memory", &held_loader::memory)
      .def("close", &held_loader::close)
      .def("closed", &held_loader::closed);
  bind_loading(in);
}

}  // namespace ringload::python
