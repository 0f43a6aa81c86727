// SPDX-License-Identifier: Apache-2.0

// Reads objects of a store that are not checkpoints: lists their names, and reads ranges of their
// bytes.

#include <nanobind/nanobind.h>
#include <nanobind/stl/unique_ptr.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <ringload/byte_source.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "convert.hpp"
#include "gil.hpp"
#include "network.hpp"
#include "path.hpp"

namespace ringload::python {

namespace {

// A read has at most this many bytes, so that Python handles signals between two reads.
constexpr std::uint64_t read_bytes_max = std::uint64_t{8} << 20;

struct held_folder {
  std::shared_ptr<byte_folder> folder;
};

struct held_object {
  std::shared_ptr<byte_source> source;
};

std::unique_ptr<held_folder> find_folder(const held_remote& remote, const path_argument& name) {
  auto folder = std::make_unique<held_folder>();
  {
    const without_gil finding;
    folder->folder = (*remote.of)->find(name.bytes, std::stop_token()).folder;
  }
  return folder;
}

nb::list names_of(const held_folder& self) {
  std::vector<std::string> names;
  {
    const without_gil listing;
    names = self.folder->names_beneath(std::stop_token());
  }
  nb::list all;
  for (const std::string& name : names) all.append(str_of(name));
  return all;
}

std::unique_ptr<held_object> open_object(const held_folder& self, const path_argument& name) {
  auto object = std::make_unique<held_object>();
  {
    const without_gil opening;
    object->source = self.folder->open(name.bytes, std::stop_token());
  }
  return object;
}

nb::bytes read_range(const held_object& self, std::uint64_t offset, std::uint64_t count) {
  const std::uint64_t size = self.source->bytes();
  if (offset > size || count > size - offset || count > read_bytes_max) {
    throw usage_error("the range " + std::to_string(offset) + " + " + std::to_string(count) +
                      " is not within the object of " + std::to_string(size) + " bytes, or has " +
                      "more than " + std::to_string(read_bytes_max) + " bytes");
  }
  PyObject* const bytes_object = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(count));
  if (bytes_object == nullptr) throw nb::python_error();
  nb::bytes content = nb::steal<nb::bytes>(bytes_object);
  if (count == 0) return content;
  const std::span into(reinterpret_cast<std::byte*>(PyBytes_AsString(bytes_object)),
                       static_cast<std::size_t>(count));
  std::exception_ptr failure;
  {
    const without_gil reading;
    const auto ended = std::make_shared<std::promise<std::exception_ptr>>();
    self.source->read_async(source_read(offset, into), [ended](std::exception_ptr failed) {
      ended->set_value(std::move(failed));
    });
    failure = ended->get_future().get();
  }
  if (failure) std::rethrow_exception(failure);
  return content;
}

}  // namespace

void bind_remote_objects(nb::module_& in) {
  nb::class_<held_object>(in, "RemoteObject", "One object of a store.")
      .def_prop_ro("nbytes", [](const held_object& self) { return self.source->bytes(); })
      .def("read", &read_range, nb::arg("offset"), nb::arg("count"),
           "The bytes of a range of at most 8 MiB.");
  nb::class_<held_folder>(in, "RemoteFolder", "A folder of a store.")
      .def("names", &names_of, "The names of all objects in it and in its sub-folders.")
      .def("open", &open_object, nb::arg("name"), "The object of this name.");
  in.def("find_folder", &find_folder, nb::arg("remote"), nb::arg("name"),
         "The folder of this address, which ends with '/'.");
}

}  // namespace ringload::python
