// SPDX-License-Identifier: Apache-2.0

#include "formats/zt/zt_names.hpp"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "base/printable.hpp"

namespace ringload::inline v0 {

void separate_zt_names(file_entries& entries, const std::vector<std::size_t>& first_parts) {
  if (entries.composites.empty()) return;
  std::vector<bool> is_part(entries.tensors.size());
  for (std::size_t c = 0; c < first_parts.size(); ++c) {
    std::fill_n(is_part.begin() + static_cast<std::ptrdiff_t>(first_parts[c]),
                entries.composites[c].parts.size(), true);
  }
  std::unordered_set<std::string> taken;
  for (std::size_t t = 0; t < entries.tensors.size(); ++t) {
    if (!is_part[t]) taken.insert(entries.tensors[t].name);
  }
  for (const unreadable_object& object : entries.unreadable) taken.insert(object.name);
  for (std::size_t c = 0; c < first_parts.size(); ++c) {
    composite& whole = entries.composites[c];
    const auto name_of = [&](const std::string& part) {
      return whole.name + whole.separator + part;
    };
    const auto is_taken = [&](const std::string& part) { return taken.contains(name_of(part)); };
    while (std::ranges::any_of(whole.parts, is_taken)) whole.separator += '/';
    if (whole.separator.size() > 1) {
      entries.notes.push_back(tensor_place(whole.name) + ": its parts are named '" +
                              printable(name_of("PART")) + "', because another tensor is named '" +
                              printable(whole.name) + "/PART'");
    }
    for (std::size_t p = 0; p < whole.parts.size(); ++p) {
      entries.tensors[first_parts[c] + p].name = name_of(whole.parts[p]);
      taken.insert(name_of(whole.parts[p]));
    }
  }
}

}  // namespace ringload::inline v0
