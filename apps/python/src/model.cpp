// SPDX-License-Identifier: Apache-2.0

// The Python class Model: a mapping from names to tensors.

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <iterator>
#include <ringload/keeper.hpp>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "attributes.hpp"
#include "convert.hpp"
#include "gil.hpp"
#include "held.hpp"

namespace ringload::python {

namespace {

held_tensor* at(const held_model& self, nb::handle name) {
  tensor found;
  if (const auto text = name_from(name)) found = self.of->find(*text);
  if (found) return new held_tensor(std::move(found));
  const nb::object make = nb::module_::import_("ringload._errors").attr("no_tensor");
  const nb::object failure = call_python(make, nb::make_tuple(name));
  PyErr_SetObject(failure.type().ptr(), failure.ptr());
  throw nb::python_error();
}

// Returns each name once, in the order of the files. A tensor on several devices is in the model
// once for each device.
nb::list names(const held_model& self) {
  nb::list all;
  std::unordered_set<std::string_view> seen;
  for (const tensor& t : *self.of) {
    if (self.devices > 1 && !seen.insert(t.name()).second) continue;
    all.append(str_of(t.name()));
  }
  return all;
}

std::size_t size(const held_model& self) {
  return self.devices > 1 ? names(self).size() : self.of->size();
}

nb::object view(const char* kind, nb::handle self) {
  const nb::object type = nb::module_::import_("collections.abc").attr(kind);
  return call_python(type, nb::make_tuple(self));
}

nb::dict on(const held_model& self, std::int64_t device_position) {
  if (device_position < 0 || static_cast<std::uint64_t>(device_position) >= self.devices) {
    throw nb::index_error(("there is no device number " + std::to_string(device_position) +
                           ": the model was loaded to " + std::to_string(self.devices) +
                           (self.devices == 1 ? " device" : " devices"))
                              .c_str());
  }
  nb::dict all;
  for (const tensor& t : *self.of) {
    tensor there = self.of->find(t.name(), static_cast<std::uint32_t>(device_position));
    if (there) all[str_of(t.name())] = object_of<held_tensor>(std::move(there));
  }
  return all;
}

// Returns true if the logical type is also a dtype.
bool is_dtype(std::string_view type) {
  constexpr std::string_view known[] = {"f8_e4m3fn",  "f8_e5m2",   "f8_e4m3fnuz", "f8_e5m2fnuz",
                                        "f8_e8m0fnu", "complex64", "complex128"};
  return std::ranges::find(known, type) != std::end(known);
}

nb::dict undescribed_types(const held_model& self) {
  nb::dict types;
  for (const tensor_info& info : self.of->catalog().tensors) {
    if (info.type.empty() || (info.original_shape.empty() && is_dtype(info.type))) continue;
    const tensor loaded = self.of->find(info.name);
    if (loaded && loaded.dtype() == info.dtype) types[str_of(info.name)] = str_of(info.type);
  }
  return types;
}

nb::object converted(const char* function, nb::handle self) {
  return convert(function, nb::make_tuple(self));
}

}  // namespace

void bind_model(nb::module_& in) {
  nb::class_<held_model>(in, "Model", nb::is_weak_referenceable(),
                         "Loaded tensors: a mapping of names to Tensors, in the files' order.")
      .def_prop_ro(
          "kept_version",
          [](const held_model& self) -> nb::object {
            const kept_version version = attached_version(*self.of);
            return version == kept_version() ? nb::none() : nb::cast(version);
          },
          "The version under which a Keeper serves the model. None if the model is not "
          "attached.")
      .def("__getitem__", &at, nb::arg("name"))
      .def("__len__", &size)
      .def("__contains__",
           [](const held_model& self, nb::handle name) {
             const auto text = name_from(name);
             return text && static_cast<bool>(self.of->find(*text));
           })
      .def("__iter__", [](const held_model& self) { return nb::iter(names(self)); })
      .def("__reversed__",
           [](const held_model& self) {
             nb::list all = names(self);
             all.attr("reverse")();
             return nb::iter(all);
           })
      .def(
          "keys", [](nb::handle self) { return view("KeysView", self); },
          "The names, in the files' order: a view, as a dictionary's.")
      .def("values", [](nb::handle self) { return view("ValuesView", self); })
      .def("items", [](nb::handle self) { return view("ItemsView", self); })
      .def(
          "get",
          [](const held_model& self, const nb::str& name, nb::object otherwise) {
            const auto text = name_from(name);
            tensor found = text ? self.of->find(*text) : tensor();
            return found ? object_of<held_tensor>(std::move(found)) : otherwise;
          },
          nb::arg("name"), nb::arg("default") = nb::none())
      .def("on", &on, nb::arg("position"),
           "What is on the device at that position of the Loader's: Tensors by name. The mapping "
           "itself has those on the first device that each is on. Raises IndexError if there is no "
           "such device.")
      .def_prop_ro(
          "stats", [](const held_model& self) { return dict_of(self.of->stats()); },
          "How the load went: bytes, reads, seconds, by which engine and why.")
      .def_prop_ro(
          "stats_of_files",
          [](const held_model& self) {
            return list_of(self.of->stats_of_files(), self.of->catalog());
          },
          "The bytes read from each file, and the speed.")
      .def_prop_ro(
          "metadata", [](const held_model& self) { return dict_of(self.of->catalog().metadata); },
          "The files' own metadata, with their types.")
      .def_prop_ro(
          "_metadata_texts",
          [](const held_model& self) {
            nb::dict all;
            for (const auto& [key, value] : self.of->catalog().metadata) {
              all[str_of(key)] = str_of(value.text());
            }
            return all;
          },
          "The files' own metadata. Values that are not texts are JSON texts.")
      .def_prop_ro("_undescribed_types", &undescribed_types,
                   "The types, by name, of the tensors whose dtype does not describe the elements, "
                   "such as quantised blocks.")
      .def_prop_ro(
          "notes",
          [](const held_model& self) {
            nb::list all;
            for (const std::string& note : self.of->catalog().notes) all.append(str_of(note));
            return all;
          },
          "Unusual properties of the files, and how many tensors a dtype of the load left as they "
          "are.")
      .def(
          "regions",
          [](const held_model& self) {
            nb::list all;
            for (const memory_region& r : self.of->regions()) {
              all.append(nb::make_tuple(reinterpret_cast<std::uintptr_t>(r.data), r.bytes,
                                        device_name(r.device)));
            }
            return all;
          },
          "The memory that the tensors lie in: (address, bytes, device), for each allocation.")
      .def(
          "numpy", [](nb::handle self) { return converted("numpy_all", self); },
          "All tensors as NumPy arrays, without a copy, by name.")
      .def(
          "torch", [](nb::handle self) { return converted("torch_all", self); },
          "All tensors as PyTorch's, without a copy, by name. Warns of read-only memory, as "
          "Tensor.torch() does.")
      .def(
          "jax", [](nb::handle self) { return converted("jax_all", self); },
          "All tensors as JAX arrays, by name.")
      .def(
          "apply",
          [](nb::handle self, nb::handle delta, bool check_unchanged) {
            const nb::object apply = nb::module_::import_("ringload._deltas").attr("apply");
            return call_python(apply, nb::make_tuple(self, delta, check_unchanged));
          },
          nb::arg("delta"), nb::kw_only(), nb::arg("check_unchanged") = true,
          "The next version, which a delta leads to. This model stays as it is, and shares the "
          "unchanged tensors. See Loader.apply.")
      .def(
          "__reduce_ex__",
          [](const held_model&, nb::handle) -> nb::object {
            throw nb::type_error(
                "a Model is memory of this process, and cannot be pickled or copied: send "
                "model.numpy(), or publish it by a Keeper");
          },
          nb::arg("protocol"))
      .def("__repr__", [](const held_model& self) {
        return "<ringload.Model of " + std::to_string(size(self)) + " tensors>";
      });
}

}  // namespace ringload::python
