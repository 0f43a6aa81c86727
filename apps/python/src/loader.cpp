// SPDX-License-Identifier: Apache-2.0

// The Python classes Loader and Loading, which start all operations of the library.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <ringload/delta.hpp>
#include <ringload/loader.hpp>
#include <ringload/metrics.hpp>
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
#include "network.hpp"
#include "path.hpp"

namespace ringload::python {

namespace {

// Not inlined, because g++ 12 would otherwise warn about the value of an empty optional.
[[gnu::noinline]] std::optional<dtype> optional_dtype_of(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  return dtype_of(*name);
}

using begun = std::unique_ptr<held_operation>;

// Creates the requested extensions for formats and sources.
std::vector<extension> extensions(const std::optional<std::string>& hdf5_program,
                                  const held_network* network) {
  std::vector<extension> all;
  if (hdf5_program) {
#if RINGLOAD_PYTHON_HDF5
    hdf5_process parser;
    parser.program = *hdf5_program;
    all.push_back(hdf5(std::move(parser)));
#else
    throw usage_error("hdf5=True: this ringload was built without libhdf5");
#endif
  }
  if (network != nullptr) all.emplace_back(network->of);
  return all;
}

bool is_path(nb::handle source) {
  return nb::isinstance<nb::str>(source) || nb::isinstance<nb::bytes>(source);
}

/// Returns the source of a path, of a sequence of paths, or of an opened checkpoint.
source source_of(nb::handle given) {
  if (is_path(given)) return {nb::cast<path_argument>(given).bytes};
  if (nb::isinstance<held_checkpoint>(given)) return {*nb::cast<const held_checkpoint&>(given).of};
  if (!nb::isinstance<nb::list>(given)) throw nb::type_error("a source must be a path or a list");
  std::vector<std::string> files;
  for (nb::handle path : given) files.push_back(nb::cast<path_argument>(path).bytes);
  return {std::move(files)};
}

class held_loader {
 public:
  held_loader(const std::vector<std::string>& on, const nb::dict& within,
              const std::optional<std::string>& hdf5_program, const held_network* network)
      : of_(std::make_shared<running<loader>>()) {
    std::vector<device> targets;
    for (const std::string& name : on) targets.push_back(device_of(name));
    const loader_options bounds = loader_options_of(within);
    auto with = extensions(hdf5_program, network);
    const without_gil waiting;
    (*of_)->of = std::make_shared<loader>(std::move(targets), bounds, std::move(with));
  }
  ~held_loader() {
    if (!of_.inherited()) close();
  }

