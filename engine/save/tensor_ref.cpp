// SPDX-License-Identifier: Apache-2.0

// Tensors to be saved: described by the caller, loaded, or from DLPack.

#include <ringload/save.hpp>
#include <utility>

#include "base/printable.hpp"
#include "request/dlpack_import.hpp"

namespace ringload::inline v0 {

tensor_view::tensor_view() = default;
tensor_view::tensor_view(std::string n, const void* d, ringload::dtype t,
                         std::vector<std::uint64_t> s, ringload::device o)
    : name(std::move(n)), data(d), dtype(t), shape(std::move(s)), on(o) {}
tensor_view::tensor_view(const tensor& loaded) : tensor_view(std::string(loaded.name()), loaded) {}
tensor_view::tensor_view(std::string n, const tensor& loaded)
    : name(std::move(n)),
      data(loaded.data()),
      dtype(loaded.dtype()),
      shape(loaded.shape().begin(), loaded.shape().end()),
      bytes(loaded.bytes()),
      on(loaded.device()),
      owner(std::make_shared<const tensor>(loaded)) {}
tensor_view::tensor_view(const tensor_view& source) = default;
tensor_view::tensor_view(tensor_view&& source) noexcept = default;
tensor_view& tensor_view::operator=(const tensor_view& source) = default;
tensor_view& tensor_view::operator=(tensor_view&& source) noexcept = default;
tensor_view::~tensor_view() = default;

saving::saving() = default;
saving::saving(const saving& source) = default;
saving::saving(saving&& source) noexcept = default;
saving& saving::operator=(const saving& source) = default;
saving& saving::operator=(saving&& source) noexcept = default;
saving::~saving() = default;

namespace {

template <class Managed>
tensor_view adopted_view(std::string name, Managed* from, const device& cuda) {
  imported_tensor memory = import_dlpack(from, cuda, tensor_place(name), errc::invalid_tensor);
  tensor_view out(std::move(name), memory.data, memory.dtype, std::move(memory.shape), memory.on);
  out.strides = std::move(memory.strides);
  out.owner = std::move(memory.owner);
  return out;
}

}  // namespace

tensor_view view_of(std::string name, dlpack::managed_tensor_versioned* from, device cuda) {
  return adopted_view(std::move(name), from, cuda);
}

tensor_view view_of(std::string name, dlpack::managed_tensor* from, device cuda) {
  return adopted_view(std::move(name), from, cuda);
}

std::vector<tensor_view> views_of(const model& loaded) {
  std::vector<tensor_view> views;
  views.reserve(loaded.size());
  for (std::size_t i = 0; i < loaded.size(); ++i) views.emplace_back(loaded[i]);
  return views;
}

}  // namespace ringload::inline v0
