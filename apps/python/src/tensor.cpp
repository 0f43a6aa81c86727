// SPDX-License-Identifier: Apache-2.0

// The Python class Tensor, with the protocols of array libraries. No function copies the elements.

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

// --- DLPack

// The capsule owns the object `exported` until a consumer renames the capsule. The deleter is a
// function of the library, so a consumer may call it in any thread, without the GIL.
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

// Describes the same bytes as integers of the same width, for consumers that do not know the type.
// Types of less than a byte become bytes.
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
  if (as_integers) describe_as_integers(exported->dl_tensor, self.of->size_bytes());
  return capsule_of(exported, "dltensor");
}

nb::object dlpack(const held_tensor& self, nb::object, nb::object max_version, nb::object dl_device,
                  nb::object copy) {
  if (!copy.is_none() && nb::cast<bool>(copy)) {
    throw nb::buffer_error(
        "a Tensor cannot be copied or moved by DLPack: copy the exported tensor");
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

// Py_buffer, the slot numbers and the flags are the same in every CPython since 3.10. The headers
// of the stable ABI define them only since 3.11.
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

// Returns the format code of the module struct, or null if the type has no code.
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

// The bytes of a tensor without the type of the elements, for files, sockets and hashes.
struct held_bytes {
  explicit held_bytes(tensor t) : of(std::move(t)) {}
  of_this_process<tensor> of;
};

int refuse_buffer(const std::string& reason) {
  PyErr_SetString(PyExc_BufferError, reason.c_str());
  return -1;
}

// If `format` is null, exports plain bytes.
int give_buffer(const tensor& t, PyObject* self, buffer_view* view, int flags, const char* format) {
  view->obj = nullptr;
  if (t.device().kind() != device_kind::host) {
    return refuse_buffer("the tensor is on " + device_name(t.device()) + ", not in host memory");
  }
  if (t.read_only() && (flags & wants_writable) != 0)
    return refuse_buffer("the tensor is read-only");
  const std::size_t rank = format != nullptr ? t.shape().size() : 1;
  auto* const numbers = new Py_ssize_t[2 * rank + 1];
  const auto itemsize = static_cast<Py_ssize_t>(format != nullptr ? bits(t.dtype()) / 8 : 1);
  Py_ssize_t stride = itemsize;
  for (std::size_t i = rank; i-- > 0;) {
    numbers[i] = static_cast<Py_ssize_t>(format != nullptr ? t.shape()[i] : t.size_bytes());
    numbers[rank + i] = stride;
    stride *= numbers[i];
  }
  view->buf = t.data();
  view->len = static_cast<Py_ssize_t>(t.size_bytes());
  view->itemsize = itemsize;
  view->readonly = t.read_only() ? 1 : 0;
  view->ndim = static_cast<int>(rank);
  view->format = (flags & wants_format) != 0 ? (format != nullptr ? format : "B") : nullptr;
  view->shape = (flags & wants_shape) != 0 ? numbers : nullptr;
  view->strides = (flags & wants_strides) == wants_strides ? numbers + rank : nullptr;
  view->suboffsets = nullptr;
  view->internal = numbers;
  Py_INCREF(self);
  view->obj = self;
  return 0;
}

// Refuses a consumer that does not request the format, because it would use a wrong type. For
// example, torch.asarray() would use float32.
int get_typed_buffer(PyObject* self, buffer_view* view, int flags) noexcept {
  view->obj = nullptr;
  try {
    const tensor& t = *nb::inst_ptr<held_tensor>(self)->of;
    const char* const format = format_of(t.dtype());
    if (format == nullptr) {
      return refuse_buffer("the buffer protocol has no format for " + name_of(t.dtype()) +
                           ": use .numpy(), or .byte_view() for the plain bytes");
    }
    if ((flags & wants_format) == 0) {
      return refuse_buffer(
          "this consumer of buffers ignores the element type: pass memoryview(tensor), "
          "tensor.numpy(), tensor.torch(), or tensor.byte_view() for the plain bytes");
    }
    return give_buffer(t, self, view, flags, format);
  } catch (const std::exception& failure) {
    return refuse_buffer(failure.what());
  }
}

int get_bytes(PyObject* self, buffer_view* view, int flags) noexcept {
  view->obj = nullptr;
  try {
    return give_buffer(*nb::inst_ptr<held_bytes>(self)->of, self, view, flags, nullptr);
  } catch (const std::exception& failure) {
    return refuse_buffer(failure.what());
  }
}

nb::object byte_view(const held_tensor& self) {
  const nb::object bytes = object_of<held_bytes>(*self.of);
  PyObject* const view = PyMemoryView_FromObject(bytes.ptr());
  if (view == nullptr) throw nb::python_error();
  return nb::steal(view);
}

void release_buffer(PyObject*, buffer_view* view) noexcept {
  delete[] static_cast<Py_ssize_t*>(view->internal);
}

// --- Shape and text

std::uint64_t elements(const held_tensor& self) {
  std::uint64_t count = 1;
  for (const std::uint64_t size : self.of->shape()) count *= size;
  return count;
}

std::uint64_t length(const held_tensor& self) {
  if (self.of->shape().empty()) throw nb::type_error("len() of a Tensor without dimensions");
  return self.of->shape()[0];
}

nb::str text_of(const held_tensor& self) {
  std::string text =
      "<ringload.Tensor '" + std::string(self.of->name()) + "' " + name_of(self.of->dtype()) + " (";
  for (const std::uint64_t size : self.of->shape()) text += std::to_string(size) + ", ";
  if (text.ends_with(", ")) text.resize(text.size() - (self.of->shape().size() > 1 ? 2 : 1));
  return str_of(text + ") on " + device_name(self.of->device()) + ">");
}

}  // namespace

std::string device_name(const device& device) {
  return device.kind() == device_kind::host ? "cpu" : device.name();
}

nb::object convert(const char* function, const nb::tuple& arguments) {
  return call_python(nb::module_::import_("ringload._convert").attr(function), arguments);
}

namespace {

nb::object converted(const char* function, nb::handle self) {
  return convert(function, nb::make_tuple(self));
}

}  // namespace

void bind_tensor(nb::module_& in) {
  static PyType_Slot byte_slots[] = {{slot_getbuffer, reinterpret_cast<void*>(&get_bytes)},
                                     {slot_releasebuffer, reinterpret_cast<void*>(&release_buffer)},
                                     {0, nullptr}};
  nb::class_<held_bytes>(in, "TensorBytes", nb::type_slots(byte_slots),
                         "The bytes of a Tensor, by the buffer protocol.");
  static PyType_Slot buffer_slots[] = {
      {slot_getbuffer, reinterpret_cast<void*>(&get_typed_buffer)},
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
      .def_prop_ro("nbytes", [](const held_tensor& self) { return self.of->size_bytes(); })
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
          "numpy", [](nb::handle self) { return converted("numpy_of", self); },
          "As a NumPy array, without a copy; types that NumPy lacks by the package ml_dtypes.")
      .def(
          "torch", [](nb::handle self) { return converted("torch_of", self); },
          "As a PyTorch tensor, without a copy. Warns if the memory is read-only, such as that of "
          "a mapped tensor, because a write to the result ends the process: load with "
          "access=\"copy_on_write\".")
      .def(
          "jax", [](nb::handle self) { return converted("jax_of", self); },
          "As a JAX array; without a copy where JAX takes the address.")
      .def(
          "__array__",
          [](nb::handle self, nb::handle dtype, nb::handle copy) {
            return convert("array_of", nb::make_tuple(self, dtype, copy));
          },
          nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none(),
          "For numpy.asarray(); raises TypeError for a type that NumPy has not.")
      .def(
          "__jax_array__", [](nb::handle self) { return converted("jax_of", self); },
          "For jax.numpy.asarray().")
      .def("byte_view", &byte_view,
           "A memoryview of the plain bytes, for consumers that take bytes: files, hashes.")
      .def(
          "tolist", [](nb::handle self) { return converted("list_of", self); },
          "The elements as nested lists of Python's numbers. Needs NumPy.")
      .def(
          "item", [](nb::handle self) { return converted("item_of", self); },
          "The only element, as a number of Python's. Needs NumPy.")
      .def("__bool__", [](nb::handle self) { return nb::cast<bool>(converted("truth_of", self)); })
      .def("__len__", &length)
      .def_prop_ro("size", &elements, "The number of elements.")
      .def(
          "__reduce_ex__",
          [](const held_tensor&, nb::handle) -> nb::object {
            throw nb::type_error(
                "a Tensor is memory of this process, and cannot be pickled or copied: send "
                "tensor.numpy(), or copy by Loader.copy() or tensor.numpy().copy()");
          },
          nb::arg("protocol"))
      .def("__repr__", &text_of);
}

}  // namespace ringload::python
