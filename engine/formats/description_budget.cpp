// SPDX-License-Identifier: Apache-2.0

#include "formats/description_budget.hpp"

namespace ringload::inline v0 {

bool description_budget::take(const attributes& pairs) noexcept {
  bool fits = true;
  for (const auto& [key, value] : pairs) fits = take_attribute(key.size(), value.text().size());
  return fits;
}

bool description_budget::take(const file_entries& entries) noexcept {
  for (const entry& tensor : entries.tensors) {
    take_tensor(tensor.name.size(), tensor.shape.size() + tensor.original_shape.size());
    take(tensor.attributes);
  }
  for (const composite& object : entries.composites) {
    take_tensor(object.name.size(), object.shape.size());
    for (const std::string& part : object.parts) take(sizeof part + part.size());
    take(object.attributes);
  }
  for (const unreadable_object& object : entries.unreadable) take_unreadable(object.name.size());
  take(entries.metadata);
  return take(std::uint64_t{0});
}

std::string description_budget::cause() const {
  return "the names, shapes and metadata need more memory than strict reading allows, which is " +
         grouped(limit()) + " bytes: the size of the files and " + grouped(description_bytes_max);
}

}  // namespace ringload::inline v0
