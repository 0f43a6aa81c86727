// SPDX-License-Identifier: Apache-2.0

// Checkpoint and Selection: what there is to be loaded, and what is wanted of it.

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <string_view>
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

nb::object find(const held_checkpoint& self, std::string_view name) {
  if (const tensor_info* found = self.of->find(name)) return dict_of(*found);
  for (const unreadable_info& each : self.of->catalog().unreadable) {
    if (each.name == name) throw error(each.code, each.place, each.reason);
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

// Pairs: a key that shards disagree about is here more than once.
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

void bind_selection(nb::module_& in) {
  using self_type = nb::rv_policy;
  constexpr auto same = self_type::reference;  // Each function gives the object it was called on.
  using of_a_rank =
      selection& (selection::*)(std::string, std::uint32_t, std::uint64_t, std::uint64_t);
  using over_devices = selection& (selection::*)(std::string, std::uint32_t);
  nb::class_<selection>(in, "Selection",
                        "Which tensors of a checkpoint are loaded, and which range of each. Its "
                        "methods change it and return it.")
      .def(nb::init<>())
      .def("names", &selection::names, nb::arg("names"), same, "Those of these names.")
      .def("matching", &selection::matching, nb::arg("glob"), same,
           "Those whose name matches, as in fnmatch.")
      .def("excluding", &selection::except, nb::arg("glob"), same, "Not those whose name matches.")
      .def("experts", &selection::experts, nb::arg("rank"), nb::arg("ranks"),
           nb::arg("experts") = 0, same,
           "Of the routed experts ('.experts.<n>.' in the name) those of one rank only.")
      .def("slice", &selection::slice, nb::arg("name"), nb::arg("dim"), nb::arg("first"),
           nb::arg("count"), same, "Of that tensor the range [first, first + count) of `dim`.")
      .def("shard", static_cast<of_a_rank>(&selection::shard), nb::arg("glob"), nb::arg("dim"),
           nb::arg("rank"), nb::arg("ranks"), same,
           "Of tensors that match the block of `rank` along `dim`: ceil(size / ranks) long.")
      .def("on", static_cast<over_devices>(&selection::on), nb::arg("glob"), nb::arg("device"),
           same, "Those that match go to the device at that position of the Loader's.")
      .def("replicate", &selection::replicate, nb::arg("glob"), same,
           "Those that match go to each device, whole; they are read once.")
      .def("spread", &selection::spread, nb::arg("glob"), same,
           "Those that match go one by one to the device that has the fewest bytes yet.")
      .def("shard", static_cast<over_devices>(&selection::shard), nb::arg("glob"), nb::arg("dim"),
           same, "Of tensors that match block i along `dim` goes to device i.")
      .def("fused", &selection::fused, nb::arg("as_name"), nb::arg("names"), nb::arg("dim"), same,
           "One tensor in place of several, behind each other along `dim`.")
      .def("allow_missing", &selection::allow_missing, same,
           "Names and globs that nothing matches are no error.");
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
