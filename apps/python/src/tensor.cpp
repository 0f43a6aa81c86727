// SPDX-License-Identifier: Apache-2.0

// Tensor and Model: the library's own, with what Python's libraries ask for. Nothing is copied.

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <cstring>
#include <ringload/dlpack.hpp>
#include <utility>
#include <vector>

#include "convert.hpp"
#include "gil.hpp"
#include "held.hpp"

namespace ringload::python {

namespace {

// Python names the host "cpu", as all libraries do that take tensors from it.
std::string device_name(const device& of) {
  return of.kind() == device_kind::host ? "cpu" : of.name();
}

// --- DLPack

// The capsule owns what `exported` describes until a consumer renames it. The deleter is the
// library's, so a consumer may call it in any thread, without the GIL.
template <class Managed>
nb::object capsule_of(Managed* exported, const char* name) {
  PyObject* made = PyCapsule_New(exported, name, [](PyObject* capsule) {
    const char* now = PyCapsule_GetName(capsule);
    if (now == nullptr || std::strncmp(now, "dltensor", 8) != 0) return;
    auto* unused = static_cast<Managed*>(PyCapsule_GetPointer(capsule, now));
    if (unused != nullptr) unused->deleter(unused);
  });
  if (made == nullptr) {
    exported->deleter(exported);
    throw nb::python_error();
  }
  return nb::steal(made);
}

// The same bytes as integers of the same width, for who does not know the type; what is narrower
// than a byte as bytes.
void describe_as_integers(dlpack::tensor& described, std::uint64_t bytes) {
  const unsigned width = unsigned{described.dtype.bits} * described.dtype.lanes;
  if (width < 8) {
    described.ndim = 1;
    described.shape[0] = static_cast<std::int64_t>(bytes);
    described.strides[0] = 1;
  }
  const auto code =
      width <= 8 ? dlpack::type_code::unsigned_integer : dlpack::type_code::signed_integer;
  described.dtype = {code, static_cast<std::uint8_t>(width < 8 ? 8 : width), 1};
}

nb::object to_capsule(const held_tensor& self, bool as_integers) {
  auto* exported = to_legacy_dlpack(*self.of);
  if (as_integers) describe_as_integers(exported->dl_tensor, self.of->bytes());
  return capsule_of(exported, "dltensor");
}

nb::object dlpack(const held_tensor& self, nb::object, nb::object max_version, nb::object dl_device,
                  nb::object copy) {
  if (!copy.is_none() && nb::cast<bool>(copy)) {
    throw nb::buffer_error("a Tensor is exported as it is: copy what you get");
  }
  const auto on =
      static_cast<int>(self.of->device().kind() == device_kind::host ? dlpack::device_type::cpu
                                                                     : dlpack::device_type::cuda);
  if (!dl_device.is_none()) {
    const auto [kind, index] = std::pair(nb::cast<int>(dl_device[0]), nb::cast<int>(dl_device[1]));
    if (kind != on || index != self.of->device().index()) {
      throw nb::buffer_error(("the tensor is on " + device_name(self.of->device())).c_str());
    }
  }
  if (max_version.is_none() || nb::cast<int>(max_version[0]) < 1) return to_capsule(self, false);
  return capsule_of(to_dlpack(*self.of), "dltensor_versioned");
}

nb::tuple dlpack_device(const held_tensor& self) {
  const bool host = self.of->device().kind() == device_kind::host;
  const auto kind = host ? dlpack::device_type::cpu : dlpack::device_type::cuda;
  return nb::make_tuple(static_cast<int>(kind), self.of->device().index());
}

// --- The buffer protocol

// Py_buffer, and the numbers of its slots, as they are in every CPython from 3.10 on. The headers
// of the stable ABI have them from 3.11 on only.
struct buffer_view {
  void* buf;
  PyObject* obj;
  Py_ssize_t len;
  Py_ssize_t itemsize;
  int readonly;
  int ndim;
  const char* format;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  Py_ssize_t* suboffsets;
  void* internal;
};
constexpr int slot_getbuffer = 1;
constexpr int slot_releasebuffer = 2;
constexpr int wants_writable = 0x1;
constexpr int wants_format = 0x4;
constexpr int wants_shape = 0x8;
constexpr int wants_strides = 0x10;

// The code of the module struct; null for what it has none for.
const char* format_of(dtype type) {
  switch (type) {
    case dtype::boolean: return "?";
    case dtype::u8: return "B";
    case dtype::i8: return "b";
    case dtype::i16: return "h";
    case dtype::u16: return "H";
    case dtype::f16: return "e";
    case dtype::i32: return "i";
    case dtype::u32: return "I";
    case dtype::f32: return "f";
    case dtype::f64: return "d";
    case dtype::i64: return "q";
    case dtype::u64: return "Q";
    case dtype::c64: return "Zf";
    case dtype::c128: return "Zd";
    default: return nullptr;
  }
}

int get_buffer(PyObject* self, buffer_view* view, int flags) noexcept {
  view->obj = nullptr;
  const tensor& t = *nb::inst_ptr<held_tensor>(self)->of;
  const char* refusal = nullptr;
  if (t.device().kind() != device_kind::host) refusal = "the tensor is not in memory of the host";
  if (t.read_only() && (flags & wants_writable) != 0) refusal = "the tensor is read-only";
  if (refusal != nullptr) {
    PyErr_SetString(PyExc_BufferError, refusal);
    return -1;
  }
  // A type that Python has no code for is exported as its bytes.
  const char* const format = format_of(t.dtype());
  const std::size_t rank = format != nullptr ? t.shape().size() : 1;
  auto* const numbers = new (std::nothrow) Py_ssize_t[2 * rank + 1];
  if (numbers == nullptr) {
    PyErr_NoMemory();
    return -1;
  }
  const auto itemsize = static_cast<Py_ssize_t>(format != nullptr ? bits(t.dtype()) / 8 : 1);
  Py_ssize_t stride = itemsize;
  for (std::size_t i = rank; i-- > 0;) {
    numbers[i] = static_cast<Py_ssize_t>(format != nullptr ? t.shape()[i] : t.bytes());
    numbers[rank + i] = stride;
    stride *= numbers[i];
  }
  view->buf = t.data();
  view->len = static_cast<Py_ssize_t>(t.bytes());
  view->itemsize = itemsize;
  view->readonly = t.read_only() ? 1 : 0;
  view->ndim = static_cast<int>(rank);
  view->format = (flags & wants_format) != 0 ? (format != nullptr ? format : "B") : nullptr;
  view->shape = (flags & wants_shape) != 0 ? numbers : nullptr;
  view->strides = (flags & wants_strides) != 0 ? numbers + rank : nullptr;
  view->suboffsets = nullptr;
  view->internal = numbers;
  Py_INCREF(self);
  view->obj = self;
  return 0;
}

void release_buffer(PyObject*, buffer_view* view) noexcept {
  delete[] static_cast<Py_ssize_t*>(view->internal);
}

// --- Text

std::string text_of(const held_tensor& self) {
  std::string text =
      "<ringload.Tensor '" + std::string(self.of->name()) + "' " + name_of(self.of->dtype()) + " (";
  for (const std::uint64_t size : self.of->shape()) text += std::to_string(size) + ", ";
  if (text.ends_with(", ")) text.resize(text.size() - (self.of->shape().size() > 1 ? 2 : 1));
  return text + ") on " + device_name(self.of->device()) + ">";
}

nb::object convert(const char* function, nb::handle self) {
  const nb::object of = nb::module_::import_("ringload._convert").attr(function);
  return call_python(of, nb::make_tuple(self));
}

held_tensor* at(const held_model& self, std::string_view name) {
  tensor found = self.of->find(name);
  if (!found) throw nb::key_error(std::string(name).c_str());
  return new held_tensor(std::move(found));
}

nb::list names(const held_model& self) {
  nb::list all;
  for (const tensor& t : *self.of) all.append(str_of(t.name()));
  return all;
}

nb::list values(const held_model& self) {
  nb::list all;
  for (const tensor& t : *self.of) all.append(object_of<held_tensor>(t));
  return all;
}

nb::list items(const held_model& self) {
  nb::list all;
  for (const tensor& t : *self.of) {
    all.append(nb::make_tuple(str_of(t.name()), object_of<held_tensor>(t)));
  }
  return all;
}

nb::dict on(const held_model& self, std::uint32_t device_position) {
  nb::dict all;
  for (const tensor& t : *self.of) {
    tensor there = self.of->find(t.name(), device_position);
    if (there) all[str_of(t.name())] = object_of<held_tensor>(std::move(there));
  }
  return all;
}

void bind_model(nb::module_& in) {
  nb::class_<held_model>(in, "Model", nb::is_weak_referenceable(),
                         "Loaded tensors: a mapping of names to Tensors, in the files' order.")
      .def("__getitem__", &at, nb::arg("name"))
      .def("__len__", [](const held_model& self) { return self.of->size(); })
      .def("__contains__",
           [](const held_model& self, nb::handle name) {
             return nb::isinstance<nb::str>(name) &&
                    static_cast<bool>(self.of->find(nb::cast<std::string_view>(name)));
           })
      .def("__iter__", [](const held_model& self) { return nb::iter(names(self)); })
      .def("keys", &names)
      .def("values", &values)
      .def("items", &items)
      .def(
          "get",
          [](const held_model& self, std::string_view name, nb::object otherwise) {
            tensor found = self.of->find(name);
            return found ? object_of<held_tensor>(std::move(found)) : otherwise;
          },
          nb::arg("name"), nb::arg("default") = nb::none())
      .def("on", &on, nb::arg("position"),
           "What is on the device at that position of the Loader's: Tensors by name. The mapping "
           "itself has those on the first device that each is on.")
      .def_prop_ro(
          "stats", [](const held_model& self) { return dict_of(self.of->stats()); },
          "How the load went: bytes, reads, seconds, by which engine and why.")
      .def_prop_ro(
          "stats_of_files",
          [](const held_model& self) {
            return list_of(self.of->stats_of_files(), self.of->catalog());
          },
          "What was read of each file, and how fast.")
      .def_prop_ro(
          "metadata",
          [](const held_model& self) {
            nb::dict all;
            for (const auto& [key, value] : self.of->catalog().metadata) {
              all[str_of(key)] = str_of(value);
            }
            return all;
          },
          "The files' own metadata.")
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
          "numpy", [](nb::handle self) { return convert("numpy_all", self); },
          "All tensors as NumPy arrays, without a copy, by name.")
      .def(
          "torch", [](nb::handle self) { return convert("torch_all", self); },
          "All tensors as PyTorch's, without a copy, by name.")
      .def(
          "jax", [](nb::handle self) { return convert("jax_all", self); },
          "All tensors as JAX arrays, by name.")
      .def("__repr__", [](const held_model& self) {
        return "<ringload.Model of " + std::to_string(self.of->size()) + " tensors>";
      });
}

}  // namespace

