// SPDX-License-Identifier: Apache-2.0

// The Python classes Checkpoint and Selection.

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attributes.hpp"
#include "convert.hpp"
#include "held.hpp"

namespace ringload::python {

namespace {

nb::list names(const held_checkpoint& self) {
  nb::list all;
  for (const tensor_info& t : *self.of) all.append(str_of(t.name));
  return all;
}

nb::object find(const held_checkpoint& self, const nb::str& name) {
  const auto text = name_from(name);
  if (!text) return nb::none();
  if (const tensor_info* found = self.of->find(*text)) return dict_of(*found);
  for (const unreadable_info& each : self.of->catalog().unreadable) {
    if (each.name == *text) throw error(each.code, each.place, each.reason);
  }
  return nb::none();
}

nb::list infos(const held_checkpoint& self) {
  nb::list all;
  for (const tensor_info& t : *self.of) all.append(dict_of(t));
  return all;
}

nb::list composites(const held_checkpoint& self) {
  nb::list all;
  for (const composite_info& c : self.of->catalog().composites) all.append(dict_of(c));
  return all;
}

nb::list files(const held_checkpoint& self) {
  nb::list all;
  for (const file_info& f : self.of->catalog().files) {
    all.append(nb::make_tuple(str_of(f.path), f.bytes, str_of(f.format)));
  }
  return all;
}

// Returns (key, value) pairs. If shards have different values for a key, the key has several pairs.
nb::list metadata(const held_checkpoint& self) {
  nb::list all;
  for (const auto& [key, value] : self.of->catalog().metadata) {
    all.append(nb::make_tuple(str_of(key), value_of(value)));
  }
  return all;
}

nb::list notes(const held_checkpoint& self) {
  nb::list all;
  for (const std::string& note : self.of->catalog().notes) all.append(str_of(note));
  return all;
}

std::vector<std::string> names_from(const nb::sequence& names) {
  if (nb::isinstance<nb::str>(names))
    throw nb::type_error("names must be a list of str, not a str");
  std::vector<std::string> all;
  for (nb::handle each : names) {
    auto name = name_from(each);
    all.push_back(name ? std::move(*name) : text_from(each, "a tensor's name"));
  }
  return all;
}

void bind_selection(nb::module_& in) {
  using self_type = nb::rv_policy;
  // Each function returns the object on which it was called.
  constexpr auto same = self_type::reference;
  using of_a_rank =
      selection& (selection::*)(std::string, std::uint32_t, std::uint64_t, std::uint64_t);
  using over_devices = selection& (selection::*)(std::string, std::uint32_t);
  using name_list = std::vector<std::string>;  // Nanobind cannot convert to detail::list_argument.
  nb::class_<selection>(in, "Selection",
                        "The tensors of a checkpoint to load, and the range of each. Its "
                        "methods change the Selection and return it.")
      .def(nb::init<>())
      .def(
          "names",
          [](selection& self, const nb::sequence& names) -> selection& {
            return self.names(names_from(names));
          },
          nb::arg("names"), same, "Selects the tensors of these names.")
      .def("matching", &selection::matching, nb::arg("glob"), same,
           "Selects tensors whose name matches, as in fnmatch.")
      .def("excluding", &selection::except, nb::arg("glob"), same,
           "Leaves out tensors whose name matches.")
      .def("experts", &selection::experts, nb::arg("rank"), nb::arg("ranks"),
           nb::arg("experts") = 0, same,
           "Selects only the experts of one rank ('.experts.<n>.' in the name).")
      .def("slice", &selection::slice, nb::arg("name"), nb::arg("dim"), nb::arg("first"),
           nb::arg("count"), same,
           "Selects the range [first, first + count) of `dim` of that tensor.")
      .def("shard", static_cast<of_a_rank>(&selection::shard), nb::arg("glob"), nb::arg("dim"),
           nb::arg("rank"), nb::arg("ranks"), same,
           "Selects the block of `rank` along `dim` of matching tensors: ceil(size / ranks) long.")
      .def("on", static_cast<over_devices>(&selection::on), nb::arg("glob"), nb::arg("device"),
           same, "Loads matching tensors to the Loader's device at that position.")
      .def("replicate", &selection::replicate, nb::arg("glob"), same,
           "Loads matching tensors to every device, with one read.")
      .def("spread", &selection::spread, nb::arg("glob"), same,
           "Loads each matching tensor to the device that has the fewest bytes so far.")
      .def("shard", static_cast<over_devices>(&selection::shard), nb::arg("glob"), nb::arg("dim"),
           same, "Loads block i along `dim` of matching tensors to device i.")
      .def(
          "fused",
          [](selection& self, std::string as_name, name_list names, std::uint32_t dim)
              -> selection& { return self.fused(std::move(as_name), std::move(names), dim); },
          nb::arg("as_name"), nb::arg("names"), nb::arg("dim"), same,
          "Joins several tensors along `dim` into one tensor.")
      .def("allow_missing", &selection::allow_missing, same,
           "Allows names and globs that match no tensor.");
}

}  // namespace

void bind_checkpoint(nb::module_& in) {
  nb::class_<held_checkpoint>(in, "OpenedCheckpoint", "Open files, and the catalog they hold.")
      .def("__len__", [](const held_checkpoint& self) { return self.of->size(); })
      .def("names", &names)
      .def("find", &find, nb::arg("name"))
      .def("infos", &infos)
      .def("composites", &composites)
      .def("files", &files)
      .def("metadata", &metadata)
      .def("notes", &notes);
  bind_selection(in);
}

}  // namespace ringload::python
