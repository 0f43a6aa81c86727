// SPDX-License-Identifier: Apache-2.0

#include <ringload/fill.hpp>
#include <utility>

#include "base/printable.hpp"
#include "request/dlpack_import.hpp"

namespace ringload::inline v0 {

destination::destination(std::string n, void* d, ringload::dtype t,
                         detail::list_argument<std::uint64_t> s, ringload::device o)
    : name(std::move(n)), data(d), dtype(t), shape(std::move(s).take()), device(o) {}
fill_error::fill_error(const error& cause, std::vector<std::string> whole,
                       std::vector<std::string> torn)
    : error(cause),
      whole_(std::make_shared<const std::vector<std::string>>(std::move(whole))),
      torn_(std::make_shared<const std::vector<std::string>>(std::move(torn))) {}

fill_error::~fill_error() = default;

namespace {

template <class Managed>
destination adopted_destination(std::string name, Managed* from, const device& cuda) {
  const std::string place = "destination '" + printable(name) + "'";
  imported_tensor memory = import_dlpack(from, cuda, place, errc::invalid_destination);
  if (memory.read_only) throw error(errc::invalid_destination, place, "it is read-only");
  destination out(std::move(name), memory.data, memory.dtype, std::move(memory.shape), memory.on);
  out.strides = std::move(memory.strides);
  out.owner = std::move(memory.owner);
  return out;
}

}  // namespace

destination destination_of(std::string name, dlpack::managed_tensor_versioned* from, device cuda) {
  return adopted_destination(std::move(name), from, cuda);
}

destination destination_of(std::string name, dlpack::managed_tensor* from, device cuda) {
  return adopted_destination(std::move(name), from, cuda);
}

}  // namespace ringload::inline v0