  // Cancels all operations, and waits until no memory of Python objects is written.
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
      with.open_async(source_of(source), options, std::move(handler));
    });
  }

  begun load(const nb::object& source, const selection* wanted, const nb::dict& how) {
    loader& with = open_loader();
    loading_options options(how);
    if (wanted != nullptr) options.of.select = *wanted;
    begun loaded = begin<model>(*of_, [&](auto handler) {
      if (is_path(source)) {
        with.load_async(nb::cast<path_argument>(source).bytes, options.of, std::move(handler));
      } else {
        with.load_async(*nb::cast<const held_checkpoint&>(source).of, options.of,
                        std::move(handler));
      }
    });
    loaded->of->devices = with.devices().size();
    return loaded;
  }

  begun start(const nb::object& source, const selection* wanted, const nb::dict& how) {
    loader& with = open_loader();
    loading_options options(how);
    if (wanted != nullptr) options.of.select = *wanted;
    begun started = begin<load_operation>(*of_, [&](auto handler) {
      if (is_path(source)) {
        with.start_async(nb::cast<path_argument>(source).bytes, options.of, std::move(handler));
      } else {
        with.start_async(*nb::cast<const held_checkpoint&>(source).of, options.of,
                         std::move(handler));
      }
    });
    started->of->by = *of_;
    return started;
  }

  begun stream(const nb::object& source, std::uint64_t window_bytes, const selection* wanted,
               const nb::dict& how) {
    loader& with = open_loader();
    loading_options options(how);
    if (wanted != nullptr) options.of.select = *wanted;
    begun started = begin<tensor_stream>(*of_, [&](auto handler) {
      if (is_path(source)) {
        with.stream_async(nb::cast<path_argument>(source).bytes, window_bytes, options.of,
                          std::move(handler));
      } else {
        with.stream_async(*nb::cast<const held_checkpoint&>(source).of, window_bytes, options.of,
                          std::move(handler));
      }
    });
    started->of->by = *of_;
    return started;
  }

  begun group_load(nb::handle ranks, const nb::object& source, const std::string& reading,
                   const nb::dict& how) {
    static_cast<void>(open_loader());
    return begin_group_load(*of_, ranks, source_of(source), reading, how);
  }

  begun fill(const held_checkpoint& file, const nb::sequence& into, const nb::dict& policies,
             const selection* wanted, const nb::dict& how) {
    loader& with = open_loader();
    const loading_options options(how);
    fill_options rules = fill_options_of(policies);
    rules.load = options.of;
    if (wanted != nullptr) rules.load.select = *wanted;
    auto destinations = destinations_of(into, with.devices());
    return begin<fill_result>(
        *of_,
        [&](auto handler) {
          with.fill_async(*file.of, std::move(destinations), std::move(rules), std::move(handler));
        },
        into);
  }

  begun save(const path_argument& path, const nb::sequence& tensors, const nb::dict& how) {
    loader& with = open_loader();
    auto views = refs_of(tensors, with.devices());
    return begin<save_result>(
        *of_,
        [&](auto handler) {
          with.save_async(path.bytes, std::move(views), save_options_of(how), std::move(handler));
        },
        tensors);
  }

  begun save_delta(const path_argument& path, const nb::object& base, const nb::object& next,
                   const nb::dict& how) {
    loader& host_loader = open_loader();
    const delta_options options = delta_options_of(how);
    return begin<delta_result>(*of_, [&](auto handler) {
      save_delta_async(host_loader, path.bytes, source_of(base), source_of(next), options,
                       std::move(handler));
    });
  }

  begun apply(const held_model& base, const path_argument& delta, bool check_unchanged) {
    loader& host_loader = open_loader();
    apply_options options;
    options.check_unchanged = check_unchanged;
    return begin<model>(*of_, [&](auto handler) {
      apply_async(host_loader, *base.of, delta.bytes, options, std::move(handler));
    });
  }

  begun update(const nb::sequence& into, const path_argument& delta, bool check_unchanged) {
    loader& host_loader = open_loader();
    apply_options options;
    options.check_unchanged = check_unchanged;
    auto destinations = destinations_of(into, host_loader.devices());
    return begin<update_result>(
        *of_,
        [&](auto handler) {
          update_async(host_loader, std::move(destinations), delta.bytes, options,
                       std::move(handler));
        },
        into);
  }

  begun load_version(const path_argument& folder, std::optional<std::uint64_t> version) {
    loader& host_loader = open_loader();
    version_options options;
    options.version = version;
    return begin<model>(*of_, [&](auto handler) {
      load_version_async(host_loader, folder.bytes, options, std::move(handler));
    });
  }

  begun copy(const held_tensor& from, const std::optional<std::string>& to,
             const std::optional<std::string>& as) {
    loader& with = open_loader();
    const device target = to ? device_of(*to) : from.of->device();
    const std::optional<dtype> type = optional_dtype_of(as);
    return begin<tensor>(
        *of_, [&](auto handler) { with.copy_async(*from.of, {target, type}, std::move(handler)); });
  }

  nb::dict stats() { return dict_of(open_loader().stats()); }

  nb::str metrics(const std::string& name) {
    loader& with = open_loader();
    return str_of(loader_metrics(with.stats(), with.memory(), name));
  }

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

// Returns (number, path of the full version, path of the delta) for each version.
nb::list versions_in(const path_argument& folder) {
  std::vector<version_info> versions;
  {
    const without_gil waiting;
    versions = list_versions(folder.bytes);
  }
  nb::list all;
  for (const version_info& version : versions) {
    all.append(nb::make_tuple(version.version, str_of(version.full), str_of(version.delta)));
  }
  return all;
}

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

#if RINGLOAD_PYTHON_REMOTE
std::unique_ptr<held_remote> make_remote(const nb::dict& settings) {
  const remote_options options = remote_options_of(settings);
  // Keeps the GIL, because a daemon thread without the GIL could use OpenSSL while the process
  // ends.
  return std::make_unique<held_remote>(remote(options).store());
}
#endif

void bind_network(nb::module_& in) {
  nb::class_<held_remote>(in, "Remote", "Stores over the network, with one set of settings.");
  nb::class_<held_network>(in, "Network", "The sources of a loader that are over the network.")
      .def(nb::init<>())
      .def(
          "use",
          [](held_network& self, const path_argument& name, const held_remote& remote,
             std::size_t names) { self.of->use(name.bytes, *remote.of, names); },
          nb::arg("name"), nb::arg("remote"), nb::arg("names") = 1,
          "From now on reads `name` with these settings, while `remote` exists. `names` is the "
          "number of names of the operation.");
#if RINGLOAD_PYTHON_REMOTE
  in.def("make_remote", &make_remote, nb::arg("settings"));
#endif
}

// A load in progress. The destructor cancels the load.
template <class Load>
struct held_load {
  struct parts {
    std::shared_ptr<running<loader>> by;
    Load of;
  };
  held_load(std::shared_ptr<running<loader>> by, Load of)
      : parts_(parts{std::move(by), std::move(of)}) {}

  parts& checked() {
    refuse_inherited(parts_.inherited(), "the load");
    return *parts_;
  }

  of_this_process<parts> parts_;
};

