// SPDX-License-Identifier: Apache-2.0

// Creates a tensor_ref from a description, a loaded tensor or a DLPack tensor. A tensor_ref refers
// to a tensor that will be saved.

#include <ringload/save.hpp>
#include <utility>

#include "base/printable.hpp"
#include "request/dlpack_import.hpp"

namespace ringload::inline v0 {

tensor_ref::tensor_ref(std::string n, const void* d, ringload::dtype t,
                       detail::list_argument<std::uint64_t> s, ringload::device o)
    : name(std::move(n)), data(d), dtype(t), shape(std::move(s).take()), device(o) {}
tensor_ref::tensor_ref(const tensor& loaded) : tensor_ref(std::string(loaded.name()), loaded) {}
tensor_ref::tensor_ref(std::string n, const tensor& loaded)
    : name(std::move(n)),
      data(loaded.data()),
      dtype(loaded.dtype()),
      shape(loaded.shape().begin(), loaded.shape().end()),
      bytes(loaded.size_bytes()),
      device(loaded.device()),
      owner(std::make_shared<const tensor>(loaded)) {}

namespace {

template <class Managed>
tensor_ref adopted_view(std::string name, Managed* dlpack_tensor, const device& cuda) {
  imported_tensor memory =
      import_dlpack(dlpack_tensor, cuda, tensor_place(name), errc::invalid_tensor);
  tensor_ref out(std::move(name), memory.data, memory.dtype, std::move(memory.shape), memory.on);
  out.strides = std::move(memory.strides);
  out.owner = std::move(memory.owner);
  return out;
}

}  // namespace

tensor_ref view_of(std::string name, dlpack::managed_tensor_versioned* dlpack_tensor, device cuda) {
  return adopted_view(std::move(name), dlpack_tensor, cuda);
}

tensor_ref view_of(std::string name, dlpack::managed_tensor* dlpack_tensor, device cuda) {
  return adopted_view(std::move(name), dlpack_tensor, cuda);
}

std::vector<tensor_ref> refs_of(const model& loaded) {
  std::vector<tensor_ref> views;
  views.reserve(loaded.size());
  for (std::size_t i = 0; i < loaded.size(); ++i) views.emplace_back(loaded[i]);
  return views;
}

}  // namespace ringload::inline v0
