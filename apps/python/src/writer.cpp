// SPDX-License-Identifier: Apache-2.0

// The Python class Writer, which writes one .zt file, object by object.

#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <ringload/writer.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "attributes.hpp"
#include "convert.hpp"
#include "gil.hpp"
#include "held.hpp"
#include "loader.hpp"
#include "path.hpp"

namespace ringload::python {

namespace {

using begun = std::unique_ptr<held_operation>;

class held_writer {
 public:
  explicit held_writer(writer made) : of_(std::make_shared<running<writer>>()) {
    (*of_)->of = std::make_shared<writer>(std::move(made));
  }
  ~held_writer() {
    if (of_.inherited()) return;
    std::shared_ptr<writer> last = std::move((*of_)->of);
    const without_gil waiting;
    last.reset();
  }

  begun add(const nb::sequence& one, const nb::dict& how) {
    return step(
        [&](writer& to, auto handler) {
          to.add_async(the_view(one), object_options_of(how), std::move(handler));
        },
        one);
  }

  begun declare(const std::string& name, const std::string& layout,
                const std::vector<std::uint64_t>& shape, const nb::dict& attributes) {
    object_info what;
    what.name = name;
    what.layout = layout;
    what.shape = shape;
    what.attributes = attributes_of(attributes);
    return step(
        [&](writer& to, auto handler) { to.declare_async(std::move(what), std::move(handler)); });
  }

  begun add_part(const std::string& object, const nb::sequence& one, const nb::dict& how) {
    return step(
        [&](writer& to, auto handler) {
          to.add_part_async(object, the_view(one), object_options_of(how), std::move(handler));
        },
        one);
  }

  begun add_alias(const std::string& name, const std::string& of) {
    return step(
        [&](writer& to, auto handler) { to.add_alias_async(name, of, std::move(handler)); });
  }

  begun copy(const path_argument& file, const std::optional<std::vector<std::string>>& without) {
    std::function<bool(std::string_view)> chosen;
    if (without) {
      chosen = [left_out = std::set<std::string, std::less<>>(without->begin(), without->end())](
                   std::string_view name) { return !left_out.contains(name); };
    }
    return step([&](writer& to, auto handler) {
      to.copy_async(file.bytes, std::move(chosen), copy_options(), std::move(handler));
    });
  }

  begun replace(const nb::sequence& by) {
    return step(
        [&](writer& to, auto handler) { to.replace_async(the_view(by), std::move(handler)); }, by);
  }

  begun set_attribute(const std::string& key, nb::handle value) {
    attribute typed = attribute_of(value);
    return step([&](writer& to, auto handler) {
      to.set_attribute_async(key, std::move(typed), std::move(handler));
    });
  }

  std::uint64_t bytes_taken() { return checked().bytes_taken(); }

  begun finish() {
    return begin<write_result>(*of_,
                               [&](auto handler) { checked().finish_async(std::move(handler)); });
  }

 private:
  static tensor_ref the_view(const nb::sequence& one) {
    const device only_host = host();
    return refs_of(one, {&only_host, 1}).at(0);
  }

  writer& checked() {
    refuse_inherited(of_.inherited(), "the writer");
    return *(*of_)->of;
  }

  template <class Initiate>
  begun step(Initiate initiate, nb::object kept = nb::none()) {
    writer& to = checked();
    return begin<std::uint64_t>(
        *of_, [&](auto handler) { initiate(to, std::move(handler)); }, std::move(kept));
  }

  of_this_process<std::shared_ptr<running<writer>>> of_;
};

}  // namespace

void bind_writer(nb::module_& in) {
  nb::class_<held_writer>(in, "ZtWriter", "A .zt file that is written object by object.")
      .def(nb::new_([](const path_argument& path, const nb::dict& how) {
             return std::make_unique<held_writer>(writer(path.bytes, writer_options_of(how)));
           }),
           nb::arg("path"), nb::arg("options"))
      .def_static("append",
                  [](const path_argument& path, const nb::dict& how) {
                    return std::make_unique<held_writer>(
                        writer::append(path.bytes, writer_options_of(how)));
                  })
      .def_static("in_memory",
                  [](const nb::dict& how) {
                    return std::make_unique<held_writer>(writer::in_memory(writer_options_of(how)));
                  })
      .def("add", &held_writer::add, nb::arg("tensor"), nb::arg("options"))
      .def("declare", &held_writer::declare, nb::arg("name"), nb::arg("layout"), nb::arg("shape"),
           nb::arg("attributes"))
      .def("add_part", &held_writer::add_part, nb::arg("object"), nb::arg("tensor"),
           nb::arg("options"))
      .def("add_alias", &held_writer::add_alias, nb::arg("name"), nb::arg("of"))
      .def("copy", &held_writer::copy, nb::arg("file"), nb::arg("without").none())
      .def("replace", &held_writer::replace, nb::arg("by"))
      .def("set_attribute", &held_writer::set_attribute, nb::arg("key"), nb::arg("value").none())
      .def("bytes_taken", &held_writer::bytes_taken)
      .def("finish", &held_writer::finish);
  in.def(
      "first_of_same",
      [](const nb::sequence& tensors) {
        const device only_host = host();
        return first_of_same(refs_of(tensors, {&only_host, 1}));
      },
      nb::arg("tensors"),
      "By position, the first tensor that is the same memory, of the same type and shape.");
}

}  // namespace ringload::python