// Binds the functions that a load and a stream have in common.
template <class Load>
void bind_stream(nb::class_<held_load<Load>>& bound) {
  using held = held_load<Load>;
  bound
      .def("next",
           [](held& self) {
             auto& [by, of] = self.checked();
             return begin<std::optional<tensor>>(
                 by, [&](auto handler) { of.next_async(std::move(handler)); });
           })
      .def("progress", [](held& self) { return dict_of(self.checked().of.progress()); })
      .def("progress_of_files",
           [](held& self) {
             const tensor_stream& of = self.checked().of;
             return list_of(of.progress_of_files(), of.catalog());
           })
      .def("infos",
           [](held& self) {
             nb::list all;
             for (const tensor_info& t : self.checked().of.catalog().tensors) {
               all.append(dict_of(t));
             }
             return all;
           })
      .def("cancel", [](held& self) {
        if (!self.parts_.inherited()) self.parts_->of.cancel();
      });
}

void bind_loading(nb::module_& in) {
  nb::class_<held_load<tensor_stream>> stream(in, "TensorStream", "A load through a window.");
  bind_stream(stream);
  nb::class_<held_load<load_operation>> loading(in, "Loading", "A load in flight.");
  bind_stream(loading);
  loading
      .def("tensor",
           [](held_load<load_operation>& self, const std::string& name) {
             auto& [by, of] = self.checked();
             return begin<tensor>(by,
                                  [&](auto handler) { of.tensor_async(name, std::move(handler)); });
           })
      .def("finish", [](held_load<load_operation>& self) {
        auto& [by, of] = self.checked();
        begun finishing =
            begin<model>(by, [&](auto handler) { of.finish_async(std::move(handler)); });
        if (by->of) finishing->of->devices = by->of->devices().size();
        return finishing;
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
  return nb::cast(new held_load<load_operation>(by, std::move(of)), nb::rv_policy::take_ownership);
}

nb::object object_of(tensor_stream of, const std::shared_ptr<running<loader>>& by) {
  return nb::cast(new held_load<tensor_stream>(by, std::move(of)), nb::rv_policy::take_ownership);
}

void bind_loader(nb::module_& in) {
  nb::class_<held_progress>(in, "SaveProgress", "How far a save has come.")
      .def(nb::init<>())
      .def_prop_ro("bytes", [](const held_progress& self) { return self.of->bytes(); })
      .def_prop_ro("bytes_total", [](const held_progress& self) { return self.of->bytes_total(); });
  nb::class_<held_cache_reports>(in, "CacheReports",
                                 "Reports of files that are written into the local cache.")
      .def(nb::init<>())
      .def("fileno", [](const held_cache_reports& self) { return self.of->descriptor(); })
      .def("drain", &drained,
           "Returns the reports since the last call, and whether no more follow.");
  nb::class_<held_loader>(in, "Engine", nb::is_weak_referenceable(),
                          "The library's loader: its threads, its ring, its buffers.")
      .def(nb::init<const std::vector<std::string>&, const nb::dict&,
                    const std::optional<std::string>&, const held_network*>(),
           nb::arg("devices"), nb::arg("limits"), nb::arg("hdf5_program").none(),
           nb::arg("network").none())
      .def("open", &held_loader::open, nb::arg("source"), nb::arg("options"))
      .def("load", &held_loader::load, nb::arg("source"), nb::arg("select").none(),
           nb::arg("options"))
      .def("start", &held_loader::start, nb::arg("source"), nb::arg("select").none(),
           nb::arg("options"))
      .def("stream", &held_loader::stream, nb::arg("source"), nb::arg("window_bytes"),
           nb::arg("select").none(), nb::arg("options"))
      .def("group_load", &held_loader::group_load, nb::arg("group"), nb::arg("source"),
           nb::arg("reading"), nb::arg("options"))
      .def("fill", &held_loader::fill, nb::arg("file"), nb::arg("into"), nb::arg("policies"),
           nb::arg("select").none(), nb::arg("options"))
      .def("save", &held_loader::save, nb::arg("path"), nb::arg("tensors"), nb::arg("options"))
      .def("save_delta", &held_loader::save_delta, nb::arg("path"), nb::arg("base"),
           nb::arg("next"), nb::arg("options"))
      .def("apply", &held_loader::apply, nb::arg("model"), nb::arg("delta"),
           nb::arg("check_unchanged"))
      .def("update", &held_loader::update, nb::arg("into"), nb::arg("delta"),
           nb::arg("check_unchanged"))
      .def("load_version", &held_loader::load_version, nb::arg("folder"), nb::arg("version").none())
      .def("copy", &held_loader::copy, nb::arg("tensor"), nb::arg("device").none(),
           nb::arg("dtype").none())
      .def("stats", &held_loader::stats)
      .def("memory", &held_loader::memory)
      .def("metrics", &held_loader::metrics, nb::arg("name"))
      .def("close", &held_loader::close)
      .def("closed", &held_loader::closed);
  in.def("list_versions", &versions_in, nb::arg("folder"));
  bind_network(in);
  bind_loading(in);
}

}  // namespace ringload::python