void bind_tensor(nb::module_& in) {
  static PyType_Slot buffer_slots[] = {
      {slot_getbuffer, reinterpret_cast<void*>(&get_buffer)},
      {slot_releasebuffer, reinterpret_cast<void*>(&release_buffer)},
      {0, nullptr}};
  nb::class_<held_tensor>(
      in, "Tensor", nb::type_slots(buffer_slots), nb::is_weak_referenceable(),
      "A loaded tensor. It owns its memory, together with the other tensors of its load.")
      .def_prop_ro("name", [](const held_tensor& self) { return str_of(self.of->name()); })
      .def_prop_ro(
          "dtype", [](const held_tensor& self) { return name_of(self.of->dtype()); },
          "The type's name: 'bf16', 'f8_e4m3', 'bool'.")
      .def_prop_ro("shape", [](const held_tensor& self) { return tuple_of(self.of->shape()); })
      .def_prop_ro("ndim", [](const held_tensor& self) { return self.of->shape().size(); })
      .def_prop_ro("nbytes", [](const held_tensor& self) { return self.of->bytes(); })
      .def_prop_ro(
          "device", [](const held_tensor& self) { return device_name(self.of->device()); },
          "'cpu' or 'cuda:0'.")
      .def_prop_ro("read_only", [](const held_tensor& self) { return self.of->read_only(); })
      .def_prop_ro(
          "data_ptr",
          [](const held_tensor& self) { return reinterpret_cast<std::uintptr_t>(self.of->data()); },
          "The address of the first byte.")
      .def("__dlpack__", &dlpack, nb::kw_only(), nb::arg("stream") = nb::none(),
           nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(),
           nb::arg("copy") = nb::none())
      .def("__dlpack_device__", &dlpack_device)
      .def("_capsule", &to_capsule, nb::arg("as_integers"))
      .def(
          "numpy", [](nb::handle self) { return convert("numpy_of", self); },
          "As a NumPy array, without a copy; types that NumPy lacks by the package ml_dtypes.")
      .def(
          "torch", [](nb::handle self) { return convert("torch_of", self); },
          "As a PyTorch tensor, without a copy.")
      .def(
          "jax", [](nb::handle self) { return convert("jax_of", self); },
          "As a JAX array; without a copy where JAX takes the address.")
      .def("__repr__", &text_of);
  bind_model(in);
}

}  // namespace ringload::python
