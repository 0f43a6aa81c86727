// SPDX-License-Identifier: Apache-2.0

#include <ringload/checkpoint.hpp>
#include <string>
#include <utility>

#include "base/printable.hpp"
#include "catalog/opened_checkpoint.hpp"
#include "request/unreadable.hpp"

namespace ringload::inline v0 {

checkpoint::checkpoint(std::shared_ptr<const detail::opened_checkpoint> opened) noexcept
    : opened_(std::move(opened)) {}

const ringload::catalog& checkpoint::catalog() const noexcept { return opened_->named->catalog(); }

const tensor_info* checkpoint::find(std::string_view name) const noexcept {
  const auto t = opened_->named->find(name);
  return t ? &catalog().tensors[*t] : nullptr;
}

const tensor_info& checkpoint::at(std::string_view name) const {
  if (const tensor_info* const info = find(name)) return *info;
  if (const auto* const object = unreadable_named(catalog(), name))
    throw to_error(fault_of(*object));
  throw error(errc::no_such_tensor, printable_path(opened_->name) + ": " + tensor_place(name), {});
}

std::vector<std::string_view> checkpoint::matching(std::string_view glob) const {
  std::vector<std::string_view> out;
  for (const tensor_info& info : *this) {
    if (matches(glob, info.name)) out.emplace_back(info.name);
  }
  return out;
}

selection checkpoint::only(std::string_view name) const {
  return selection().names({at(name).name});
}

}  // namespace ringload::inline v0
