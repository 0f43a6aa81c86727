// SPDX-License-Identifier: Apache-2.0
#pragma once

// Chooses the tensors of a selection, before ranges and devices are resolved. Pure.

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
  const name_index& names;  // Index of `from`.
  const detail::requests& wanted;
  const std::string& source;  // Name of `from` for faults; may be empty.

  std::uint32_t tensors() const { return static_cast<std::uint32_t>(from.tensors.size()); }
  const std::string& name(std::uint32_t t) const { return from.tensors[t].name; }

  // Place of a fault that concerns no single tensor.
  std::string place() const { return place("selection"); }
  std::string place(const std::string& subject) const {
    return source.empty() ? subject : source + ": " + subject;
  }
  fault no_rank(std::uint64_t rank, std::uint64_t ranks) const;

  // Returns no index if the tensor is missing and missing names are allowed.
  result<std::optional<std::uint32_t>> find(const std::string& name) const;
  // A glob that matches no tensor is a fault, unless missing names are allowed.
  result<void> found_any(bool is_matched, const std::string& glob) const;
};

// By tensor of the catalog. A tensor may be in both lists.
struct taken_tensors {
  std::vector<bool> alone;       // Loaded as a tensor of its own.
  std::vector<bool> fused_part;  // Part of a fused tensor.

  bool any(std::uint32_t t) const { return alone[t] || fused_part[t]; }
};

// Applies names, globs, predicates, exceptions, experts and fused tensors. Slices add their tensors
// later.
result<taken_tensors> take_tensors(const selection_context& in);

}  // namespace ringload::inline v0
