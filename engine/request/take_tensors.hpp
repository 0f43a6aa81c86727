// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which tensors a selection takes, before ranges and devices are looked at. Pure.

#include <cstdint>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/selection.hpp>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "catalog/name_index.hpp"

namespace ringload::inline v0 {

// A selection, and the catalog that it is resolved against.
struct selection_context {
  const catalog& from;
  const name_index& names;  // Of `from`.
  const detail::requests& wanted;
  const std::string& source;  // Of `from`, for faults; may be empty.

  std::uint32_t tensors() const { return static_cast<std::uint32_t>(from.tensors.size()); }
  const std::string& name(std::uint32_t t) const { return from.tensors[t].name; }

  // Place of a fault that is no one tensor's.
  std::string place() const { return place("selection"); }
  std::string place(const std::string& of) const {
    return source.empty() ? of : source + ": " + of;
  }
  fault no_rank(std::uint64_t rank, std::uint64_t ranks) const;

  // Empty if there is none and missing names are allowed.
  result<std::optional<std::uint32_t>> find(const std::string& name) const;
  // A glob that matches no tensor is a fault, unless missing names are allowed.
  result<void> found_any(bool any, const std::string& glob) const;
};

// By tensor of the catalog. One may be both.
struct taken_tensors {
  std::vector<bool> alone;       // It is loaded by itself.
  std::vector<bool> fused_part;  // It is a part of a fused one.

  bool any(std::uint32_t t) const { return alone[t] || fused_part[t]; }
};

// What names, globs, predicates, exceptions, experts and fused tensors say. Slices take theirs
// later.
result<taken_tensors> take_tensors(const selection_context& in);

}  // namespace ringload::inline v0
