// SPDX-License-Identifier: Apache-2.0

// Accepts tensors of other libraries for fills and saves. DLPack capsules describe the tensors. The
// capsules stay unconsumed, so that their deleters run in threads of Python.

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <ringload/dlpack.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "convert.hpp"
#include "held.hpp"

namespace ringload::python {

namespace {

// Returns a copy of the description. The deleter of the copy does not release the tensor.
template <class Managed>
Managed* shadow_of(nb::handle capsule, const char* name) {
  const auto* original = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (original == nullptr) throw nb::python_error();
  auto shadow = std::make_unique<Managed>(*original);
  shadow->manager_ctx = nullptr;
  shadow->deleter = [](Managed* self) { delete self; };
  return shadow.release();
}

bool is_capsule(nb::handle of, const char* name) { return PyCapsule_IsValid(of.ptr(), name) == 1; }

// Returns the device that has the memory of the tensor. If the loader does not have this device,
// returns the first device of the loader, so that the import of the tensor throws an error.
const device& device_with(std::span<const device> devices, const dlpack::tensor& from) {
  const auto found = std::ranges::find_if(devices, [&](const device& candidate) {
    return candidate.kind() == device_kind::cuda && candidate.index() == from.device.id;
  });
  const bool is_on_cuda = from.device.type == dlpack::device_type::cuda;
  return is_on_cuda && found != devices.end() ? *found : devices.front();
}

template <class From, class Legacy, class Versioned>
From described(std::string name, nb::handle exported, std::span<const device> devices,
               Legacy legacy, Versioned versioned) {
  if (is_capsule(exported, "dltensor")) {
    auto* const shadow = shadow_of<dlpack::managed_tensor>(exported, "dltensor");
    return legacy(std::move(name), shadow, device_with(devices, shadow->dl_tensor));
  }
  if (is_capsule(exported, "dltensor_versioned")) {
    auto* const shadow =
        shadow_of<dlpack::managed_tensor_versioned>(exported, "dltensor_versioned");
    // If the major version is unknown, the tensor must not be read. The import throws an error.
    const bool is_known = shadow->version.major <= 1;
    const device& on = is_known ? device_with(devices, shadow->dl_tensor) : devices.front();
    return versioned(std::move(name), shadow, on);
  }
  throw nb::type_error(
      ("tensor '" + name + "': expected a DLPack capsule that is not consumed yet").c_str());
}

// Converts a description by values: (address, dtype, shape, strides in elements, writable, owner).
// Used for arrays without DLPack.
template <class From>
From of_words(std::string name, const nb::tuple& words) {
  From made;
  made.name = std::move(name);
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  made.data = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(words[0]));
  made.dtype = dtype_of(nb::cast<std::string>(words[1]));
  made.shape = nb::cast<std::vector<std::uint64_t>>(words[2]);
  made.strides = nb::cast<std::vector<std::int64_t>>(words[3]);
  if (std::is_same_v<From, destination> && !nb::cast<bool>(words[4])) {
    throw nb::type_error(("tensor '" + made.name + "' is read-only").c_str());
  }
  return made;
}

// Converts a sequence of (name, capsule or description or Tensor, type of the elements or None).
template <class From, class Make>
std::vector<From> all_of(const nb::sequence& named, Make make) {
  std::vector<From> all;
  for (nb::handle one : named) {
    const auto fields = nb::cast<nb::tuple>(one);
    auto name = text_from(fields[0], "a tensor's name");
    const nb::object described = fields[1];
    From made = nb::isinstance<nb::tuple>(described)
                    ? of_words<From>(std::move(name), nb::borrow<nb::tuple>(described))
                    : make(std::move(name), nb::handle(described));
    if (!fields[2].is_none()) {
      const dtype meant = dtype_of(nb::cast<std::string>(fields[2]));
      if (bits(meant) != bits(made.dtype)) {
        throw nb::type_error(("tensor '" + made.name + "': its elements are not as wide as " +
                              python::name_of(meant))
                                 .c_str());
      }
      made.dtype = meant;
    }
    all.push_back(std::move(made));
  }
  return all;
}

}  // namespace

std::vector<destination> destinations_of(const nb::sequence& named,
                                         std::span<const device> devices) {
  return all_of<destination>(named, [&](std::string name, nb::handle into) {
    if (nb::isinstance<held_tensor>(into)) {
      const tensor& t = *nb::cast<const held_tensor&>(into).of;
      if (t.read_only()) throw nb::type_error(("tensor '" + name + "' is read-only").c_str());
      return destination(std::move(name), t.data(), t.dtype(), {t.shape().begin(), t.shape().end()},
                         t.device());
    }
    return described<destination>(
        std::move(name), into, devices,
        [](std::string n, dlpack::managed_tensor* m, const device& d) {
          return destination_of(std::move(n), m, d);
        },
        [](std::string n, dlpack::managed_tensor_versioned* m, const device& d) {
          return destination_of(std::move(n), m, d);
        });
  });
}

std::vector<tensor_ref> refs_of(const nb::sequence& named, std::span<const device> devices) {
  return all_of<tensor_ref>(named, [&](std::string name, nb::handle from) {
    if (nb::isinstance<held_tensor>(from)) {
      return tensor_ref(std::move(name), *nb::cast<const held_tensor&>(from).of);
    }
    return described<tensor_ref>(
        std::move(name), from, devices,
        [](std::string n, dlpack::managed_tensor* m, const device& d) {
          return view_of(std::move(n), m, d);
        },
        [](std::string n, dlpack::managed_tensor_versioned* m, const device& d) {
          return view_of(std::move(n), m, d);
        });
  });
}

}  // namespace ringload::python
