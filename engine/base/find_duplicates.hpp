// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds equal objects in memory, such as tensors that share their bytes.

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace ringload::inline v0 {

// Returns a list with one index for each object: the index of the first equal object, which may be
// the object itself. Objects are equal if `address_of` returns the same address for their indices,
// and `same` returns true for their indices.
template <class Index, class AddressOf, class Same>
std::vector<Index> find_duplicates(Index count, const AddressOf& address_of, const Same& same) {
  std::unordered_multimap<const void*, Index> by_address;
  std::vector<Index> out;
  for (Index i = 0; i < count; ++i) {
    const auto [first, last] = by_address.equal_range(address_of(i));
    const auto found =
        std::find_if(first, last, [&](const auto& candidate) { return same(i, candidate.second); });
    out.push_back(found == last ? i : found->second);
    if (found == last) by_address.emplace(address_of(i), i);
  }
  return out;
}

}  // namespace ringload::inline v0
